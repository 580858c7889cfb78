// What the lowerings of the single templates share. Private to codegen/.
#pragma once

#include <set>
#include <string>

#include "codegen/hooks.h"
#include "codegen/lower.h"

namespace tilewright {

// Everything a template's lowering may look at; one per kernel.
struct Lowering {
  const Graph& graph;
  const Group& group;
  const DeviceModel& device;
  const BufferMap& buffers;
  const ConfigOverrides& overrides;
  std::vector<WorkspaceSpec>& workspace;  // of the program; a template appends its own buffers
  std::set<std::string>& used_overrides;
  std::size_t index = 0;  // of the kernel in the program
  std::vector<std::pair<std::string, std::int64_t>> parameters = {};

  // The value of a tile parameter: the override of this kernel ("1.block_threads") or of all ("block_threads") when there is one, else
  // `fallback`. Recorded in `parameters`.
  std::int64_t parameter(const std::string& name, std::int64_t fallback);

  const Value& value(ValueId id) const { return graph.value(id); }
  const Op& anchor() const { return graph.op(*group.anchor); }
  std::int64_t upper(const SizeExpr& size) const { return size.upper_bound(graph.symbols()); }
  // The size at the default dimension values: what defaults are chosen for.
  std::int64_t expected(const SizeExpr& size) const { return size.evaluate(graph.default_dims()); }
  // Appends a workspace buffer and gives its reference.
  BufferRef add_workspace(std::string name, SizeExpr bytes, bool zero_initialized);
};

// "0" for a size that is a launch argument, its number when it is baked in.
std::string baked(const SizeExpr& size);

// Fields of a template's args struct.
KernelArg arg_i64(std::string name, SizeExpr value);
KernelArg arg_f32(std::string name, float value);
KernelArg arg_buffer(std::string name, BufferRef buffer);
KernelArg arg_misalignment();

// Fails with kInvalidArgument unless `ok`: a parameter combination the template refuses.
llvm::Error check_parameter(bool ok, const Lowering& lowering, llvm::StringRef parameter, std::int64_t value, llvm::StringRef wanted);

llvm::Error check_block_threads(const Lowering& lowering, std::int64_t threads);                          // a multiple of 32, 32 to 1024
llvm::Error check_vector_elems(const Lowering& lowering, std::int64_t vector, const HooksWriter& hooks);  // a power of two the dtypes allow

// "kSum", ... as tw::Monoid spells it; the type a reduction to `result` is carried in.
std::string monoid_name(ReduceKind kind);
std::string reduction_value_type(DType result);

llvm::Expected<KernelSpec> lower_elementwise(Lowering& lowering);
llvm::Expected<KernelSpec> lower_row(Lowering& lowering);
llvm::Expected<KernelSpec> lower_reduce(Lowering& lowering);
llvm::Expected<KernelSpec> lower_column(Lowering& lowering);
llvm::Expected<KernelSpec> lower_stencil(Lowering& lowering);
llvm::Expected<KernelSpec> lower_conv(Lowering& lowering);
llvm::Expected<KernelSpec> lower_conv_direct(Lowering& lowering);

}  // namespace tilewright
