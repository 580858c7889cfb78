// cross_entropy: validation and shape inference. loss[n] = (1-e)*(lse(x[n]) - x[n,t[n]]) + e*(lse(x[n]) - mean_c x[n,c]), e =
// label_smoothing.
#include "ops/infer.h"
#include "runtime/error.h"

namespace tilewright {

llvm::Expected<Inferred> infer_cross_entropy(const Graph& graph, llvm::ArrayRef<ValueId> inputs, const CrossEntropyAttributes& attributes) {
  const Value& logits = graph.value(inputs[0]);
  const Value& targets = graph.value(inputs[1]);
  if (llvm::Error error = check_floating(graph, inputs[0], "logits")) return error;
  if (logits.shape.size() != 2) {
    return make_error(Status::kInvalidArgument, "{}: expected shape [N, C], got {}", operand_text(graph, inputs[0], "logits"),
                      shape_of(graph, inputs[0]));
  }
  if (targets.dtype != DType::kI64) {
    return make_error(Status::kInvalidArgument, "{}: expected dtype i64 (class indices), got {}", operand_text(graph, inputs[1], "targets"),
                      dtype_name(targets.dtype));
  }
  if (targets.shape.size() != 1 || !(targets.shape[0] == logits.shape[0])) {
    return make_error(Status::kInvalidArgument, "{}: expected shape [{}] for logits {}, got {}", operand_text(graph, inputs[1], "targets"),
                      logits.shape[0].str(graph.symbols()), shape_of(graph, inputs[0]), shape_of(graph, inputs[1]));
  }
  if (!(attributes.label_smoothing >= 0.0 && attributes.label_smoothing <= 1.0)) {
    return make_error(Status::kInvalidArgument, "label_smoothing: expected a number in [0, 1], got {}", attributes.label_smoothing);
  }
  Inferred result{DType::kF32, {}};
  if (attributes.reduction == LossReduction::kNone) result.shape = {logits.shape[0]};
  return result;
}

}  // namespace tilewright
