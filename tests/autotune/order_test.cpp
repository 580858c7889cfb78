// What the order of proposals is worth, and whether tunings agree: whole searches over real spaces with simulated times.
#include <cmath>
#include <set>

#include "autotune/host_runner.h"
#include "autotune/search.h"
#include "codegen/compile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"
#include "runtime/error.h"
#include "runtime/random.h"
#include "tests/catch.h"
#include "tests/graphs.h"

using namespace tilewright;
using tilewright::tests::graph_of;
using tilewright::tests::value_of;

namespace {

struct Workload {
  const char* name;
  const char* json;
};

constexpr Workload kWorkloads[] = {
    {"elementwise", R"j({"name": "e", "inputs": {"x": {"dtype": "f32", "shape": [3000, 1000]}},
      "ops": [{"op": "relu", "in": ["x"], "out": "y"}], "outputs": ["y"]})j"},
    {"softmax", R"j({"name": "s", "inputs": {"x": {"dtype": "f32", "shape": [2000, 1000]}},
      "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})j"},
    {"softmax over columns", R"j({"name": "c", "inputs": {"x": {"dtype": "f32", "shape": [16, 500, 300]}},
      "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})j"},
    {"two softmax", R"j({"name": "t", "inputs": {"x": {"dtype": "f32", "shape": [512, 700]}},
      "ops": [{"op": "softmax", "in": ["x"], "out": "s", "axis": 1}, {"op": "softmax", "in": ["s"], "out": "y", "axis": 0}],
      "outputs": ["y"]})j"},
};

// A problem whose true times are those of the cost model, off by a factor that the seed draws: one of each parameter's
// value, and a smaller one of each config.
class Simulation : public CandidateCompiler, public CandidateTester {
 public:
  // `error`: standard deviation of the logarithm of that factor.
  // `noise_seed`: of the timer; the factors' by default.
  Simulation(const char* json, double error, double noise, std::uint64_t seed, std::optional<std::uint64_t> noise_seed = {})
      : graph_(graph_of(json)),
        verifier_(graph_, graph_.default_dims()),
        space_(value_of(make_space(graph_, {}))),
        error_(error),
        seed_(seed),
        timer_(noise, noise_seed.value_or(seed)) {}

  std::optional<double> predicted_us(const ConfigOverrides& config) {
    auto [found, fresh] = predicted_.try_emplace(config);
    if (!fresh) return found->second;
    CompileOptions options;
    options.overrides = config;
    auto prepared = prepare_program(graph_, options);
    if (prepared) {
      found->second = predict_us(graph_, *prepared, graph_.default_dims(), options.device, SmModel(), DeviceRates());
    } else {
      llvm::consumeError(prepared.takeError());
    }
    return found->second;
  }
  double true_us(const ConfigOverrides& config) {
    double sum = gauss(config_text(config)) / 5;
    for (const auto& [name, value] : config)
      sum += gauss(fmt::format("{} {}", name, value)) / std::sqrt(static_cast<double>(config.size()));
    return *predicted_us(config) * std::exp(error_ * sum);
  }

  Candidate compile(const ConfigOverrides& config) override {
    Candidate candidate;
    candidate.config = config;
    candidate.resources.block_threads = 1;
    return candidate;
  }
  llvm::Expected<Trial> verify(const ConfigOverrides& config) override {
    Trial trial;
    trial.report.emplace();
    trial.report->config = config;
    for (const VerifyCase& c : verifier_.cases()) trial.report->cases.push_back({c.name, true, 1e-7, ""});
    return trial;
  }
  llvm::Expected<Trial> time(const ConfigOverrides& config, unsigned samples) override {
    Trial trial;
    trial.timed.us = timer_.samples(true_us(config), samples);
    return trial;
  }

  TuneResult search(TuneOptions options, bool ordered = true) {
    CompilePool pool(*this, {1, 1u << 30});
    auto predict = [&](const ConfigOverrides& config) -> std::optional<double> {
      const auto us = predicted_us(config);
      return us && !ordered ? std::optional<double>(0.0) : us;
    };
    Search search(space_, predict, pool, *this, verifier_, std::move(options));
    return value_of(search.run());
  }
  const Space& space() const { return space_; }

 private:
  double gauss(const std::string& what) const {
    std::uint64_t state = llvm::xxh3_64bits(what) + seed_;
    double sum = -6;  // of twelve in [0, 1)
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(splitmix64(state) >> 11) * 0x1p-53;
    return sum;
  }

  Graph graph_;
  Verifier verifier_;
  Space space_;
  double error_;
  std::uint64_t seed_;
  SimulatedTimer timer_;
  std::map<ConfigOverrides, std::optional<double>> predicted_;
};

// Candidates tried until one lies within 1 % of the best that `candidates` have.
std::size_t tried_until(Simulation& simulation, llvm::ArrayRef<Candidate> candidates, double best_us) {
  for (auto [index, candidate] : llvm::enumerate(candidates)) {
    if (simulation.true_us(candidate.config) <= best_us * (1 + kTieBand)) return index + 1;
  }
  return candidates.size() + 1;
}

TuneOptions quick(std::uint64_t seed, std::size_t candidates) {
  TuneOptions options;
  options.seed = seed;
  options.budget_s = 1e9;
  options.budget_candidates = candidates;
  return options;
}

}  // namespace

// Not run by default: the figures of docs/autotuning.md.
TEST_CASE("measure: candidates until within 1 % of the best, with and without the cost model", "[.measure]") {
  for (const Workload& workload : kWorkloads) {
    for (double error : {0.05, 0.2, 0.5}) {
      double sums[2] = {0, 0};
      std::size_t all = 0;
      constexpr int kSeeds = 30;
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        Simulation simulation(workload.json, error, 0.01, seed);
        std::vector<TuneResult> results;
        double best_us = 1e30;
        for (bool ordered : {false, true}) {
          results.push_back(simulation.search(quick(seed, 300), ordered));
          for (const Candidate& candidate : results.back().candidates) best_us = std::min(best_us, simulation.true_us(candidate.config));
        }
        for (int i : {0, 1}) sums[i] += static_cast<double>(tried_until(simulation, results[i].candidates, best_us));
        all = results[1].candidates.size();
      }
      fmt::print("{:22} model off by {:3.0f} %: {:6.1f} without, {:6.1f} with, of {}\n", workload.name, error * 100, sums[0] / kSeeds,
                 sums[1] / kSeeds, all);
    }
  }
}

TEST_CASE("order: among queued proposals the lowest predicted goes first, behind default and hints, and none is left out", "[autotune]") {
  Simulation simulation(kWorkloads[0].json, 0.0, 0.01, 1);
  TuneOptions options = quick(1, 0);
  const ConfigOverrides hint = [&] {  // the last the model would take
    ConfigOverrides worst;
    for (std::int64_t i = 0; i < simulation.space().combinations(); ++i) {
      const ConfigOverrides config = simulation.space().combination(i);
      const auto us = simulation.predicted_us(config);
      if (us && (worst.empty() || *us > *simulation.predicted_us(worst))) worst = config;
    }
    return worst;
  }();
  options.hints = {hint};
  const TuneResult ordered = simulation.search(options), unordered = simulation.search(options, false);
  REQUIRE(ordered.candidates.size() > 20);
  CHECK(ordered.candidates[0].config == simulation.space().default_config());
  CHECK(ordered.candidates[1].config == hint);
  double last_us = 0;
  for (const Candidate& candidate : llvm::drop_begin(ordered.candidates, 2)) {
    CHECK(*simulation.predicted_us(candidate.config) >= last_us);
    last_us = *simulation.predicted_us(candidate.config);
  }
  auto configs = [](const TuneResult& result) {
    std::set<ConfigOverrides> set;
    for (const Candidate& candidate : result.candidates) set.insert(candidate.config);
    return set;
  };
  CHECK(configs(ordered) == configs(unordered));
  // The model says the truth here.
  CHECK(tried_until(simulation, ordered.candidates, simulation.true_us(unordered.winner->config())) <= 3);
}

TEST_CASE("order: the same seed proposes the same", "[autotune]") {
  std::vector<std::vector<ConfigOverrides>> tried(2);
  for (auto& configs : tried) {
    Simulation simulation(kWorkloads[1].json, 0.1, 0.01, 1);
    for (const Candidate& candidate : simulation.search(quick(9, 80)).candidates) configs.push_back(candidate.config);
  }
  CHECK(tried[0].size() == 80);
  CHECK(tried[0] == tried[1]);
}

// Five tunings from empty, each with noise and restarts of its own: where winners differ, they are equally fast.
TEST_CASE("search: tunings with other seeds agree on the winner or lie in the tie band", "[autotune]") {
  for (const Workload& workload : kWorkloads) {
    std::vector<ConfigOverrides> winners;
    std::vector<double> us;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Simulation simulation(workload.json, 0.3, 0.01, 7, seed);
      const TuneResult result = simulation.search(quick(seed, 200));
      REQUIRE(result.winner.has_value());
      winners.push_back(result.winner->config());
      us.push_back(simulation.true_us(result.winner->config()));
    }
    int pairs = 0, same = 0, tied = 0;
    for (std::size_t a = 0; a < 5; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        ++pairs;
        same += winners[a] == winners[b];
        tied += winners[a] == winners[b] || std::max(us[a], us[b]) <= std::min(us[a], us[b]) * (1 + kTieBand);
      }
    }
    INFO(workload.name << ": " << same << " pairs the same, " << tied << " the same or tied, of " << pairs);
    CHECK(10 * tied >= 9 * pairs);
  }
}
