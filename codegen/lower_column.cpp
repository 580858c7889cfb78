#include <algorithm>
#include <bit>

#include "codegen/lowering.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/error.h"

namespace tilewright {

llvm::Expected<KernelSpec> lower_column(Lowering& lowering) {
  const Group& group = lowering.group;
  const Op& op = lowering.anchor();
  const Shape& shape = lowering.value(op.inputs[0]).shape;
  const unsigned axis_index = std::get<SoftmaxAttributes>(op.attributes).axis;
  const llvm::ArrayRef<SizeExpr> dims(shape);
  const SizeExpr outer = element_count(dims.take_front(axis_index));
  const SizeExpr axis = shape[axis_index];
  const SizeExpr inner = element_count(dims.drop_front(axis_index + 1));

  HooksWriter hooks(lowering.graph, lowering.buffers);
  hooks.add_vector_load("load", group.prologues.front(), shape);
  hooks.add_vector_store("store", group.after_anchor, group.result, "Value");

  // 64 K threads keep every multiprocessor of today's GPUs busy; below that, threads share a column.
  constexpr std::int64_t kEnoughThreads = 64 << 10;
  const std::int64_t columns = lowering.expected(outer * inner);
  const std::int64_t widest = hooks.vector_limit(8);
  const bool divides = inner.is_constant() && inner.constant() % widest == 0;
  const std::int64_t vector = lowering.parameter("vector_elems", divides && columns / widest >= kEnoughThreads ? widest : 1);
  if (llvm::Error error = check_vector_elems(lowering, vector, hooks)) return error;
  const std::int64_t expected_axis = lowering.expected(axis);
  std::int64_t share = 1;
  while (share < 32 && share * 4 < expected_axis && columns / vector * share < kEnoughThreads) share *= 2;
  const std::int64_t threads = lowering.parameter("block_threads", 256);
  const std::int64_t axis_threads = lowering.parameter("axis_threads", share);
  if (llvm::Error error = check_block_threads(lowering, threads)) return error;
  const bool power_of_two = axis_threads >= 1 && std::has_single_bit(static_cast<std::uint64_t>(axis_threads));
  if (llvm::Error error = check_parameter(power_of_two && threads % axis_threads == 0, lowering, "axis_threads", axis_threads,
                                          "a power of two that divides block_threads")) {
    return error;
  }
  constexpr std::int64_t kHeldValues = 64;  // registers a thread may spend on its part of the column
  const std::int64_t part = axis.is_constant() ? (axis.constant() + axis_threads - 1) / axis_threads : 0;
  const std::int64_t held = part * vector <= kHeldValues ? part : 0;

  KernelSpec spec;
  spec.header = "tilewright/column.cuh";
  spec.function = "tw::column_softmax";
  spec.config_type = "tw::ColumnConfig";
  spec.config = {{"block_threads", std::to_string(threads)},
                 {"axis_threads", std::to_string(axis_threads)},
                 {"vector_elems", std::to_string(vector)},
                 {"held", std::to_string(held)},
                 {"unroll", "4"},
                 {"axis", baked(axis)},
                 {"inner", baked(inner)}};
  spec.hooks = hooks.text(!hooks.fits_index32(), "float");
  spec.launch.grid[0] = ceil_div(outer * inner, SizeExpr(threads / axis_threads * vector));
  spec.launch.block[0] = static_cast<std::uint32_t>(threads);
  spec.launch.params = {{"tw::ColumnArgs", {arg_i64("outer", outer), arg_i64("axis", axis), arg_i64("inner", inner), arg_misalignment()}},
                        hooks.param()};
  return spec;
}

}  // namespace tilewright
