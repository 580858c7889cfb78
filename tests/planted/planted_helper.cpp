// The helper process of a search over planted candidates: planted_helper host|gpu.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

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

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const llvm::StringRef place = argc == 2 ? argv[1] : "";
  if (place != "host" && place != "gpu") {
    std::fputs("usage: planted_helper host|gpu\n", stderr);
    return 2;
  }
  llvm::Error error = serve(place == "gpu" ? Place::kGpu : Place::kHost);
  if (!error) return 0;
  refuse_tester(take_error_facts(std::move(error)).message, STDOUT_FILENO);
  return 3;
}
