#include "ops/operators.h"

namespace tilewright {
namespace {

constexpr llvm::StringRef kFloats = "f32, f16, bf16";
constexpr llvm::StringRef kAll = "f32, f16, bf16, i32, i64, bool";
constexpr llvm::StringRef kPromoted = "promoted from the operands";

constexpr OperandInfo kConvOperands[] = {
    {"x", kFloats, "[N, C, spatial...], 1 to 3 spatial dimensions"},
    {"w", "dtype of x", "[O, C/groups, kernel...]"},
    {"bias", "dtype of x, or f32", "[O]", true},
};
constexpr AttributeInfo kConvAttributes[] = {
    {"stride", "integer, or one per spatial dimension", "1", "step between output positions"},
    {"padding", "integer, one per spatial dimension, [before, after] per spatial dimension, or \"causal\"", "0",
     "zeros around the input; \"causal\" (one spatial dimension) puts dilation*(kernel-1) before and none after"},
    {"dilation", "integer, or one per spatial dimension", "1", "step between kernel taps"},
    {"groups", "integer", "1", "independent slices of the channels; C for a depthwise convolution"},
};

constexpr OperandInfo kReduceOperands[] = {{"x", kAll, "any"}};
constexpr AttributeInfo kReduceAttributes[] = {
    {"kind", "\"sum\" | \"mean\" | \"min\" | \"max\"", "", "what is computed; NaN propagates; the mean is of floats only"},
    {"axes", "list of integers", "", "axes reduced; negative counts from the end"},
    {"keepdims", "true | false", "false", "keep the reduced axes with size 1"},
};

constexpr OperandInfo kSoftmaxOperands[] = {{"x", kFloats, "any of rank 1 or more"}};
constexpr AttributeInfo kSoftmaxAttributes[] = {{"axis", "integer", "", "the axis that sums to 1; negative counts from the end"}};

constexpr OperandInfo kCrossEntropyOperands[] = {{"logits", kFloats, "[N, C]"}, {"targets", "i64", "[N]"}};
constexpr AttributeInfo kCrossEntropyAttributes[] = {
    {"reduction", "\"mean\" | \"sum\" | \"none\"", "\"mean\"", "mean divides by the rows that count, NaN when none does"},
    {"ignore_index", "integer", "-100", "rows with this target count nowhere"},
    {"label_smoothing", "number in [0, 1]", "0", "share of the target's weight spread evenly over all classes"},
};

constexpr OperandInfo kMapOperands[] = {{"in", kAll, "any, broadcast as in NumPy"}};
constexpr AttributeInfo kMapAttributes[] = {
    {"expr", "text", "", "expression over the operands' names, such as \"gelu(x + z) * 0.5\""},
    {"dtype", kAll, kPromoted, "storage type of the result"},
};
constexpr AttributeInfo kCastAttributes[] = {{"dtype", kAll, "", "the new storage type"}};
constexpr AttributeInfo kNamedAttributes[] = {{"dtype", kAll, kPromoted, "storage type of the result"}};
constexpr AttributeInfo kGeluAttributes[] = {
    {"approximate", "\"none\" | \"tanh\"", "\"none\"", "x*(1 + erf(x/sqrt(2)))/2, or with tanh(sqrt(2/pi)*(x + 0.044715*x^3)) for erf"},
    {"dtype", kAll, kPromoted, "storage type of the result"},
};
constexpr OperandInfo kUnary[] = {{"x", kAll, "any"}};
constexpr OperandInfo kBinary[] = {{"a", kAll, "any, or a number"}, {"b", kAll, "any, or a number, broadcast as in NumPy"}};

constexpr llvm::StringRef kMapResult = "broadcast shape of the operands";

OperatorInfo unary(llvm::StringRef name, llvm::StringRef summary, llvm::StringRef formula, llvm::StringRef expansion) {
  return {name, summary, formula, kUnary, false, kNamedAttributes, "shape of x", expansion};
}
OperatorInfo binary(llvm::StringRef name, llvm::StringRef summary, llvm::StringRef formula, llvm::StringRef expansion) {
  return {name, summary, formula, kBinary, false, kNamedAttributes, kMapResult, expansion};
}

}  // namespace

llvm::ArrayRef<OperatorInfo> operator_table() {
  // Local, so that it is built at first use and not while the library is being loaded.
  static const OperatorInfo kTable[] = {
      {"conv", "convolution (cross-correlation) over 1, 2 or 3 spatial dimensions",
       "y[n,o,p] = bias[o] + sum_{c,k} x[n, c, p*stride + k*dilation - before] * w[o,c,k]", kConvOperands, false, kConvAttributes,
       "dtype of x; [N, O, out...], out = (in + before + after - dilation*(kernel-1) - 1)/stride + 1", ""},
      {"reduce", "sum, mean, minimum or maximum over any axes", "y = kind of x over axes", kReduceOperands, false, kReduceAttributes,
       "dtype of x (i64 for a sum of i32 or bool); shape of x without the axes", ""},
      {"softmax", "softmax over one axis", "y = exp(x - max x) / sum exp(x - max x)", kSoftmaxOperands, false, kSoftmaxAttributes,
       "dtype and shape of x", ""},
      {"cross_entropy", "cross entropy of logits against class indices",
       "loss[n] = (1-e)*(lse x[n] - x[n,t[n]]) + e*(lse x[n] - mean_c x[n,c]), lse x = log sum exp x, e = label_smoothing",
       kCrossEntropyOperands, false, kCrossEntropyAttributes, "f32; scalar, or [N] for reduction \"none\"", ""},
      {"map", "elementwise expression over operands broadcast as in NumPy", "y = expr", kMapOperands, true, kMapAttributes, kMapResult, ""},
      {"cast", "conversion to another dtype", "y = x rounded to dtype", kUnary, false, kCastAttributes, "shape of x", "x"},
      binary("add", "sum", "y = a + b", "a + b"),
      binary("sub", "difference", "y = a - b", "a - b"),
      binary("mul", "product", "y = a * b", "a * b"),
      binary("div", "quotient", "y = a / b; integers truncate toward zero, a / 0 is 0", "a / b"),
      binary("max", "larger of two; NaN when either is", "y = max(a, b)", "max(a, b)"),
      binary("min", "smaller of two; NaN when either is", "y = min(a, b)", "min(a, b)"),
      unary("relu", "rectified linear unit", "y = max(x, 0)", "relu(x)"),
      unary("sigmoid", "logistic function", "y = 1/(1 + exp(-x))", "sigmoid(x)"),
      unary("tanh", "hyperbolic tangent", "y = tanh x", "tanh(x)"),
      {"gelu", "Gaussian error linear unit", "y = x*(1 + erf(x/sqrt(2)))/2", kUnary, false, kGeluAttributes, "shape of x", "gelu(x)"},
      unary("silu", "sigmoid linear unit", "y = x/(1 + exp(-x))", "silu(x)"),
      unary("exp", "exponential", "y = e^x", "exp(x)"),
      unary("log", "natural logarithm", "y = ln x", "log(x)"),
      unary("sqrt", "square root", "y = sqrt x", "sqrt(x)"),
      unary("rsqrt", "reciprocal square root", "y = 1/sqrt x", "rsqrt(x)"),
      unary("abs", "absolute value", "y = |x|", "abs(x)"),
      unary("neg", "negation", "y = -x", "-x"),
  };
  return kTable;
}

const OperatorInfo* find_operator(llvm::StringRef name) {
  for (const OperatorInfo& info : operator_table()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

llvm::SmallVector<llvm::StringRef, 32> operator_names() {
  llvm::SmallVector<llvm::StringRef, 32> names;
  for (const OperatorInfo& info : operator_table()) names.push_back(info.name);
  return names;
}

}  // namespace tilewright
