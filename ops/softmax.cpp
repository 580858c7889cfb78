// softmax: validation and shape inference. y = exp(x - max x) / sum exp(x - max x) over one axis.
#include "ops/infer.h"

namespace tilewright {

llvm::Expected<Inferred> infer_softmax(const Graph& graph, ValueId x, const SoftmaxAttributes&) {
  if (llvm::Error error = check_floating(graph, x, "x")) return error;
  return Inferred{graph.value(x).dtype, graph.value(x).shape};
}

}  // namespace tilewright
