// The typed operator graph a description denotes. Built by GraphBuilder or from JSON; immutable and valid once built.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "ops/expression.h"
#include "runtime/dtype.h"
#include "runtime/size_expr.h"

namespace tilewright {

using ValueId = std::uint32_t;
using OpId = std::uint32_t;

// What contractions may do to f32 operands (docs/descriptions.md). kBf16x3 is refused by name until it exists.
enum class Precision : std::uint8_t { kIeee, kTf32x3, kBf16x3, kTf32, kBf16 };
llvm::StringRef precision_name(Precision precision);
std::optional<Precision> parse_precision(llvm::StringRef name);

enum class ReduceKind : std::uint8_t { kSum, kMean, kMin, kMax };
llvm::StringRef reduce_kind_name(ReduceKind kind);  // "sum", "mean", "min", "max"
std::optional<ReduceKind> parse_reduce_kind(llvm::StringRef name);

enum class LossReduction : std::uint8_t { kMean, kSum, kNone };
llvm::StringRef loss_reduction_name(LossReduction reduction);  // "mean", "sum", "none"
std::optional<LossReduction> parse_loss_reduction(llvm::StringRef name);

// x [N, C, spatial...], w [O, C/groups, kernel...], optional bias [O] -> [N, O, out...]; out = (in + before + after - dilation*(k-1) -
// 1)/stride + 1. Of x, C is a number and N and the spatial sizes may be symbolic; w is all numbers. w has the dtype of x (f32, f16, bf16),
// bias that or f32; the result has the dtype of x.
struct ConvAttributes {
  llvm::SmallVector<std::int64_t, 3> stride, dilation, pad_before, pad_after;  // one per spatial dimension (1 to 3)
  std::int64_t groups = 1;
  unsigned spatial() const { return static_cast<unsigned>(stride.size()); }
};

// The result keeps the dtype of x, except that a sum of i32 or bool is i64. The mean is of floats only. An empty sum is 0, an empty mean
// NaN, an empty min or max of floats +inf or -inf; an axis known to be empty is refused for min and max of integers. NaN propagates.
struct ReduceAttributes {
  ReduceKind kind = ReduceKind::kSum;
  llvm::SmallVector<unsigned, 6> axes;  // ascending, without repeats
  bool keepdims = false;
};

// y = exp(x - max) / sum exp(x - max) over one axis; floats, dtype of x
struct SoftmaxAttributes {
  unsigned axis = 0;
};

// logits [N, C], targets i64 [N] -> scalar, or [N] for kNone. A row whose target is ignore_index counts nowhere; label_smoothing e:
// loss = (1 - e) * (lse - x[t]) + e * (lse - mean_c x[c]); kMean divides by the number of rows that count (NaN when none does). The loss is
// f32 whatever the dtype of the logits, so that a mean over many rows keeps its digits.
struct CrossEntropyAttributes {
  LossReduction reduction = LossReduction::kMean;
  std::int64_t ignore_index = -100;
  double label_smoothing = 0.0;
};

// Elementwise over operands broadcast as in NumPy; operand slot i is input i. The result is rounded to `dtype`.
struct MapAttributes {
  Expr expr;
  DType dtype = DType::kF32;
};

using Attributes = std::variant<ConvAttributes, ReduceAttributes, SoftmaxAttributes, CrossEntropyAttributes, MapAttributes>;

struct Value {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  llvm::SmallVector<std::int64_t, 6> strides;  // elements; only inputs may have them; empty = row-major
  std::optional<OpId> producer;                // empty for an input
};

struct Op {
  Attributes attributes;
  llvm::SmallVector<ValueId, 4> inputs;
  ValueId output = 0;
};

// "conv", "reduce", "softmax", "cross_entropy", "map"
llvm::StringRef op_name(const Op& op);

class Graph {
 public:
  const std::string& name() const { return name_; }
  Precision precision() const { return precision_; }
  bool deterministic() const { return deterministic_; }
  llvm::ArrayRef<Symbol> symbols() const { return symbols_; }
  // Dimensions that were replaced by a number when the description was read ("baked": true); default_value is that number.
  llvm::ArrayRef<Symbol> baked_dims() const { return baked_; }
  llvm::ArrayRef<Value> values() const { return values_; }
  llvm::ArrayRef<Op> ops() const { return ops_; }             // in an order that respects dependencies
  llvm::ArrayRef<ValueId> inputs() const { return inputs_; }  // in declaration order
  llvm::ArrayRef<ValueId> outputs() const { return outputs_; }
  const Value& value(ValueId id) const { return values_[id]; }
  const Op& op(OpId id) const { return ops_[id]; }
  // Ops that read `id`, ascending; an op that reads it twice appears once.
  llvm::SmallVector<OpId, 4> users(ValueId id) const;
  bool is_output(ValueId id) const;
  // Default values of the symbols, by index.
  llvm::SmallVector<std::int64_t, 4> default_dims() const;

 private:
  friend class GraphBuilder;
  std::string name_;
  Precision precision_ = Precision::kTf32x3;
  bool deterministic_ = true;
  std::vector<Symbol> symbols_;
  std::vector<Symbol> baked_;
  std::vector<Value> values_;
  std::vector<Op> ops_;
  std::vector<ValueId> inputs_, outputs_;
};

// Whether some op sums products of two operands.
bool contracts(const Graph& graph);

}  // namespace tilewright
