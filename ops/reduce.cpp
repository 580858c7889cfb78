// reduce: validation and shape inference. y = sum, mean, min or max of x over some of its axes.
#include "llvm/ADT/STLExtras.h"
#include "ops/infer.h"
#include "runtime/error.h"

namespace tilewright {

llvm::Expected<Inferred> infer_reduce(const Graph& graph, ValueId x, const ReduceAttributes& attributes) {
  const Value& value = graph.value(x);
  if (attributes.kind == ReduceKind::kMean && !is_floating(value.dtype)) {
    return make_error(Status::kInvalidArgument, "{}: the mean expects a floating dtype (f32, f16, bf16), got {}; cast it first",
                      operand_text(graph, x, "x"), dtype_name(value.dtype));
  }
  const bool has_identity = attributes.kind == ReduceKind::kSum || is_floating(value.dtype);
  for (const unsigned axis : attributes.axes) {
    if (has_identity || !value.shape[axis].is_constant(0)) continue;
    return make_error(Status::kInvalidArgument, "{}: the {} of {} over the empty axis {} of {} has no value", operand_text(graph, x, "x"),
                      reduce_kind_name(attributes.kind), dtype_name(value.dtype), axis, shape_of(graph, x));
  }
  Inferred result{value.dtype, {}};
  const bool counts = value.dtype == DType::kI32 || value.dtype == DType::kBool;
  if (attributes.kind == ReduceKind::kSum && counts) result.dtype = DType::kI64;
  for (unsigned axis = 0; axis < value.shape.size(); ++axis) {
    if (!llvm::is_contained(attributes.axes, axis)) {
      result.shape.push_back(value.shape[axis]);
    } else if (attributes.keepdims) {
      result.shape.push_back(1);
    }
  }
  return result;
}

}  // namespace tilewright
