#include <algorithm>
#include <bit>

#include "codegen/lowering.h"
#include "runtime/error.h"

namespace tilewright {

llvm::Expected<KernelSpec> lower_elementwise(Lowering& lowering) {
  const Group& group = lowering.group;
  const Shape& shape = lowering.value(group.result).shape;
  const SizeExpr elements = element_count(shape);
  HooksWriter hooks(lowering.graph, lowering.buffers);
  hooks.add_vector_apply("apply", group.prologues.front(), group.result);

  // The expression is written out once for each element of a thread. A heavy one is bound by arithmetic, which needs few of them, and would
  // take the compiler long: a map of 300 operands 23 s with 8 elements, a seventeenth of that with one (NVRTC 13.0, sm_90a).
  constexpr std::uint64_t kMostWeight = 512;
  const auto most_elems = static_cast<std::int64_t>(
      std::bit_floor(std::max<std::uint64_t>(1, kMostWeight / std::max<std::uint64_t>(1, compile_weight(group.prologues.front())))));
  // Small tensors want every multiprocessor busy before they want many vectors in flight.
  const std::int64_t expected = lowering.expected(elements);
  const std::int64_t in_flight = expected < (512 << 10) ? 1 : expected < (2 << 20) || group.reads.size() > 3 ? 2 : 4;
  const std::int64_t threads = lowering.parameter("block_threads", 256);
  const std::int64_t vector = lowering.parameter("vector_elems", std::min<std::int64_t>(hooks.vector_limit(16), most_elems));
  const std::int64_t vectors = lowering.parameter("vectors_per_thread", std::clamp<std::int64_t>(most_elems / vector, 1, in_flight));
  if (llvm::Error error = check_block_threads(lowering, threads)) return error;
  if (llvm::Error error = check_vector_elems(lowering, vector, hooks)) return error;
  if (llvm::Error error = check_parameter(vectors >= 1 && vectors <= 16, lowering, "vectors_per_thread", vectors, "1 to 16")) return error;

  KernelSpec spec;
  spec.header = "tilewright/elementwise.cuh";
  spec.function = "tw::elementwise";
  spec.config_type = "tw::ElementwiseConfig";
  spec.config = {{"block_threads", std::to_string(threads)},
                 {"vector_elems", std::to_string(vector)},
                 {"vectors_per_thread", std::to_string(vectors)}};
  spec.hooks = hooks.text(!hooks.fits_index32(), "");
  spec.launch.grid[0] = ceil_div(elements, SizeExpr(threads * vector * vectors));
  spec.launch.block[0] = static_cast<std::uint32_t>(threads);
  spec.launch.params = {{"tw::ElementwiseArgs", {arg_i64("elements", elements), arg_misalignment()}}, hooks.param()};
  return spec;
}

}  // namespace tilewright
