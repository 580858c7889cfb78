// Builds a Graph call by call; every call validates its operands and infers shape and dtype. The JSON reader is a client of it, so both
// forms mean the same and give the same errors.
#pragma once

#include <variant>

#include "llvm/Support/Error.h"
#include "ops/graph.h"

namespace tilewright {

// An operand of a named elementwise form: a value, or a number. A whole number does not change the dtype of an integer operand.
using MapOperand = std::variant<ValueId, double>;

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name, Precision precision = Precision::kTf32x3);

  void set_deterministic(bool deterministic);

  // A named dimension; the returned size is used in input shapes. Error: name taken, empty range, default outside it.
  llvm::Expected<SizeExpr> dim(Symbol symbol);
  // A named dimension whose value is fixed now (symbol.default_value): a number from here on, kept in Graph::baked_dims. Errors as `dim`.
  llvm::Expected<SizeExpr> baked_dim(Symbol symbol);

  // Error: name taken or not an identifier, negative dimension, element count above 2^62, strides of another rank.
  llvm::Expected<ValueId> input(std::string name, DType dtype, Shape shape, llvm::ArrayRef<std::int64_t> strides = {});

  // conv: empty stride, dilation, pad_before or pad_after mean 1, 1, 0, 0 in every spatial dimension. Axes may be negative: from the end.
  // Each adds one op and returns its output. `name` names the output ("" lets the builder choose one).
  llvm::Expected<ValueId> conv(ValueId x, ValueId w, std::optional<ValueId> bias, const ConvAttributes& attributes, std::string name = "");
  llvm::Expected<ValueId> reduce(ValueId x, ReduceKind kind, llvm::ArrayRef<std::int64_t> axes, bool keepdims, std::string name = "");
  llvm::Expected<ValueId> softmax(ValueId x, std::int64_t axis, std::string name = "");
  llvm::Expected<ValueId> cross_entropy(ValueId logits, ValueId targets, const CrossEntropyAttributes& attributes, std::string name = "");
  // `expr` names its operands by the names of the values `inputs`, each of which it must use. dtype: nullopt = promoted from the operands
  // (f16 with bf16 gives f32; comparisons give bool).
  llvm::Expected<ValueId> map(llvm::StringRef expr, llvm::ArrayRef<ValueId> inputs, std::optional<DType> dtype = std::nullopt,
                              std::string name = "");
  // The same from a ready expression whose slot i is inputs[i].
  llvm::Expected<ValueId> map_expr(Expr expr, llvm::ArrayRef<ValueId> inputs, std::optional<DType> dtype, std::string name = "");
  // A named elementwise form: "add", "sub", "mul", "div", "max", "min", "relu", "sigmoid", "tanh", "gelu", "gelu_tanh", "silu", "exp",
  // "log", "sqrt", "rsqrt", "abs", "neg". It becomes a map. Error: unknown form (nearest named), wrong number of operands, numbers only.
  llvm::Expected<ValueId> named(llvm::StringRef form, llvm::ArrayRef<MapOperand> operands, std::optional<DType> dtype = std::nullopt,
                                std::string name = "");
  llvm::Expected<ValueId> cast(ValueId x, DType dtype, std::string name = "");

  // Finishes. Error: no output, a value that is not there, an output given twice or that is an input, an op, input or dimension that
  // nothing needs (named), a precision that is not offered.
  llvm::Expected<Graph> build(llvm::ArrayRef<ValueId> outputs) &&;

  const Graph& graph() const { return graph_; }  // as built so far (names, shapes)

 private:
  Graph graph_;
  llvm::Error check_values(llvm::StringRef op, llvm::ArrayRef<ValueId> values) const;
  llvm::Error check_new_value_name(llvm::StringRef name) const;
  llvm::Error check_outputs(llvm::ArrayRef<ValueId> outputs) const;
  llvm::Error check_use(llvm::ArrayRef<ValueId> outputs) const;
  std::string fresh_name() const;
  llvm::Expected<ValueId> add_op(Op op, DType dtype, Shape shape, std::string name);
};

}  // namespace tilewright
