// conv: validation and shape inference. y[n,o,p] = bias[o] + sum_{c,k} x[n, c, p*stride + k*dilation - before] * w[o, c, k], zero outside
// x.
#include "llvm/ADT/STLExtras.h"
#include "ops/infer.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr std::int64_t kMaxPadding = (std::int64_t{1} << 31) - 1;
// Kernels count the steps of a tile in 32 bits: 1024 outputs or taps of this many elements each.
constexpr std::int64_t kMaxStep = (std::int64_t{1} << 20) - 1;

llvm::Error check_ranks(const Graph& graph, llvm::ArrayRef<ValueId> inputs) {
  const std::size_t rank = graph.value(inputs[0]).shape.size();
  if (rank < 3 || rank > 5) {
    return make_error(Status::kInvalidArgument, "{}: expected shape [N, C, spatial...] with 1 to 3 spatial dimensions, got {}",
                      operand_text(graph, inputs[0], "x"), shape_of(graph, inputs[0]));
  }
  if (graph.value(inputs[1]).shape.size() != rank) {
    return make_error(Status::kInvalidArgument, "{}: expected rank {} ([O, C/groups, kernel...]) as x {} has, got {}",
                      operand_text(graph, inputs[1], "w"), rank, shape_of(graph, inputs[0]), shape_of(graph, inputs[1]));
  }
  return llvm::Error::success();
}

llvm::Error check_dtypes(const Graph& graph, llvm::ArrayRef<ValueId> inputs) {
  if (llvm::Error error = check_floating(graph, inputs[0], "x")) return error;
  const DType dtype = graph.value(inputs[0]).dtype;
  if (graph.value(inputs[1]).dtype != dtype) {
    return make_error(Status::kInvalidArgument, "{}: expected dtype {} as x has, got {}", operand_text(graph, inputs[1], "w"),
                      dtype_name(dtype), dtype_name(graph.value(inputs[1]).dtype));
  }
  if (inputs.size() < 3) return llvm::Error::success();
  const DType bias = graph.value(inputs[2]).dtype;
  if (bias == dtype || bias == DType::kF32) return llvm::Error::success();
  return make_error(Status::kInvalidArgument, "{}: expected dtype {} as x has, or f32, got {}", operand_text(graph, inputs[2], "bias"),
                    dtype_name(dtype), dtype_name(bias));
}

llvm::Error fill_and_check(llvm::SmallVectorImpl<std::int64_t>& values, llvm::StringRef what, std::size_t spatial, std::int64_t fallback,
                           std::int64_t lowest, std::int64_t highest) {
  if (values.empty()) values.assign(spatial, fallback);
  if (values.size() != spatial) {
    return make_error(Status::kInvalidArgument, "{}: expected {} value{}, one per spatial dimension, got {}", what, spatial,
                      spatial == 1 ? "" : "s", values.size());
  }
  for (const std::int64_t value : values) {
    if (value >= lowest && value <= highest) continue;
    return make_error(Status::kInvalidArgument, "{}: expected a number in [{}, {}], got {}", what, lowest, highest, value);
  }
  return llvm::Error::success();
}

llvm::Error check_attributes(ConvAttributes& attributes, std::size_t spatial) {
  if (llvm::Error error = fill_and_check(attributes.stride, "stride", spatial, 1, 1, kMaxStep)) return error;
  if (llvm::Error error = fill_and_check(attributes.dilation, "dilation", spatial, 1, 1, kMaxStep)) return error;
  if (llvm::Error error = fill_and_check(attributes.pad_before, "padding", spatial, 0, 0, kMaxPadding)) return error;
  if (llvm::Error error = fill_and_check(attributes.pad_after, "padding", spatial, 0, 0, kMaxPadding)) return error;
  if (attributes.groups >= 1) return llvm::Error::success();
  return make_error(Status::kInvalidArgument, "groups: expected a positive number, got {}", attributes.groups);
}

llvm::Error check_channels(const Graph& graph, llvm::ArrayRef<ValueId> inputs, std::int64_t groups) {
  const Shape& x = graph.value(inputs[0]).shape;
  const Shape& w = graph.value(inputs[1]).shape;
  if (!x[1].is_constant()) {
    return make_error(Status::kUnsupported, "{}: the channels (dimension 1 of {}) must be a number or a baked dimension",
                      operand_text(graph, inputs[0], "x"), shape_of(graph, inputs[0]));
  }
  if (!llvm::all_of(w, [](const SizeExpr& size) { return size.is_constant(); })) {
    return make_error(Status::kUnsupported, "{}: every dimension of {} must be a number or a baked dimension",
                      operand_text(graph, inputs[1], "w"), shape_of(graph, inputs[1]));
  }
  const std::int64_t channels = x[1].constant();
  const std::int64_t outputs = w[0].constant();
  if (channels % groups != 0 || outputs % groups != 0) {
    return make_error(Status::kInvalidArgument, "groups: {} does not divide the {} channels of x {} and the {} filters of w {}", groups,
                      channels, shape_of(graph, inputs[0]), outputs, shape_of(graph, inputs[1]));
  }
  if (w[1].constant() != channels / groups) {
    return make_error(Status::kInvalidArgument, "{}: expected {} channels (dimension 1) for x {} and groups {}, got {}",
                      operand_text(graph, inputs[1], "w"), channels / groups, shape_of(graph, inputs[0]), groups,
                      shape_of(graph, inputs[1]));
  }
  if (inputs.size() < 3) return llvm::Error::success();
  const Shape& bias = graph.value(inputs[2]).shape;
  if (bias.size() == 1 && bias[0] == w[0]) return llvm::Error::success();
  return make_error(Status::kInvalidArgument, "{}: expected shape [{}] for w {}, got {}", operand_text(graph, inputs[2], "bias"), outputs,
                    shape_of(graph, inputs[1]), shape_of(graph, inputs[2]));
}

llvm::Expected<SizeExpr> output_size(const Graph& graph, llvm::ArrayRef<ValueId> inputs, const ConvAttributes& attributes, unsigned d) {
  const SizeExpr& size = graph.value(inputs[0]).shape[d + 2];
  const std::int64_t kernel = graph.value(inputs[1]).shape[d + 2].constant();
  if (kernel < 1) {
    return make_error(Status::kInvalidArgument, "{}: expected a kernel of at least 1 in every spatial dimension, got {}",
                      operand_text(graph, inputs[1], "w"), shape_of(graph, inputs[1]));
  }
  const std::int64_t reach = ((SizeExpr(kernel) - 1) * attributes.dilation[d]).constant();
  const std::int64_t padding = attributes.pad_before[d] + attributes.pad_after[d];
  const SizeExpr room = (size + padding) - reach - 1;
  const std::int64_t least = room.lower_bound(graph.symbols());
  if (least >= 0) return floor_div(room, attributes.stride[d]) + 1;
  if (size.is_constant()) {
    return make_error(Status::kInvalidArgument,
                      "{}: spatial dimension {} of size {} with padding {} + {} is smaller than the kernel's extent {} (w {}, dilation {})",
                      operand_text(graph, inputs[0], "x"), d, size.constant(), attributes.pad_before[d], attributes.pad_after[d],
                      (SizeExpr(reach) + 1).constant(), shape_of(graph, inputs[1]), attributes.dilation[d]);
  }
  return make_error(Status::kInvalidArgument,
                    "{}: spatial dimension {} is {}, which may be as small as {}; with padding {} + {} the kernel's extent {} (w {}, "
                    "dilation {}) needs at "
                    "least {}: raise the dimension's \"min\"",
                    operand_text(graph, inputs[0], "x"), d, size.str(graph.symbols()), size.lower_bound(graph.symbols()),
                    attributes.pad_before[d], attributes.pad_after[d], (SizeExpr(reach) + 1).constant(), shape_of(graph, inputs[1]),
                    attributes.dilation[d], (SizeExpr(reach) + 1 - padding).constant());
}

}  // namespace

llvm::Expected<Inferred> infer_conv(const Graph& graph, llvm::ArrayRef<ValueId> inputs, ConvAttributes& attributes) {
  if (llvm::Error error = check_ranks(graph, inputs)) return error;
  if (llvm::Error error = check_dtypes(graph, inputs)) return error;
  const Shape& x = graph.value(inputs[0]).shape;
  const Shape& w = graph.value(inputs[1]).shape;
  if (llvm::Error error = check_attributes(attributes, x.size() - 2)) return error;
  if (llvm::Error error = check_channels(graph, inputs, attributes.groups)) return error;
  Inferred result{graph.value(inputs[0]).dtype, {x[0], w[0]}};
  for (unsigned d = 0; d < attributes.spatial(); ++d) {
    llvm::Expected<SizeExpr> size = output_size(graph, inputs, attributes, d);
    if (!size) return size.takeError();
    result.shape.push_back(*size);
  }
  return result;
}

}  // namespace tilewright
