// Validation and inference of each operator family: what an op's operands must be and what its result is. One .cpp per family.
// Messages name the operand, what was seen and what was wanted; GraphBuilder puts the operator's name in front.
#pragma once

#include "llvm/Support/Error.h"
#include "ops/graph.h"

namespace tilewright {

struct Inferred {
  DType dtype = DType::kF32;
  Shape shape;
};

// Each may complete its attributes (defaults filled in). `op.inputs` are ids of values of `graph`.
llvm::Expected<Inferred> infer_conv(const Graph& graph, llvm::ArrayRef<ValueId> inputs, ConvAttributes& attributes);
llvm::Expected<Inferred> infer_reduce(const Graph& graph, ValueId x, const ReduceAttributes& attributes);
llvm::Expected<Inferred> infer_softmax(const Graph& graph, ValueId x, const SoftmaxAttributes& attributes);
llvm::Expected<Inferred> infer_cross_entropy(const Graph& graph, llvm::ArrayRef<ValueId> inputs, const CrossEntropyAttributes& attributes);
// Sets attributes.dtype to `dtype`, or to the promoted one, and converts the expression to its compute type.
llvm::Expected<Inferred> infer_map(const Graph& graph, llvm::ArrayRef<ValueId> inputs, std::optional<DType> dtype,
                                   MapAttributes& attributes);

// Axis in [0, rank) from one in [-rank, rank). `what` names the attribute in the error.
llvm::Expected<unsigned> resolve_axis(std::int64_t axis, std::size_t rank, llvm::StringRef what);
// `operand x "c"`: an operand as messages name it, by role and by value name.
std::string operand_text(const Graph& graph, ValueId id, llvm::StringRef role);
llvm::Error check_floating(const Graph& graph, ValueId id, llvm::StringRef role);
// The shape of `value` with the graph's dimension names.
std::string shape_of(const Graph& graph, ValueId id);

}  // namespace tilewright
