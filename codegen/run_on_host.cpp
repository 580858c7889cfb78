#include "codegen/run_on_host.h"

#include <chrono>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {

std::unique_ptr<HostBuilder> make_host_builder(StoreOptions store) {
  return std::make_unique<HostBuilder>(std::make_shared<Store>(std::move(store)), builder_options(host_headers()));
}

llvm::Expected<HostRun> run_on_host(const Graph& graph, llvm::ArrayRef<HostTensor> inputs, llvm::ArrayRef<std::int64_t> dims,
                                    HostBuilder& builder, const RunOnHostOptions& options) {
  auto prepared = prepare_program(graph, options.compile);
  if (!prepared) return prepared.takeError();
  auto artifacts = builder.get_all(prepared->sources, options.sanitize);
  if (!artifacts) return artifacts.takeError();
  auto program = HostProgram::create(prepared->lowered.recipe, *artifacts);
  if (!program) return program.takeError();
  std::vector<llvm::ArrayRef<std::byte>> bytes;
  for (const HostTensor& input : inputs) bytes.emplace_back(input.bytes);
  const auto start = std::chrono::steady_clock::now();
  auto outputs = (*program)->run(bytes, dims, options.run);
  if (!outputs) return outputs.takeError();
  HostRun run;
  run.run_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.artifacts = std::move(*artifacts);
  for (auto [id, result] : llvm::zip_equal(graph.outputs(), *outputs)) {
    HostTensor tensor = HostTensor::make(graph.value(id).dtype, concrete_shape(graph.value(id).shape, dims));
    tensor.bytes = std::move(result);
    run.outputs.push_back(std::move(tensor));
  }
  return run;
}

}  // namespace tilewright
