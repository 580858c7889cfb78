// From a graph to kernels that can be launched: plan, lower, build the artifacts in parallel, load. All of it but the loading works on a
// machine without a GPU. Every caller (command line, C ABI, tuner) goes this way, so that all of them hit the same entries of a store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/lower.h"
#include "codegen/plan.h"
#include "llvm/Support/Error.h"
#include "ops/graph.h"
#include "runtime/artifact.h"
#include "runtime/program.h"
#include "runtime/store.h"
#include "runtime/target.h"

namespace tilewright {

struct CompileOptions {
  PlanOptions plan;
  DeviceModel device;  // device_model() of the target
  ConfigOverrides overrides;
};

// The largest common device of a target (an H200 for sm_90a). Never the device in hand, so that what is compiled without a GPU is what a
// process with one asks for.
DeviceModel device_model(const Target& target);

// The device templates, as the compiler takes them. Static lifetime.
llvm::ArrayRef<MemoryHeader> template_headers();

// The device templates and what makes them compile for a CPU. Static lifetime.
llvm::ArrayRef<MemoryHeader> host_headers();

// The identity of this library, with one of the lists above.
BuilderOptions builder_options(llvm::ArrayRef<MemoryHeader> headers);

// A builder over a store with the templates and the identity of this library.
std::unique_ptr<Builder> make_builder(StoreOptions store = StoreOptions::from_environment());

// A graph as translation units; sources[i] is lowered.kernels[i].
struct PreparedProgram {
  Plan plan;
  LoweredProgram lowered;
  std::vector<KernelSource> sources;
};

// Plans, lowers and emits; touches neither compiler nor store. Errors of make_plan and lower.
llvm::Expected<PreparedProgram> prepare_program(const Graph& graph, const CompileOptions& options = {});

// artifacts[i] is for lowered.recipe.kernels[i].
struct CompiledProgram {
  PreparedProgram prepared;
  std::vector<std::shared_ptr<const Artifact>> artifacts;
};

// prepare_program, then every kernel from the store or the compiler. Errors of both.
llvm::Expected<CompiledProgram> compile_program(const Graph& graph, const Target& target, Builder& builder,
                                                const CompileOptions& options = {});

// Loads into the context that is current. Errors of Program::create.
llvm::Expected<std::unique_ptr<Program>> load_program(const Driver& driver, const CompiledProgram& compiled);

}  // namespace tilewright
