// A graph's generated kernels on the CPU: the same text as for the GPU, compiled by the host's compiler, run with CUDA's execution model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "llvm/Support/Error.h"
#include "ops/tensor.h"
#include "runtime/host/host_builder.h"
#include "runtime/host/host_program.h"

namespace tilewright {

// A builder of host kernels over a store.
std::unique_ptr<HostBuilder> make_host_builder(StoreOptions store = StoreOptions::from_environment());

struct RunOnHostOptions {
  CompileOptions compile;  // of the plan; its device stays that of the GPU the text is for
  HostRunOptions run;
  std::string sanitize;  // "" or "address,undefined"
};

struct HostRun {
  std::vector<HostTensor> outputs;  // in the order of graph.outputs()
  std::vector<std::shared_ptr<const HostArtifact>> artifacts;
  double run_s = 0;
};

// Inputs in the order of graph.inputs(). Errors of prepare_program, HostBuilder::get and HostProgram::run. See execute() for what ends the
// process instead.
llvm::Expected<HostRun> run_on_host(const Graph& graph, llvm::ArrayRef<HostTensor> inputs, llvm::ArrayRef<std::int64_t> dims,
                                    HostBuilder& builder, const RunOnHostOptions& options = {});

}  // namespace tilewright
