#include "autotune/search.h"

#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "autotune/host_runner.h"
#include "autotune/records.h"
#include "llvm/ADT/STLExtras.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/graphs.h"

using namespace tilewright;
using tilewright::tests::graph_of;

namespace {

const char* const kGraph = R"j({"name": "g", "dims": {"N": {"default": 6, "min": 1, "max": 64}},
  "inputs": {"x": {"dtype": "f32", "shape": ["N", 40]}},
  "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})j";

// A space of made-up parameters with a bowl of times, its bottom at a = 8, b = 4; configs may be planted to fail.
Space bowl_space() {
  Space space;
  space.parameters = {{"a", {1, 2, 4, 8, 16, 32}, 1, ""}, {"b", {1, 2, 4, 8, 16}, 16, ""}, {"c", {0, 1, 2, 3}, 0, ""}};
  return space;
}

double bowl_us(const ConfigOverrides& config) {
  const double a = std::log2(static_cast<double>(config.at("a"))) - 3, b = std::log2(static_cast<double>(config.at("b"))) - 2;
  return 10 + a * a + b * b + 0.3 * static_cast<double>(config.at("c"));
}

class FakeCompiler : public CandidateCompiler {
 public:
  Candidate compile(const ConfigOverrides& config) override {
    std::this_thread::sleep_for(takes);
    Candidate candidate;
    candidate.config = config;
    candidate.keys = {config_text(config)};
    candidate.resources.registers = config.at("a");
    if (config.at("c") == 3) {
      candidate.fate = Fate::kPruned;
      candidate.reason = "4096 bytes of local memory";
    }
    return candidate;
  }
  std::chrono::milliseconds takes{0};
};

class FakeTester : public CandidateTester {
 public:
  FakeTester(const Verifier& verifier, double noise, std::uint64_t seed) : verifier_(verifier), timer_(noise, seed) {}
  llvm::Expected<Trial> verify(const ConfigOverrides& config) override {
    if (lost_after > 0 && timings > lost_after) return make_error(Status::kMissing, "no device");
    ++verifications;
    Trial trial;
    if (auto planted = plants.find(config); planted != plants.end() && planted->second != Fate::kMeasured) {
      trial.fate = planted->second;
      trial.reason = "planted";
      return trial;
    }
    trial.report.emplace();
    trial.report->config = config;
    for (const VerifyCase& c : verifier_.cases()) trial.report->cases.push_back({c.name, true, 1e-7, ""});
    if (!passing) trial.report->cases.pop_back();
    return trial;
  }
  llvm::Expected<Trial> time(const ConfigOverrides& config, unsigned samples) override {
    if (lost_after > 0 && ++timings > lost_after) return make_error(Status::kMissing, "no device");
    Trial trial;
    trial.timed.us = timer_.samples(bowl_us(config), samples);
    if (disturb) {
      for (double& sample : trial.timed.us) sample *= disturb();
    }
    return trial;
  }
  int lost_after = 0, timings = 0;       // 0: never
  std::function<double()> disturb = {};  // factor of a sample's time
  std::map<ConfigOverrides, Fate> plants;
  bool passing = true;
  int verifications = 0;

 private:
  const Verifier& verifier_;
  SimulatedTimer timer_;
};

struct Bench {
  explicit Bench(double noise = 0.003, std::uint64_t seed = 1)
      : graph(graph_of(kGraph)), verifier(graph, graph.default_dims()), tester(verifier, noise, seed), pool(compiler, {1, 1u << 30}) {}
  TuneResult run(TuneOptions options) {
    Search search(
        space, [](const ConfigOverrides&) { return 0.0; }, pool, tester, verifier, std::move(options));
    auto result = search.run();
    if (!result) FAIL(take_error_facts(result.takeError()).message);
    return std::move(*result);
  }
  Space space = bowl_space();
  Graph graph;
  Verifier verifier;
  FakeTester tester;
  FakeCompiler compiler;
  CompilePool pool;
};

const ConfigOverrides kBest{{"a", 8}, {"b", 4}, {"c", 0}};

TuneOptions local(std::size_t candidates) {
  TuneOptions options;
  options.exhaustive_limit = 10;
  options.budget_candidates = candidates;
  return options;
}

}  // namespace

TEST_CASE("search: a small space is tried whole and the fastest wins", "[autotune]") {
  Bench bench;
  TuneOptions options;
  options.exhaustive_limit = 1000;
  const TuneResult result = bench.run(options);
  CHECK(result.strategy == "exhaustive");
  CHECK(result.candidates.size() == 6 * 5 * 4);
  REQUIRE(result.winner.has_value());
  CHECK(result.winner->config() == kBest);
  CHECK(result.candidates.front().config == bench.space.default_config());
}

TEST_CASE("search: the local search finds the bottom with part of the candidates", "[autotune]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Bench bench(0.003, seed);
    const TuneResult result = bench.run(local(60));
    CHECK(result.strategy == "local search");
    CHECK(result.candidates.size() <= 60);
    REQUIRE(result.winner.has_value());
    CHECK(result.winner->config() == kBest);
  }
}

TEST_CASE("search: what is wrong, crashes or hangs costs itself alone and keeps its reason", "[autotune]") {
  Bench bench;
  bench.tester.plants = {
      {kBest, Fate::kWrong}, {{{"a", 4}, {"b", 4}, {"c", 0}}, Fate::kCrashed}, {{{"a", 16}, {"b", 4}, {"c", 0}}, Fate::kTimedOut}};
  TuneOptions options;
  options.exhaustive_limit = 1000;
  const TuneResult result = bench.run(options);
  REQUIRE(result.winner.has_value());
  CHECK(result.winner->config() == ConfigOverrides{{"a", 8}, {"b", 4}, {"c", 1}});
  std::size_t planted = 0, pruned = 0;
  for (const Candidate& c : result.candidates) {
    planted += c.reason == "planted";
    pruned += c.fate == Fate::kPruned;
    if (c.fate != Fate::kMeasured) CHECK(!c.reason.empty());
  }
  CHECK(planted == 3);
  CHECK(pruned == 30);
}

TEST_CASE("search: without a complete verification there is no winner", "[autotune]") {
  Bench bench;
  bench.tester.passing = false;
  const TuneResult result = bench.run(local(12));
  CHECK_FALSE(result.winner.has_value());
  for (const Candidate& c : result.candidates) CHECK(c.fate != Fate::kMeasured);
}

TEST_CASE("search: a tie goes to fewer resources and never beyond the tie band of the default", "[autotune]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Bench bench(0.002, seed);
    bench.space.parameters = {{"a", {8, 8 + 1}, 9, ""}, {"b", {4}, 4, ""}, {"c", {0}, 0, ""}};  // 10.0 and 10.03 us
    const TuneResult result = bench.run({});
    REQUIRE(result.winner.has_value());
    CHECK(result.winner->config().at("a") == 8);
  }
}

TEST_CASE("search: an interrupted run gives the best so far, and continuing ends with the same winner", "[autotune]") {
  Bench whole;
  const TuneResult all = whole.run(local(60));
  Bench first;
  TuneOptions options = local(60);
  std::vector<Candidate> saved;
  options.save = [&](llvm::ArrayRef<Candidate> candidates) { saved.assign(candidates.begin(), candidates.end()); };
  options.interrupted = [&] { return saved.size() >= 17; };
  const TuneResult part = first.run(options);
  CHECK(part.ended == "interrupted");
  CHECK(part.candidates.size() == 17);
  REQUIRE(part.winner.has_value());
  Bench second;
  TuneOptions more = local(60);
  more.known = saved;
  const TuneResult rest = second.run(more);
  REQUIRE(rest.winner.has_value());
  CHECK(rest.winner->config() == all.winner->config());
  CHECK(second.tester.verifications <= 60 - 17 + 1);
}

TEST_CASE("search: what an interrupted run knew stays in the state from the first save of the next", "[autotune]") {
  Bench first;
  TuneOptions options = local(60);
  std::vector<Candidate> saved;
  options.save = [&](llvm::ArrayRef<Candidate> candidates) { saved.assign(candidates.begin(), candidates.end()); };
  options.interrupted = [&] { return saved.size() >= 30; };
  first.run(options);
  REQUIRE(saved.size() == 30);
  Bench second;
  TuneOptions more = local(60);
  more.known = saved;
  std::size_t fewest = 1000;
  more.save = [&](llvm::ArrayRef<Candidate> candidates) {
    fewest = std::min(fewest, candidates.size());
    std::set<ConfigOverrides> configs;
    for (const Candidate& candidate : candidates) configs.insert(candidate.config);
    CHECK(configs.size() == candidates.size());
  };
  second.run(more);
  CHECK(fewest == 30);
}

TEST_CASE("search: a lost device leaves the best so far, and continuing finds the same winner", "[autotune]") {
  Bench whole;
  const TuneResult all = whole.run(local(60));
  for (int lost_after : {1, 20, 60}) {  // in the search, in the search, in the final rounds
    Bench first;
    first.tester.lost_after = lost_after;
    std::vector<Candidate> saved;
    TuneOptions options = local(60);
    options.save = [&](llvm::ArrayRef<Candidate> candidates) { saved.assign(candidates.begin(), candidates.end()); };
    const TuneResult part = first.run(options);
    CHECK(part.ended == "device lost");
    CHECK(part.lost.find("no device") != std::string::npos);
    REQUIRE(part.winner.has_value());
    for (const Candidate& c : saved) CHECK((c.fate == Fate::kMeasured || c.fate == Fate::kPruned));
    Bench second;
    TuneOptions more = local(60);
    more.known = saved;
    const TuneResult rest = second.run(more);
    CHECK(rest.lost.empty());
    REQUIRE(rest.winner.has_value());
    CHECK(rest.winner->config() == all.winner->config());
  }
}

TEST_CASE("search: what was verified in an earlier process alone does not win on a lost device", "[autotune]") {
  Bench first;
  TuneOptions options = local(20);
  std::vector<Candidate> saved;
  options.save = [&](llvm::ArrayRef<Candidate> candidates) { saved.assign(candidates.begin(), candidates.end()); };
  first.run(options);
  Bench second;
  second.tester.lost_after = 1;
  options.known = saved;
  const TuneResult result = second.run(options);
  CHECK(result.ended == "device lost");
  CHECK_FALSE(result.winner.has_value());
  CHECK(result.candidates.size() == 20);
}

TEST_CASE("search: a device that is not there from the start is an error", "[autotune]") {
  class Absent : public CandidateTester {
    llvm::Expected<Trial> verify(const ConfigOverrides&) override { return make_error(Status::kMissing, "no device"); }
    llvm::Expected<Trial> time(const ConfigOverrides&, unsigned) override { return make_error(Status::kMissing, "no device"); }
  } absent;
  Bench bench;
  Search search(
      bench.space, [](const ConfigOverrides&) { return 0.0; }, bench.pool, absent, bench.verifier, local(12));
  auto result = search.run();
  REQUIRE_FALSE(static_cast<bool>(result));
  CHECK(take_error_facts(result.takeError()).status == Status::kMissing);
}

TEST_CASE("search: other work on the device for a while is waited for and changes no winner", "[autotune]") {
  Bench bench;
  int samples = 0;
  double waited_s = 0;
  std::vector<std::string> said;
  bool busy = false;
  // Another process works in two spells, in the search and in the final rounds, each until it was waited for.
  bench.tester.disturb = [&] {
    ++samples;
    if (samples == 40 || samples == 200) busy = true;
    return busy && samples % 2 == 0 ? 1.9 : 1.0;
  };
  TuneOptions options = local(50);
  options.wait = [&](double seconds) {
    waited_s += seconds;
    busy = false;
  };
  options.say = [&](const std::string& text) { said.push_back(text); };
  const TuneResult result = bench.run(options);
  CHECK(result.ended == "budget");
  REQUIRE(result.winner.has_value());
  CHECK(result.winner->config() == kBest);
  CHECK(said.size() == 1);
  CHECK(waited_s > 0);
  CHECK(result.conditions.getObject("repeated")->getInteger("busy").value_or(0) >= 2);
  for (const Candidate& c : result.candidates) {
    for (double us : c.samples_us) CHECK(us < 1.5 * bowl_us(c.config));
  }
}

TEST_CASE("search: other work that does not end ends the search with what there is", "[autotune]") {
  Bench bench;
  int samples = 0;
  bench.tester.disturb = [&] { return ++samples > 30 && samples % 3 == 0 ? 2.5 : 1.0; };
  TuneOptions options = local(60);
  options.wait = [](double) {};
  const TuneResult result = bench.run(options);
  CHECK(result.ended == "busy");
  CHECK(result.candidates.size() < 60);
  CHECK(result.winner.has_value());
  CHECK(result.conditions.getObject("kept")->getInteger("busy") == 3);
}

TEST_CASE("search: how long nothing could run for want of the compiler is known", "[autotune]") {
  Bench bench;
  bench.compiler.takes = std::chrono::milliseconds(10);
  const TuneResult result = bench.run(local(8));
  CHECK(result.waited_s > 0.05);
  CHECK(result.waited_s <= result.seconds);
}

TEST_CASE("search: a budget of no time still tries the default", "[autotune]") {
  Bench bench;
  TuneOptions options;
  options.budget_s = 0;
  const TuneResult result = bench.run(options);
  REQUIRE(result.winner.has_value());
  CHECK(result.winner->config() == bench.space.default_config());
  CHECK(result.ended == "budget");
}

TEST_CASE("search: real kernels on the CPU, timed by a simulation, become a record", "[autotune]") {
  const Graph graph = graph_of(kGraph);
  const auto dims = graph.default_dims();
  auto space = make_space(graph, {});
  REQUIRE(static_cast<bool>(space));
  Verifier verifier(graph, dims);
  HostRunner runner(graph, dims, {}, Target{}, 0.002, 1);
  LocalTester tester(verifier, runner);
  class Lowering : public CandidateCompiler {
   public:
    Candidate compile(const ConfigOverrides& config) override {
      Candidate candidate;
      candidate.config = config;
      return candidate;
    }
  } compiler;
  CompilePool pool(compiler, {1, 1u << 30});
  TuneOptions options = local(3);
  Search search(
      *space,
      [&](const ConfigOverrides& config) -> std::optional<double> {
        return take_error_facts(check_config(graph, {}, *space, config)).message.empty() ? std::optional<double>(0.0) : std::nullopt;
      },
      pool, tester, verifier, options);
  auto result = search.run();
  if (!result) FAIL(take_error_facts(result.takeError()).message);
  for (const Candidate& c : result->candidates) INFO(c.name() << ": " << c.reason);
  REQUIRE(result->winner.has_value());
  CHECK(result->winner->report().cases.size() == 5);
  auto record = make_record(record_problem(graph, dims, "host", Target{}, "simulated"), *result->winner,
                            {result->candidates, space->default_config(), space->identity(), {}});
  REQUIRE(static_cast<bool>(record));
  auto back = TuningRecord::parse(record->text());
  if (!back) FAIL(take_error_facts(back.takeError()).message);
  CHECK(back->text() == record->text());
}
