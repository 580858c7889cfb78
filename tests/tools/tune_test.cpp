// tilewright tune and records, on a machine without a GPU: kernels on the CPU, simulated times.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/catch.h"
#include "tests/tools/tool_process.h"

using namespace tilewright_tests;

namespace {

// A store and records of the test's own.
struct TuneHome {
  ScratchDirectory scratch;
  Environment environment{{"TILEWRIGHT_CACHE_DIR", scratch.path("store")}, {"TILEWRIGHT_RECORDS_DIR", scratch.path("records")}};
  std::string file = scratch.write("softmax.json", kSoftmax);
  ToolRun tune(std::vector<std::string> more) const {
    more.insert(more.begin(), {"tune", file, "--on", "host"});
    return run_tool(more, environment);
  }
  std::size_t record_count() const {
    std::size_t count = 0;
    if (std::filesystem::exists(scratch.path("records"))) {
      for (const auto& entry : std::filesystem::directory_iterator(scratch.path("records"))) count += entry.path().extension() == ".json";
    }
    return count;
  }
};

}  // namespace

TEST_CASE("tune: a few candidates on the CPU become a record that the records commands read", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  const llvm::json::Object first = json_of(home.tune({"--budget", "4c", "--json"}));
  const llvm::json::Array* tuned = first.getArray("tuned");
  REQUIRE(tuned != nullptr);
  REQUIRE(tuned->size() == 1);
  const llvm::json::Object& one = *(*tuned)[0].getAsObject();
  CHECK(one.getString("strategy") == llvm::StringRef("local search"));
  CHECK(one.getString("ended") == llvm::StringRef("budget"));
  REQUIRE(one.getNumber("winner_us").has_value());
  CHECK(*one.getNumber("winner_us") <= *one.getNumber("default_us") * 1.01);
  REQUIRE(home.record_count() == 1);

  const ToolRun ls = run_tool({"records", "ls"}, home.environment);
  CHECK(ls.status == 0);
  CHECK(contains(ls.out, "small_softmax"));
  CHECK(contains(ls.out, "simulated"));
  const std::string name = ls.out.substr(0, 12);
  const ToolRun show = run_tool({"records", "show", name}, home.environment);
  CHECK(show.status == 0);
  CHECK(contains(show.out, "winner"));
  CHECK(contains(show.out, "\"nvrtc\""));
  const ToolRun diff = run_tool({"records", "diff", name, name}, home.environment);
  CHECK(diff.out == "both say the same\n");

  ScratchDirectory other;
  Environment elsewhere = home.environment;
  elsewhere["TILEWRIGHT_RECORDS_DIR"] = other.path("records");
  const ToolRun merged = run_tool({"records", "merge", home.scratch.path("records")}, elsewhere);
  CHECK(merged.status == 0);
  CHECK(contains(merged.out, "taken"));

  std::ofstream(home.scratch.path("records/broken.json")) << "{";
  const ToolRun bad = run_tool({"records", "ls"}, home.environment);
  CHECK(bad.status == 1);
  CHECK(contains(bad.out, "(ignored)"));
}

// Once `states` holds an unfinished tuning: takes the description away and ends the helper that works on it, as if the device were gone.
void lose_helper(const std::string& states, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (int i = 0; i < 6000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
    if (!fs::exists(states) || fs::is_empty(states, ignored)) continue;
    fs::rename(file, file + ".away");
    for (const auto& process : fs::directory_iterator("/proc", ignored)) {
      const std::string words = file_text(process.path().string() + "/cmdline");
      if (contains(words, "tune-helper") && contains(words, file)) ::kill(std::stoi(process.path().filename().string()), SIGKILL);
    }
    return;
  }
}

TEST_CASE("tune: when no helper can begin any more, the best so far is kept and the status is 3; --resume goes on", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  std::thread breaker([&] { lose_helper(home.scratch.path("records/unfinished"), home.file); });
  const ToolRun lost = home.tune({"--budget", "40c"});
  breaker.join();
  CHECK(lost.status == 3);
  CHECK(contains(lost.out, "device lost"));
  CHECK(contains(lost.err, "3 helper processes could not begin"));
  CHECK(contains(lost.err, "--resume"));
  CHECK(home.record_count() == 1);
  REQUIRE_FALSE(std::filesystem::is_empty(home.scratch.path("records/unfinished")));
  CHECK_FALSE(contains(lost.out, "crashed"));
  std::filesystem::rename(home.file + ".away", home.file);
  const ToolRun resumed = home.tune({"--budget", "3c", "--resume"});
  CHECK(resumed.status == 0);
  CHECK(contains(resumed.out, "winner"));
}

TEST_CASE("tune: a store that cannot be written is replaced for the tuning", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  Environment environment = home.environment;
  environment["TILEWRIGHT_CACHE_DIR"] = "/dev/null/store";
  environment["TMPDIR"] = home.scratch.path();
  const ToolRun run = run_tool({"tune", home.file, "--on", "host", "--budget", "2c"}, environment);
  INFO(run.err);
  CHECK(run.status == 0);
  CHECK(contains(run.err, "cannot be written"));
  CHECK(home.record_count() == 1);
  for (const auto& entry : std::filesystem::directory_iterator(home.scratch.path()))
    CHECK_FALSE(contains(entry.path().filename().string(), "tilewright-store"));
}

TEST_CASE("tune: bad budgets, policies and files are refused before anything runs", "[tools]") {
  const TuneHome home;
  for (const char* budget : {"0", "-3", "0s", "-1c", "0c", "0.5c", "2.5c", "infs", "infc", "nan", "1e30c", "soon", "5h", ""}) {
    INFO(budget);
    check_failure(home.tune({std::string("--budget=") + budget}), 2, {});
  }
  check_failure(home.tune({"--policy", "hot"}), 2, {"wanted cold, warm or plain"});
  check_failure(run_tool({"tune", "/nonexistent.json", "--on", "host"}), 2, {"/nonexistent.json"});
  ScratchDirectory empty;
  check_failure(run_tool({"tune", empty.path(), "--on", "host"}), 2, {"no description"});
  check_failure(run_tool({"records", "show", "abc"}, home.environment), 2, {"none begins with abc"});
  CHECK(home.record_count() == 0);
}

TEST_CASE("tune: a state that cannot be continued is named, and the tuning starts anew", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  const ToolRun nothing = home.tune({"--budget", "2c", "--resume"});
  CHECK(nothing.status == 0);
  CHECK(contains(nothing.err, "nothing to resume: no tuning was interrupted"));
  // A tuning whose candidates all fail keeps its state: here that of a helper with no host compiler.
  const std::string unfinished = home.scratch.path("records") + "/unfinished";
  std::filesystem::path state;
  Environment no_compiler = home.environment;
  no_compiler["PATH"] = "/nonexistent";
  no_compiler["TILEWRIGHT_CACHE_DIR"] = home.scratch.path("empty_store");
  run_tool({"tune", home.file, "--on", "host", "--budget", "1c"}, no_compiler);
  for (const auto& entry : std::filesystem::directory_iterator(unfinished)) state = entry.path();
  REQUIRE(!state.empty());
  const std::string good = file_text(state.string());
  const std::string build = "\"build\": \"";
  std::string other = good;
  REQUIRE(contains(other, build));
  other.insert(other.find(build) + build.size(), "other");
  for (const auto& [text, said] :
       std::vector<std::pair<std::string, std::string>>{{"", "nothing to resume"},
                                                        {"{", "nothing to resume"},
                                                        {"[]", "candidates are missing"},
                                                        {R"j({"candidates": [1]})j", "of another space or another build"},
                                                        {good.substr(0, good.size() / 2), "nothing to resume"},
                                                        {other, "of another space or another build"}}) {
    INFO(text);
    std::ofstream(state) << text;
    const ToolRun run = home.tune({"--budget", "2c", "--resume"});
    CHECK(run.status == 0);
    CHECK(contains(run.err, said));
    CHECK(home.record_count() == 1);
    CHECK_FALSE(std::filesystem::exists(state));
  }
}

TEST_CASE("tune: a record that is corrupt, of another version or from another device is passed over and replaced", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  REQUIRE(home.tune({"--budget", "2c"}).status == 0);
  std::filesystem::path record;
  for (const auto& entry : std::filesystem::directory_iterator(home.scratch.path("records"))) {
    if (entry.path().extension() == ".json") record = entry.path();
  }
  const std::string good = file_text(record.string());
  auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    REQUIRE(contains(text, from));
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::vector<std::string> bad{"", "{", good.substr(0, good.size() / 2), replaced("\"format\": 2", "\"format\": 99"),
                                     replaced("\"winner\": {", "\"winner\": {\"block_threads\": 1, \"none\":")};
  for (const std::string& text : bad) {
    INFO(text);
    std::ofstream(record) << text;
    CHECK(run_tool({"records", "ls"}, home.environment).status == 1);
    CHECK(home.tune({"--budget", "2c"}).status == 0);
    CHECK(run_tool({"records", "ls"}, home.environment).status == 0);
    CHECK(home.record_count() == 1);
  }
  // Another device's winner starts a search and is not replaced; its file has another name.
  std::filesystem::remove(record);
  home.scratch.write("records/" + record.filename().string() + "-other.json", replaced("host simulation", "GPU of others"));
  CHECK(home.tune({"--budget", "2c"}).status == 0);
  CHECK(home.record_count() == 2);
  CHECK(contains(run_tool({"records", "ls"}, home.environment).out, "GPU of others"));
}

TEST_CASE("tune: a problem with nothing to choose or nothing to compare", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  const std::string copied =
      home.scratch.write("copied.json", R"({"name": "c", "inputs": {"x": {"dtype": "f32", "shape": [4]}}, "ops": [], "outputs": ["x"]})");
  check_failure(run_tool({"tune", copied, "--on", "host"}, home.environment), 2, {"is an input"});
  const std::string large = home.scratch.write("large.json", R"({"name": "l", "inputs": {"x": {"dtype": "bool", "shape": [30000000000]}},
    "ops": [{"op": "map", "in": ["x"], "out": "y", "expr": "!x"}], "outputs": ["y"]})");
  const ToolRun run = run_tool({"tune", large, "--on", "host", "--budget", "1c"}, home.environment);
  CHECK(run.status == 1);
  CHECK(contains(run.err, "no case is small enough for a reference"));
  CHECK(home.record_count() == 0);
  // Nothing to compute: every config is as fast.
  const std::string empty = home.scratch.write("empty.json", R"({"name": "e", "inputs": {"x": {"dtype": "f32", "shape": [0, 8]}},
    "ops": [{"op": "relu", "in": ["x"], "out": "y"}], "outputs": ["y"]})");
  CHECK(run_tool({"tune", empty, "--on", "host", "--budget", "1c"}, home.environment).status == 0);
  CHECK(home.record_count() == 1);
}

TEST_CASE("tune: without a GPU the machine lacks what is needed; a named target gets its first guess", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  Environment environment = home.environment;
  environment.merge(without_driver());
  check_failure(run_tool({"tune", home.file}, environment), 3, {});
  const ToolRun absent = run_tool({"tune", home.file, "--target", "sm_100a"}, environment);
  INFO(absent.err);
  CHECK(absent.status == 0);
  CHECK(contains(absent.out, "first guess"));
  CHECK(home.record_count() == 0);
}

TEST_CASE("show: the space lists parameters, values and the default", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("two.json", kTwoKernels);
  const ToolRun text = run_tool({"show", file, "--what", "space"});
  CHECK(text.status == 0);
  CHECK(contains(text.out, "1.axis_threads"));
  const llvm::json::Object json = json_of(run_tool({"show", file, "--what", "space", "--json"}));
  REQUIRE(json.getArray("parameters") != nullptr);
  CHECK(json.getObject("default")->getInteger("0.block_threads").has_value());
}

TEST_CASE("tune: --report and records report write a page of what was found", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  const std::string page = home.scratch.path("tune.html"), again = home.scratch.path("records.html");
  REQUIRE(home.tune({"--budget", "3c", "--report", page}).status == 0);
  const std::string text = file_text(page);
  CHECK(contains(text, "small_softmax"));
  CHECK(contains(text, "Times are simulated"));
  CHECK(contains(text, "Roofline"));
  CHECK(contains(text, "class=\"roof\""));
  CHECK(contains(text, "ended by: budget"));
  // The record alone gives the same page.
  const ToolRun report = run_tool({"records", "report", "--out", again}, home.environment);
  INFO(report.err);
  CHECK(report.status == 0);
  CHECK(contains(report.out, "1 problem"));
  CHECK(file_text(again) == text);

  const std::string directory = home.scratch.path("records");
  home.scratch.write("records/broken.json", "{");
  const ToolRun broken = run_tool({"records", "report", directory, "--out", again}, home.environment);
  CHECK(broken.status == 1);
  CHECK(contains(broken.err, "broken.json is ignored"));
  CHECK(contains(file_text(again), "broken.json is ignored"));
  CHECK(contains(file_text(again), "small_softmax"));

  ScratchDirectory empty;
  check_failure(run_tool({"records", "report", empty.path("."), "--out", again}, home.environment), 2, {"none to report on"});
  check_failure(run_tool({"records", "report", directory + "/none", "--out", again}, home.environment), 2, {"none begins with"});
}

TEST_CASE("tune: buckets of a range are tuned at their representatives, and say what their winners cost elsewhere", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  const llvm::json::Object json = json_of(home.tune({"--budget", "3c", "--dim", "N=5..10", "--json"}));
  const llvm::json::Array* tuned = json.getArray("tuned");
  REQUIRE(tuned != nullptr);
  REQUIRE(tuned->size() == 2);
  CHECK(home.record_count() == 2);
  const llvm::json::Object& first = *(*tuned)[0].getAsObject();
  CHECK(first.getObject("dims")->getInteger("N") == 8);
  CHECK(first.getObject("bucket")->getObject("low")->getInteger("N") == 5);
  REQUIRE(first.getArray("transfers") != nullptr);
  REQUIRE(first.getArray("transfers")->size() == 2);
  const llvm::json::Object& transfer = *(*first.getArray("transfers"))[0].getAsObject();
  CHECK(transfer.getObject("dims")->getInteger("N") == 5);
  CHECK(transfer.getNumber("regret").has_value());
  CHECK(contains(file_text(first.getString("record")->str()), "\"transfers\""));

  // A size that is given is tuned as it is.
  const llvm::json::Object fixed = json_of(home.tune({"--budget", "3c", "--dim", "N=7", "--json"}));
  const llvm::json::Object& one = *(*fixed.getArray("tuned"))[0].getAsObject();
  CHECK(one.getObject("dims")->getInteger("N") == 7);
  CHECK(one.getObject("bucket") == nullptr);
  CHECK(home.record_count() == 3);
}

TEST_CASE("tune: a manifest and several devices fill records and store in one go", "[tools]") {
  if (!has_nvrtc()) return;
  const TuneHome home;
  home.scratch.write("two.json", kTwoKernels);
  const std::string manifest = home.scratch.write(
      "suite.json", R"j({"descriptions": [{"file": "softmax.json", "dims": {"N": 6}}, {"file": "two.json", "targets": ["sm_100a"]}]})j");
  const ToolRun run = run_tool({"tune", manifest, "--on", "host", "--budget", "2c", "--device", "0,1", "--json"}, home.environment);
  const llvm::json::Object json = json_of(run);
  REQUIRE(json.getArray("tuned")->size() == 2);
  CHECK((*json.getArray("tuned"))[0].getAsObject()->getString("name") == llvm::StringRef("small_softmax"));
  CHECK((*json.getArray("tuned"))[1].getAsObject()->getString("name") == llvm::StringRef("two_kernels"));
  REQUIRE(json.getArray("absent")->size() == 1);
  CHECK(contains((*json.getArray("absent"))[0].getAsString()->str(), "two_kernels for sm_100a"));
  CHECK(home.record_count() == 2);

  check_failure(home.tune({"--device", "0,0"}), 2, {"0 is named twice"});
  check_failure(home.tune({"--device", "first"}), 2, {"wanted ordinals"});
  // Time limits that nothing keeps: both descriptions are told of, and nothing is recorded over what there is.
  const ToolRun late = run_tool({"tune", manifest, "--on", "host", "--budget", "1c", "--time-limit", "0.000001"}, home.environment);
  CHECK(late.status == 1);
  CHECK(contains(late.out, "small_softmax"));
  CHECK(contains(late.out, "two_kernels"));
  CHECK(contains(late.out, "nothing is recorded"));
}
