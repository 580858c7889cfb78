// The helper processes of a search over planted candidates: planted_helper host|gpu runs them, planted_helper host|gpu TARGET compiles
// them.
#include <unistd.h>

#include <cstdio>

#include "autotune/compile_worker.h"
#include "autotune/host_runner.h"
#include "autotune/tester.h"
#include "runtime/error.h"
#include "tests/planted/planted.h"
#include "tools/device_runner.h"

namespace {

using namespace tilewright;
using namespace tilewright::tests;

llvm::Error serve(Place place) {
  auto graph = planted_graph();
  if (!graph) return graph.takeError();
  const auto dims = graph->default_dims();
  PlantedBuilders builders(make_plants(place));
  std::unique_ptr<cli::DeviceSession> session;
  PlantedRunner::Make make = [&](const std::string& plant) -> llvm::Expected<std::unique_ptr<CandidateRunner>> {
    CompileOptions options;
    options.device = device_model({});
    return std::make_unique<HostRunner>(*graph, dims, options, Target{}, 0.002, 1, builders.make_host_builder(plant));
  };
  if (place == Place::kGpu) {
    auto opened = cli::DeviceSession::open(0, builders.builder(""));
    if (!opened) return opened.takeError();
    session = std::move(*opened);
    make = [&](const std::string& plant) -> llvm::Expected<std::unique_ptr<CandidateRunner>> {
      auto runner = cli::DeviceRunner::create(*session, builders.builder(plant), *graph, dims, {}, cli::TimingPolicy::kCold);
      if (!runner) return runner.takeError();
      return std::move(*runner);
    };
  }
  PlantedRunner runner(builders, make);
  Verifier verifier(*graph, dims);
  LocalTester tester(verifier, runner);
  return serve_tester(tester, STDIN_FILENO, STDOUT_FILENO);
}

llvm::Error serve_compilations(Place place, llvm::StringRef name) {
  auto target = parse_target(name);
  if (!target) return target.takeError();
  auto graph = planted_graph();
  if (!graph) return graph.takeError();
  CompileOptions options;
  options.device = device_model(*target);
  PlantedBuilders builders(make_plants(place));
  PlantedCompiler compiler(*graph, *target, options, builders);
  return serve_compiler(compiler, STDIN_FILENO, STDOUT_FILENO);
}

}  // namespace

int main(int argc, char** argv) {
  become_helper();
  const llvm::StringRef name = argc == 2 || argc == 3 ? argv[1] : "";
  if (name != "host" && name != "gpu") {
    std::fputs("usage: planted_helper host|gpu [TARGET]\n", stderr);
    return 2;
  }
  const Place place = name == "gpu" ? Place::kGpu : Place::kHost;
  llvm::Error error = argc == 3 ? serve_compilations(place, argv[2]) : serve(place);
  if (!error) return 0;
  refuse_requests(take_error_facts(std::move(error)).message, STDOUT_FILENO);
  return 3;
}
