// Which template serves a group, by its anchor.
#include "codegen/conv_tile.h"
#include "codegen/planning.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

std::int64_t constant_or_zero(const SizeExpr& size) { return size.is_constant() ? size.constant() : 0; }

// Shared memory that a block may have on every architecture served; a plan must not depend on the device.
constexpr std::int64_t kCommonSharedBytes = 99 << 10;

TemplateKind choose_conv(const Graph& graph, const Group& group, std::string& reason) {
  const Op& op = graph.op(*group.anchor);
  const auto& conv = std::get<ConvAttributes>(op.attributes);
  const Value& x = graph.value(op.inputs[0]);
  const Value& w = graph.value(op.inputs[1]);
  const std::int64_t channels_per_group = constant_or_zero(w.shape[1]);
  const bool weights_baked = llvm::all_of(w.shape, [](const SizeExpr& size) { return size.is_constant() && size.constant() > 0; });
  const bool kernel_baked =
      llvm::all_of(llvm::drop_begin(w.shape, 2), [](const SizeExpr& size) { return size.is_constant() && size.constant() > 0; });
  const bool depthwise = conv.groups > 1 && channels_per_group == 1;
  if (depthwise && kernel_baked && w.shape[0].is_constant()) {
    reason = "depthwise convolution: one weight row per channel, no contraction over channels";
    return TemplateKind::kStencil;
  }
  if (!weights_baked) {
    reason = "convolution with channels or kernel known only at launch";
    return TemplateKind::kConvDirect;
  }
  std::int64_t taps = 1;
  for (const SizeExpr& size : llvm::drop_begin(w.shape, 2)) taps *= size.constant();
  constexpr std::int64_t kMaxTaps = 512;
  if (taps > kMaxTaps || !conv_fits(graph, group)) {
    reason = fmt::format("convolution with {} taps a channel: its tiles do not fit shared memory", taps);
    return TemplateKind::kConvDirect;
  }
  const std::int64_t out_per_group = w.shape[0].constant() / conv.groups;
  if (conv.groups > 1 && (channels_per_group < 4 || out_per_group < 4)) {
    reason = "grouped convolution with fewer than 4 channels a group: matrix tiles would be mostly padding";
    return TemplateKind::kConvDirect;
  }
  reason = x.dtype == DType::kF32
               ? fmt::format("convolution as a matrix product, f32 operands under precision {}", precision_name(graph.precision()))
               : "convolution as a matrix product, 16-bit operands, f32 accumulation";
  return TemplateKind::kConv;
}

}  // namespace

bool conv_fits(const Graph& graph, const Group& group) {
  ConvTile tile;
  return choose_conv_tile(conv_problem(graph, group), kCommonSharedBytes, 0, tile);
}

TemplateKind choose_template(const Graph& graph, const Group& group, std::string& reason) {
  const Op& op = graph.op(*group.anchor);
  if (std::holds_alternative<ConvAttributes>(op.attributes)) return choose_conv(graph, group, reason);
  if (std::holds_alternative<CrossEntropyAttributes>(op.attributes)) {
    reason = "a row per sample, one pass, the mean in the same launch";
    return TemplateKind::kRow;
  }
  if (const auto* softmax = std::get_if<SoftmaxAttributes>(&op.attributes)) {
    const Shape& shape = graph.value(op.inputs[0]).shape;
    const bool innermost = llvm::all_of(llvm::drop_begin(shape, softmax->axis + 1), [](const SizeExpr& s) { return s.is_constant(1); });
    reason = innermost ? "softmax over the innermost axis: contiguous rows" : "softmax over an outer axis: threads along the inner ones";
    return innermost ? TemplateKind::kRow : TemplateKind::kColumn;
  }
  if (const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes)) {
    const std::size_t rank = graph.value(op.inputs[0]).shape.size();
    const bool trailing = !reduce->axes.empty() && reduce->axes.front() + reduce->axes.size() == rank;
    // Few long rows leave most multiprocessors idle with one block a row; the general template splits them.
    const SizeExpr rows = element_count(graph.value(op.output).shape);
    const bool enough_rows = rows.upper_bound(graph.symbols()) >= 512;
    reason = trailing
                 ? (enough_rows ? "reduction over the innermost axes: contiguous rows" : "reduction to few elements: split over blocks")
                 : "reduction over axes that are not the innermost";
    return trailing && enough_rows ? TemplateKind::kRow : TemplateKind::kReduce;
  }
  reason = "elementwise";
  return TemplateKind::kElementwise;
}

llvm::StringRef template_name(TemplateKind kind) {
  switch (kind) {
    case TemplateKind::kElementwise:
      return "elementwise";
    case TemplateKind::kRow:
      return "row";
    case TemplateKind::kReduce:
      return "reduce";
    case TemplateKind::kColumn:
      return "column";
    case TemplateKind::kStencil:
      return "stencil";
    case TemplateKind::kConv:
      return "conv";
    case TemplateKind::kConvDirect:
      return "conv_direct";
  }
  return "";
}

}  // namespace tilewright
