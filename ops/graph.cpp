#include "ops/graph.h"

#include "llvm/ADT/STLExtras.h"

namespace tilewright {
namespace {

constexpr Precision kPrecisions[] = {Precision::kIeee, Precision::kTf32x3, Precision::kBf16x3, Precision::kTf32, Precision::kBf16};
constexpr ReduceKind kReduceKinds[] = {ReduceKind::kSum, ReduceKind::kMean, ReduceKind::kMin, ReduceKind::kMax};
constexpr LossReduction kLossReductions[] = {LossReduction::kMean, LossReduction::kSum, LossReduction::kNone};

}  // namespace

llvm::StringRef precision_name(Precision precision) {
  switch (precision) {
    case Precision::kIeee:
      return "ieee";
    case Precision::kTf32x3:
      return "tf32x3";
    case Precision::kBf16x3:
      return "bf16x3";
    case Precision::kTf32:
      return "tf32";
    case Precision::kBf16:
      return "bf16";
  }
  return "unknown";
}

std::optional<Precision> parse_precision(llvm::StringRef name) {
  for (const Precision precision : kPrecisions) {
    if (precision_name(precision) == name) return precision;
  }
  return std::nullopt;
}

llvm::StringRef reduce_kind_name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "sum";
    case ReduceKind::kMean:
      return "mean";
    case ReduceKind::kMin:
      return "min";
    case ReduceKind::kMax:
      return "max";
  }
  return "unknown";
}

std::optional<ReduceKind> parse_reduce_kind(llvm::StringRef name) {
  for (const ReduceKind kind : kReduceKinds) {
    if (reduce_kind_name(kind) == name) return kind;
  }
  return std::nullopt;
}

llvm::StringRef loss_reduction_name(LossReduction reduction) {
  switch (reduction) {
    case LossReduction::kMean:
      return "mean";
    case LossReduction::kSum:
      return "sum";
    case LossReduction::kNone:
      return "none";
  }
  return "unknown";
}

std::optional<LossReduction> parse_loss_reduction(llvm::StringRef name) {
  for (const LossReduction reduction : kLossReductions) {
    if (loss_reduction_name(reduction) == name) return reduction;
  }
  return std::nullopt;
}

llvm::StringRef op_name(const Op& op) {
  constexpr llvm::StringRef kNames[] = {"conv", "reduce", "softmax", "cross_entropy", "map"};
  return kNames[op.attributes.index()];
}

llvm::SmallVector<OpId, 4> Graph::users(ValueId id) const {
  llvm::SmallVector<OpId, 4> result;
  for (OpId op = 0; op < ops_.size(); ++op) {
    if (llvm::is_contained(ops_[op].inputs, id)) result.push_back(op);
  }
  return result;
}

bool Graph::is_output(ValueId id) const { return llvm::is_contained(outputs_, id); }

llvm::SmallVector<std::int64_t, 4> Graph::default_dims() const {
  llvm::SmallVector<std::int64_t, 4> dims;
  for (const Symbol& symbol : symbols_) dims.push_back(symbol.default_value);
  return dims;
}

bool contracts(const Graph& graph) {
  return llvm::any_of(graph.ops(), [](const Op& op) { return std::holds_alternative<ConvAttributes>(op.attributes); });
}

}  // namespace tilewright
