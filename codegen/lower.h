// From a plan to kernels: picks each template's config, writes hooks and parameters, lays out the workspace.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/kernel_spec.h"
#include "codegen/plan.h"
#include "llvm/Support/Error.h"
#include "ops/cost.h"
#include "ops/graph.h"
#include "runtime/launch_recipe.h"

namespace tilewright {

// What the default config may know of the device it is for. The defaults are an H200's.
struct DeviceModel {
  unsigned sm_count = 132;
  std::uint32_t shared_bytes_per_block = 232448;  // opt-in limit
  bool wgmma = true;                              // sm_90a
};

// Tile parameters that replace the default config's: "block_threads" in every kernel of the program that has a parameter of that name,
// "1.block_threads" in kernel 1 alone, which goes before the other.
using ConfigOverrides = std::map<std::string, std::int64_t>;

struct LoweredKernel {
  KernelSpec spec;
  std::string source;                                            // emit(spec)
  std::vector<std::pair<std::string, std::int64_t>> parameters;  // tile parameters chosen (after overrides), by name
};

struct LoweredProgram {
  LaunchRecipe recipe;                 // recipe.kernels[i] == kernels[i].spec.launch
  std::vector<LoweredKernel> kernels;  // kernels[i] computes plan.groups[i]
};

// Error: kInvalidArgument for an override that no kernel has (nearest known name) or whose value a template refuses; kUnsupported when a
// group does not fit its template.
llvm::Expected<LoweredProgram> lower(const Graph& graph, const Plan& plan, const DeviceModel& device = {},
                                     const ConfigOverrides& overrides = {});

// Bytes and flops of one group's kernel: what it reads and writes of device memory, once each.
Cost group_cost(const Graph& graph, const Group& group, llvm::ArrayRef<std::int64_t> dims);

// The table `tilewright show --what plan` prints: kernels, their ops, template and reason, bytes and flops beside the graph's floor.
std::string plan_text(const Graph& graph, const Plan& plan, const LoweredProgram& program, llvm::ArrayRef<std::int64_t> dims);

}  // namespace tilewright
