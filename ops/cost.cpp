// Bytes and operations. The counting rules stand beside each operator's case.
#include "ops/cost.h"

#include <algorithm>

#include "llvm/Support/MathExtras.h"

namespace tilewright {
namespace {

// Max, subtraction, exponential, sum and division for each element.
constexpr std::uint64_t kSoftmaxFlops = 5;
// Max, subtraction, exponential and sum for each logit; logarithm, addition and subtraction for each row.
constexpr std::uint64_t kCrossEntropyFlops = 4;
constexpr std::uint64_t kCrossEntropyRowFlops = 3;

std::uint64_t elements(const Value& value, llvm::ArrayRef<std::int64_t> dims) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, element_count(value.shape).evaluate(dims)));
}

// Elements that exist in memory: a dimension of stride 0 repeats one, and overlapping ones hold no more than they span.
std::uint64_t held_elements(const Value& value, llvm::ArrayRef<std::int64_t> dims) {
  if (value.strides.empty()) return elements(value, dims);
  SizeExpr count = 1;
  SizeExpr span = 1;
  for (std::size_t i = 0; i < value.shape.size(); ++i) {
    const std::int64_t size = value.shape[i].evaluate(dims);
    if (size == 0) return 0;
    if (value.strides[i] != 0) count = count * size;
    span = span + SizeExpr(size - 1) * value.strides[i];
  }
  return static_cast<std::uint64_t>(std::min(count.constant(), span.constant()));
}

std::uint64_t held_bytes(const Value& value, llvm::ArrayRef<std::int64_t> dims) {
  return llvm::SaturatingMultiply(held_elements(value, dims), static_cast<std::uint64_t>(dtype_bytes(value.dtype)));
}

std::uint64_t op_flops(const Graph& graph, const Op& op, llvm::ArrayRef<std::int64_t> dims) {
  using llvm::SaturatingMultiply;
  const std::uint64_t in = elements(graph.value(op.inputs[0]), dims);
  const std::uint64_t out = elements(graph.value(op.output), dims);
  if (std::holds_alternative<ConvAttributes>(op.attributes)) {
    // A multiply-add for each tap and channel of the group; the bias starts the sum and costs nothing.
    const Shape& w = graph.value(op.inputs[1]).shape;
    const SizeExpr taps = element_count(llvm::ArrayRef<SizeExpr>(w).drop_front(1));
    return SaturatingMultiply(out, SaturatingMultiply<std::uint64_t>(2, static_cast<std::uint64_t>(taps.evaluate(dims))));
  }
  if (const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes)) {
    return reduce->kind == ReduceKind::kMean ? llvm::SaturatingAdd(in, out) : in;
  }
  if (std::holds_alternative<SoftmaxAttributes>(op.attributes)) return SaturatingMultiply(in, kSoftmaxFlops);
  if (const auto* loss = std::get_if<CrossEntropyAttributes>(&op.attributes)) {
    const std::uint64_t rows = elements(graph.value(op.inputs[1]), dims);
    const std::uint64_t smoothing = loss->label_smoothing != 0.0 ? 1 : 0;
    return llvm::SaturatingAdd(SaturatingMultiply(in, kCrossEntropyFlops + smoothing), SaturatingMultiply(rows, kCrossEntropyRowFlops));
  }
  return SaturatingMultiply(out, expr_flops(std::get<MapAttributes>(op.attributes).expr));
}

}  // namespace

Cost op_cost(const Graph& graph, OpId op, llvm::ArrayRef<std::int64_t> dims) {
  Cost cost{held_bytes(graph.value(graph.op(op).output), dims), op_flops(graph, graph.op(op), dims)};
  llvm::SmallVector<ValueId, 4> inputs = graph.op(op).inputs;
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  for (const ValueId id : inputs) cost.bytes = llvm::SaturatingAdd(cost.bytes, held_bytes(graph.value(id), dims));
  return cost;
}

Cost graph_cost(const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  Cost cost;
  for (const Op& op : graph.ops()) cost.flops = llvm::SaturatingAdd(cost.flops, op_flops(graph, op, dims));
  for (const ValueId id : graph.inputs()) cost.bytes = llvm::SaturatingAdd(cost.bytes, held_bytes(graph.value(id), dims));
  for (const ValueId id : graph.outputs()) cost.bytes = llvm::SaturatingAdd(cost.bytes, held_bytes(graph.value(id), dims));
  return cost;
}

}  // namespace tilewright
