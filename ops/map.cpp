// map: broadcasting and dtype promotion of elementwise expressions.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "ops/infer.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// Storage dtype of a result; empty for what adapts to its neighbours (float constants, functions of integers).
using Storage = std::optional<DType>;

// Floats win over integers; f16 with bf16 meet in f32.
Storage promoted(Storage a, Storage b) {
  if (!a || !b) return a ? a : b;
  if (*a == *b) return a;
  if (is_floating(*a) && is_floating(*b)) return DType::kF32;
  return promotion_rank(*a) >= promotion_rank(*b) ? a : b;
}

class StorageOf {
 public:
  explicit StorageOf(llvm::ArrayRef<DType> operands) : operands_(operands) {}

  Storage visit(const Expr& expr) {
    if (expr->fn == ExprFn::kOperand) return operands_[expr->operand];
    // A constant adapts: x * 0.5 keeps the dtype of an f16 x.
    if (expr->fn == ExprFn::kConstant) return std::nullopt;
    const auto seen = done_.find(expr.get());
    if (seen != done_.end()) return seen->second;
    const Storage result = visit_call(*expr);
    done_.emplace(expr.get(), result);
    return result;
  }

 private:
  Storage visit_call(const ExprNode& node) {
    if (node.fn == ExprFn::kCast && is_floating(node.type)) {
      // The promotion of an integer next to a float is such a cast too, and must not widen its f16 neighbour.
      return node.type == DType::kF32 ? Storage() : Storage(node.type);
    }
    if (!is_floating(node.type)) return node.type;
    Storage result;
    const std::size_t first = node.fn == ExprFn::kWhere ? 1 : 0;
    for (std::size_t i = first; i < node.args.size(); ++i) {
      const Storage arg = visit(node.args[i]);
      if (arg && is_floating(*arg)) result = promoted(result, arg);
    }
    return result;
  }

  llvm::ArrayRef<DType> operands_;
  std::unordered_map<const ExprNode*, Storage> done_;
};

DType result_dtype(const Graph& graph, llvm::ArrayRef<ValueId> inputs, const Expr& expr) {
  llvm::SmallVector<DType, 4> operands;
  for (const ValueId id : inputs) operands.push_back(graph.value(id).dtype);
  const Storage storage = StorageOf(operands).visit(expr);
  return storage ? *storage : compute_type(expr->type);
}

// Marks the slots that `expr` reads; fails on a slot that is not there or is of another type than its operand.
llvm::Error mark_operands(const Graph& graph, llvm::ArrayRef<ValueId> inputs, const Expr& expr, std::unordered_set<const ExprNode*>& seen,
                          llvm::BitVector& used) {
  if (!seen.insert(expr.get()).second) return llvm::Error::success();
  if (expr->fn == ExprFn::kOperand) {
    if (expr->operand >= inputs.size()) {
      return make_error(Status::kInvalidArgument, "expr reads operand {}, but there are {}", expr->operand, inputs.size());
    }
    const DType wanted = compute_type(graph.value(inputs[expr->operand]).dtype);
    if (expr->type != wanted) {
      return make_error(Status::kInvalidArgument, "{}: expr reads it as {}, but its compute type is {}",
                        operand_text(graph, inputs[expr->operand], "in"), dtype_name(expr->type), dtype_name(wanted));
    }
    used.set(expr->operand);
  }
  for (const Expr& arg : expr->args) {
    if (llvm::Error error = mark_operands(graph, inputs, arg, seen, used)) return error;
  }
  return llvm::Error::success();
}

llvm::Expected<Shape> broadcast(const Graph& graph, llvm::ArrayRef<ValueId> inputs) {
  Shape result;
  for (const ValueId id : inputs) {
    const Shape& shape = graph.value(id).shape;
    while (result.size() < shape.size()) result.insert(result.begin(), SizeExpr(1));
    const std::size_t lead = result.size() - shape.size();
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      SizeExpr& size = result[lead + axis];
      if (shape[axis].is_constant(1) || shape[axis] == size) continue;
      if (size.is_constant(1)) {
        size = shape[axis];
        continue;
      }
      std::string all;
      for (const ValueId other : inputs)
        all += fmt::format("{}\"{}\" {}", all.empty() ? "" : ", ", graph.value(other).name, shape_of(graph, other));
      return make_error(Status::kInvalidArgument,
                        "operands {} do not broadcast: {} against {} (sizes must be equal or 1, counted from the last)", all,
                        shape[axis].str(graph.symbols()), size.str(graph.symbols()));
    }
  }
  return result;
}

}  // namespace

llvm::Expected<Inferred> infer_map(const Graph& graph, llvm::ArrayRef<ValueId> inputs, std::optional<DType> dtype,
                                   MapAttributes& attributes) {
  if (inputs.empty()) return make_error(Status::kInvalidArgument, "expected at least one operand that is a value");
  llvm::BitVector used(static_cast<unsigned>(inputs.size()));
  std::unordered_set<const ExprNode*> seen;
  if (llvm::Error error = mark_operands(graph, inputs, attributes.expr, seen, used)) return error;
  for (unsigned slot = 0; slot < inputs.size(); ++slot) {
    if (used.test(slot)) continue;
    return make_error(Status::kInvalidArgument, "{} is not used in expr", operand_text(graph, inputs[slot], "in"));
  }
  llvm::Expected<Shape> shape = broadcast(graph, inputs);
  if (!shape) return shape.takeError();
  attributes.dtype = dtype ? *dtype : result_dtype(graph, inputs, attributes.expr);
  attributes.expr = cast_expr(attributes.expr, compute_type(attributes.dtype));
  // Storing rounds anyway.
  if (attributes.expr->fn == ExprFn::kCast && attributes.expr->type == attributes.dtype &&
      attributes.dtype != compute_type(attributes.dtype)) {
    attributes.expr = attributes.expr->args[0];
  }
  return Inferred{attributes.dtype, std::move(*shape)};
}

}  // namespace tilewright
