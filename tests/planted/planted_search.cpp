#include "tests/planted/planted_search.h"

#include <cstdlib>

#include "autotune/compile_worker.h"
#include "autotune/records.h"
#include "autotune/report.h"
#include "autotune/search.h"
#include "autotune/tester.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/catch.h"
#include "tests/scratch.h"

namespace tilewright::tests {
namespace {

TuneResult search_of(const Graph& graph, const Space& space, const CompileOptions& options, const Target& target, std::vector<Plant> plants,
                     Place place, const std::string& helper) {
  const auto dims = graph.default_dims();
  PlantedBuilders builders(std::move(plants));
  WorkerOptions worker_options;
  worker_options.program = helper;
  worker_options.arguments = {place == Place::kGpu ? "gpu" : "host", target.name()};
  worker_options.time_limit_s = 8;
  WorkerCompiler planted(worker_options);
  PlantedCompiler sound(graph, target, options, builders);
  CandidateCompiler& compiler = builders.plants().empty() ? static_cast<CandidateCompiler&>(sound) : planted;
  CompilePool pool(compiler, PoolOptions{2, 0});
  HelperOptions helper_options;
  helper_options.program = helper;
  helper_options.arguments = {place == Place::kGpu ? "gpu" : "host"};
  helper_options.verify_limit_s = place == Place::kGpu ? 8 : 12;  // a kernel for the CPU is compiled in it
  HelperTester tester(helper_options);
  const Verifier verifier(graph, dims);
  TuneOptions tune;
  tune.budget_s = 300;
  // Without plants their configs are left out.
  const std::vector<Plant> left_out = builders.plants().empty() ? make_plants(place) : std::vector<Plant>();
  auto predict = [&](const ConfigOverrides& config) -> std::optional<double> {
    CompileOptions chosen = options;
    chosen.overrides = config;
    auto prepared = prepare_program(graph, chosen);
    if (prepared && llvm::none_of(left_out, [&](const Plant& plant) { return plant.config == config; }))
      return predict_us(graph, *prepared, dims, options.device, sm_model(target), DeviceRates());
    llvm::consumeError(prepared.takeError());
    return std::nullopt;
  };
  Search search(space, predict, pool, tester, verifier, std::move(tune));
  return value_of(search.run());
}

}  // namespace

void check_planted_search(Place place, const Target& target, const std::string& helper) {
  const ScratchDirectory store;
  ::setenv("TILEWRIGHT_CACHE_DIR", store.path().c_str(), 1);
  const Graph graph = value_of(planted_graph());
  CompileOptions options;
  options.device = device_model(target);
  const Space space = value_of(planted_space(graph, options));
  const std::vector<Plant> plants = make_plants(place);
  const TuneResult result = search_of(graph, space, options, target, plants, place, helper);
  CHECK(result.strategy == "exhaustive");
  CHECK(result.candidates.size() == static_cast<std::size_t>(space.combinations()));
  const RecordProblem problem = record_problem(graph, graph.default_dims(), "planted", target, "cold");
  REQUIRE(result.winner.has_value());
  const TuningRecord record =
      value_of(make_record(problem, *result.winner, {result.candidates, space.default_config(), space.identity(), {}}));
  const std::string page = report_html({report_problem(record)});
  for (const Candidate& candidate : result.candidates) {
    const auto plant = llvm::find_if(plants, [&](const Plant& p) { return p.config == candidate.config; });
    INFO((plant == plants.end() ? "no plant" : plant->name)
         << ", " << candidate.name() << ": " << fate_name(candidate.fate).str() << ", " << candidate.reason);
    if (plant == plants.end()) {
      CHECK(candidate.fate == Fate::kMeasured);
      continue;
    }
    CHECK(llvm::is_contained(plant->fates, candidate.fate));
    CHECK(candidate.reason.find(plant->reason) != std::string::npos);
    CHECK(candidate.config != result.winner->config());
    CHECK(candidate.config != record.winner());
    // Quotes are escaped there, so that only what comes before the first is looked for.
    CHECK(page.find(candidate.reason.substr(0, candidate.reason.find_first_of("\"'<>&"))) != std::string::npos);
  }
  // Times on the CPU are simulated; those of kernels of two microseconds on a GPU say little the next time.
  if (place == Place::kHost) {
    const TuneResult clean = search_of(graph, space, options, target, {}, place, helper);
    REQUIRE(clean.winner.has_value());
    CHECK(clean.winner->config() == result.winner->config());
  }
  ::unsetenv("TILEWRIGHT_CACHE_DIR");
}

}  // namespace tilewright::tests
