// tilewright tune, killed at any moment: what was tried before is kept, and continuing ends with the same winner.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/random.h"
#include "tests/catch.h"
#include "tests/tools/tool_process.h"

using namespace tilewright_tests;

namespace {

using Clock = std::chrono::steady_clock;

// 20 configs, tried whole in about a second once their kernels are in the store.
const char* const kRelu = R"({"name": "relu", "inputs": {"x": {"dtype": "f32", "shape": ["N", 40]}},
  "dims": {"N": {"default": 3, "min": 0, "max": 64}}, "ops": [{"op": "relu", "in": ["x"], "out": "y"}], "outputs": ["y"]})";

// Store, records and unfinished state of this test; the store is warm after the first tuning.
struct Killing {
  ScratchDirectory scratch;
  std::string file = scratch.write("relu.json", kRelu), records = scratch.path("records"), progress = scratch.path("progress");
  Environment environment{{"TILEWRIGHT_CACHE_DIR", scratch.path("store")}, {"TILEWRIGHT_RECORDS_DIR", records}};
  std::vector<std::string> arguments(bool resume) const {
    std::vector<std::string> words{"tune", file, "--on", "host", "--noise", "0", "--seed", "3", "--budget", "20c", "--json"};
    if (resume) words.push_back("--resume");
    return words;
  }
  // The tool in a process group of its own, its progress in a file.
  pid_t start(bool resume) const {
    std::vector<std::string> words = arguments(resume), variables;
    words.insert(words.begin(), TILEWRIGHT_TOOL);
    for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
    for (const auto& [name, value] : environment) variables.insert(variables.begin(), name + "=" + value);
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, progress.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    pid_t process = -1;
    const int failed = ::posix_spawn(&process, TILEWRIGHT_TOOL, &actions, &attributes, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    REQUIRE(failed == 0);
    return process;
  }
  // Candidates in the unfinished state, by their config; empty without one. A state that is no JSON is a failed test.
  std::map<std::string, std::vector<double>> saved() const {
    const auto directory = std::filesystem::path(records) / "unfinished";
    std::map<std::string, std::vector<double>> candidates;
    if (!std::filesystem::exists(directory)) return candidates;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().extension() == ".json") candidates = candidates_of(file_text(entry.path().string()));
    }
    return candidates;
  }
  std::map<std::string, std::vector<double>> recorded() const {
    for (const auto& entry : std::filesystem::directory_iterator(records)) {
      if (entry.path().extension() == ".json") return candidates_of(file_text(entry.path().string()));
    }
    return {};
  }
  static std::map<std::string, std::vector<double>> candidates_of(const std::string& text) {
    auto json = llvm::json::parse(text);
    if (!json) FAIL(llvm::toString(json.takeError()) << ": " << text);
    std::map<std::string, std::vector<double>> candidates;
    for (const llvm::json::Value& value : *json->getAsObject()->getArray("candidates")) {
      const llvm::json::Object& candidate = *value.getAsObject();
      std::vector<double>& samples = candidates[config_of(candidate.getObject("config"))];
      for (const llvm::json::Value& sample : *candidate.getArray("samples_us")) samples.push_back(*sample.getAsNumber());
    }
    return candidates;
  }
  static std::string config_of(const llvm::json::Object* config) {
    std::map<std::string, std::int64_t> sorted;
    for (const auto& [name, value] : *config) sorted[name.str()] = *value.getAsInteger();
    std::string text;
    for (const auto& [name, value] : sorted) text += name + "=" + std::to_string(value) + " ";
    return text;
  }
  // The number of candidates that the progress named last.
  std::size_t tried() const {
    const std::string text = file_text(progress);
    const std::size_t at = text.rfind(" tried");
    if (at == std::string::npos) return 0;
    const std::size_t begin = text.rfind(' ', at - 1) + 1;
    return static_cast<std::size_t>(std::stoul(text.substr(begin, at - begin)));
  }
  // Helpers of this test's file that run.
  std::size_t helpers() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string command = file_text((entry.path() / "cmdline").string());
      count += (contains(command, "tune-helper") || contains(command, "tune-compiler")) && contains(command, file);
    }
    return count;
  }
};

// Helpers end with who started them; the kernel may take a moment for it.
bool all_ended(const Killing& killing) {
  for (int i = 0; i < 500; ++i) {
    if (killing.helpers() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

int end_of(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Every candidate of the state is in `after` with the samples it had.
void check_kept(const std::map<std::string, std::vector<double>>& before, const std::map<std::string, std::vector<double>>& after) {
  for (const auto& [config, samples] : before) {
    INFO(config);
    const auto found = after.find(config);
    REQUIRE(found != after.end());
    REQUIRE(found->second.size() >= samples.size());
    CHECK(std::equal(samples.begin(), samples.end(), found->second.begin()));
  }
}

}  // namespace

// TILEWRIGHT_TEST_KILLS: how many moments, 20 without it.
TEST_CASE("tune: killed at random moments, it loses the candidate in flight at most and ends with the same winner", "[tools]") {
  if (!has_nvrtc()) return;
  const char* wanted = std::getenv("TILEWRIGHT_TEST_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 20;
  const Killing killing;
  auto winner_of = [](const ToolRun& run) {
    const llvm::json::Object json = json_of(run);
    return Killing::config_of((*json.getArray("tuned"))[0].getAsObject()->getObject("winner"));
  };
  const std::string winner = winner_of(run_tool(killing.arguments(false), killing.environment));
  const std::size_t all = killing.recorded().size();
  CHECK(all == 20);
  const auto start = Clock::now();
  REQUIRE(WIFEXITED(end_of(killing.start(false))));  // with a warm store: how long the moments reach
  const double whole_s = std::chrono::duration<double>(Clock::now() - start).count();
  std::uint64_t random = 7;
  int killed = 0;
  std::size_t most_saved = 0;
  std::map<std::string, std::vector<double>> before;  // of what is being continued
  for (int moment = 0; moment < kills; ++moment) {
    INFO("moment " << moment);
    const bool resume = !before.empty();
    const pid_t process = killing.start(resume);
    const double share = static_cast<double>(tilewright::splitmix64(random) >> 11) * 0x1p-53;
    std::this_thread::sleep_for(std::chrono::duration<double>(share * whole_s));
    ::kill(moment % 2 == 0 ? -process : process, SIGKILL);  // the group, or the parent alone
    const int status = end_of(process);
    CHECK(all_ended(killing));
    if (WIFEXITED(status)) {  // done before its moment
      CHECK(WEXITSTATUS(status) == 0);
      check_kept(before, killing.recorded());
      before.clear();
      continue;
    }
    ++killed;
    const auto after = killing.saved();
    CHECK(after.size() >= killing.tried());  // said on slow machines alone
    check_kept(before, after);
    most_saved = std::max(most_saved, after.size());
    before = after;
    if (after.size() >= all || moment % 4 == 3) {
      CHECK(winner_of(run_tool(killing.arguments(true), killing.environment)) == winner);
      check_kept(before, killing.recorded());
      CHECK(killing.saved().empty());
      before.clear();
    }
  }
  CHECK(winner_of(run_tool(killing.arguments(true), killing.environment)) == winner);
  check_kept(before, killing.recorded());
  CHECK(killed > kills / 2);
  CHECK(most_saved > all / 2);
  CHECK(all_ended(killing));
}
