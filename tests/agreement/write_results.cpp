// write_host_results FILE [SEED [STORE]]: runs the cases of agreement.h on the CPU and writes them with their results, for
// tests/gpu/host_agreement_test.cpp. The directory STORE gets the same kernels compiled for sm_90a, so that the machine with the GPU need
// not compile them. Exit status 1: a case could not be run or compiled, or the file not be written.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "codegen/run_on_host.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "runtime/parallel.h"
#include "tests/agreement/agreement.h"

using namespace tilewright;

namespace {

llvm::Error run_case(AgreementCase& c, HostBuilder& builder) {
  auto graph = parse_description(c.description);
  if (!graph) return graph.takeError();
  RunOnHostOptions options;
  options.compile.overrides = c.overrides;
  options.run.execute.seed = c.inputs.seed;
  options.run.execute.time_limit_s = 120;
  options.run.shift_elements = c.shift_elements;
  const std::vector<HostTensor> inputs = agreement_inputs(*graph, c);
  auto run = run_on_host(*graph, inputs, c.dims, builder, options);
  if (!run) return run.takeError();
  std::vector<std::string> sources;
  for (const auto& artifact : run->artifacts) sources.push_back(artifact->source);
  c.sources = sources_hash(sources);
  for (const HostTensor& output : run->outputs)
    c.outputs.emplace_back(reinterpret_cast<const char*>(output.bytes.data()), output.bytes.size());
  if (c.agreement != Agreement::kTensor) return llvm::Error::success();
  auto exact = exact_sums(*graph, c);
  if (!exact) return exact.takeError();
  const double error = normwise_error(run->outputs.front(), exact->front().values);
  if (!agrees(c.agreement, run->outputs.front().dtype, {}, error))
    return make_error(Status::kMismatch, "the CPU's own sums are {:.3g} from the exact ones", error);
  return llvm::Error::success();
}

// Every kernel of the cases into a store; says which could not be compiled, and how many these are.
std::size_t fill_store(llvm::StringRef directory, llvm::ArrayRef<AgreementCase> cases) {
  StoreOptions store;
  store.directory = directory.str();
  const std::unique_ptr<Builder> builder = make_builder(store);
  const Target target = llvm::cantFail(parse_target("sm_90a"));
  std::atomic<std::size_t> failed{0};
  parallel_pieces(static_cast<std::int64_t>(cases.size()), 1, 0, [&](std::int64_t begin, std::int64_t) {
    const AgreementCase& c = cases[static_cast<std::size_t>(begin)];
    if (llvm::Error error = compile_case(c, target, *builder).takeError()) {
      std::fprintf(stderr, "%s: %s\n  %s\n", c.template_name.c_str(), take_error_facts(std::move(error)).message.c_str(),
                   c.description.c_str());
      ++failed;
    }
  });
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: write_host_results FILE [SEED [STORE]]\n");
    return 2;
  }
  std::vector<AgreementCase> cases = draw_agreement_cases(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  const std::unique_ptr<HostBuilder> builder = make_host_builder();
  std::size_t failed = 0;
  const auto start = std::chrono::steady_clock::now();
  for (AgreementCase& c : cases) {
    if (llvm::Error error = run_case(c, *builder)) {
      std::fprintf(stderr, "%s, N=%lld: %s\n  %s\n", c.template_name.c_str(), static_cast<long long>(c.dims[0]),
                   take_error_facts(std::move(error)).message.c_str(), c.description.c_str());
      ++failed;
    }
  }
  if (argc > 3) failed += fill_store(argv[3], cases);
  if (llvm::Error error = write_agreement_cases(argv[1], cases)) {
    std::fprintf(stderr, "%s\n", take_error_facts(std::move(error)).message.c_str());
    return 1;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%zu cases, %zu failed, %.0f s: %s\n", cases.size(), failed, seconds, argv[1]);
  return failed == 0 ? 0 : 1;
}
