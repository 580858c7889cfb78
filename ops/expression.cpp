// Nodes of map expressions: types, promotion, exact folding, substitution, text.
#include "ops/expression.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr double kLargestExactInteger = 9007199254740992.0;  // 2^53

constexpr ExprFnInfo kFunctions[] = {
    {ExprFn::kAbs, "abs", 1},        {ExprFn::kCast, "cast_bf16", 1},
    {ExprFn::kCast, "cast_bool", 1}, {ExprFn::kCast, "cast_f16", 1},
    {ExprFn::kCast, "cast_f32", 1},  {ExprFn::kCast, "cast_i32", 1},
    {ExprFn::kCast, "cast_i64", 1},  {ExprFn::kCeil, "ceil", 1},
    {ExprFn::kCos, "cos", 1},        {ExprFn::kErf, "erf", 1},
    {ExprFn::kExp, "exp", 1},        {ExprFn::kFloor, "floor", 1},
    {ExprFn::kGelu, "gelu", 1},      {ExprFn::kGeluTanh, "gelu_tanh", 1},
    {ExprFn::kIsNan, "isnan", 1},    {ExprFn::kLog, "log", 1},
    {ExprFn::kMax, "max", 2},        {ExprFn::kMin, "min", 2},
    {ExprFn::kPow, "pow", 2},        {ExprFn::kReciprocal, "reciprocal", 1},
    {ExprFn::kRelu, "relu", 1},      {ExprFn::kRound, "round", 1},
    {ExprFn::kRsqrt, "rsqrt", 1},    {ExprFn::kSigmoid, "sigmoid", 1},
    {ExprFn::kSilu, "silu", 1},      {ExprFn::kSin, "sin", 1},
    {ExprFn::kSqrt, "sqrt", 1},      {ExprFn::kTanh, "tanh", 1},
    {ExprFn::kWhere, "where", 3},
};

DType wider(DType a, DType b) { return promotion_rank(a) >= promotion_rank(b) ? a : b; }

Expr make_node(ExprFn fn, DType type, llvm::ArrayRef<Expr> args) {
  auto node = std::make_shared<ExprNode>();
  node->fn = fn;
  node->type = type;
  node->args.assign(args.begin(), args.end());
  return node;
}

Expr promote(const Expr& value, DType type) { return compute_type(value->type) == type ? value : cast_expr(value, type); }

// Whether `result`, computed in double from f32 constants, is what exact real arithmetic gives and f32 can hold.
bool is_exact_f32(ExprFn fn, double a, double b, double result) {
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(result)) return false;
  if (static_cast<double>(static_cast<float>(result)) != result) return false;
  switch (fn) {
    case ExprFn::kAdd:
    case ExprFn::kSub: {
      const double addend = fn == ExprFn::kAdd ? b : -b;
      const double rest = result - a;
      return (a - (result - rest)) + (addend - rest) == 0.0;
    }
    case ExprFn::kMul:
      return true;  // 24 + 24 bits fit a double
    case ExprFn::kDiv:
      return b != 0.0 && result * b == a;
    default:
      return false;
  }
}

bool folds_exactly(const ExprNode& node, double result) {
  switch (node.fn) {
    case ExprFn::kNeg:
    case ExprFn::kAbs:
    case ExprFn::kRelu:
    case ExprFn::kNot:
    case ExprFn::kFloor:
    case ExprFn::kCeil:
    case ExprFn::kRound:
    case ExprFn::kIsNan:
    case ExprFn::kMin:
    case ExprFn::kMax:
    case ExprFn::kAnd:
    case ExprFn::kOr:
      return is_floating(node.type) || std::abs(result) <= kLargestExactInteger;
    case ExprFn::kAdd:
    case ExprFn::kSub:
    case ExprFn::kMul:
    case ExprFn::kDiv:
      if (!is_floating(node.type)) return std::abs(result) <= kLargestExactInteger;
      return is_exact_f32(node.fn, node.args[0]->constant, node.args[1]->constant, result);
    default:
      return is_comparison(node.fn);
  }
}

Expr fold(Expr node) {
  for (const Expr& arg : node->args) {
    if (arg->fn != ExprFn::kConstant) return node;
  }
  const double result = evaluate_expression(node, {});
  return folds_exactly(*node, result) ? constant_expr(result, node->type) : node;
}

Expr call_unary(ExprFn fn, const Expr& arg) {
  const DType type = compute_type(arg->type);
  switch (fn) {
    case ExprFn::kNot:
      return fold(make_node(fn, DType::kBool, promote(arg, DType::kBool)));
    case ExprFn::kIsNan:
      if (!is_floating(type)) return constant_expr(0.0, DType::kBool);
      return fold(make_node(fn, DType::kBool, arg));
    case ExprFn::kNeg:
    case ExprFn::kAbs:
    case ExprFn::kRelu: {
      const DType result = wider(type, DType::kI32);
      return fold(make_node(fn, result, promote(arg, result)));
    }
    case ExprFn::kFloor:
    case ExprFn::kCeil:
    case ExprFn::kRound:
      if (!is_floating(type)) return arg;
      return fold(make_node(fn, DType::kF32, arg));
    default:
      return fold(make_node(fn, DType::kF32, promote(arg, DType::kF32)));
  }
}

Expr call_binary(ExprFn fn, const Expr& a, const Expr& b) {
  DType type = wider(compute_type(a->type), compute_type(b->type));
  if (fn == ExprFn::kAnd || fn == ExprFn::kOr) type = DType::kBool;
  if (fn == ExprFn::kPow) type = DType::kF32;
  if (type == DType::kBool && fn == ExprFn::kMin) fn = ExprFn::kAnd;
  if (type == DType::kBool && fn == ExprFn::kMax) fn = ExprFn::kOr;
  const bool logical = fn == ExprFn::kAnd || fn == ExprFn::kOr || is_comparison(fn);
  if (!logical) type = wider(type, DType::kI32);
  return fold(make_node(fn, logical ? DType::kBool : type, {promote(a, type), promote(b, type)}));
}

Expr substitute_shared(const Expr& expr, llvm::ArrayRef<Expr> replacement, std::unordered_map<const ExprNode*, Expr>& done) {
  if (expr->fn == ExprFn::kConstant) return expr;
  if (expr->fn == ExprFn::kOperand) return replacement[expr->operand];
  const auto seen = done.find(expr.get());
  if (seen != done.end()) return seen->second;
  llvm::SmallVector<Expr, 3> args;
  for (const Expr& arg : expr->args) args.push_back(substitute_shared(arg, replacement, done));
  Expr result = expr->fn == ExprFn::kCast ? cast_expr(args[0], expr->type) : call_expr(expr->fn, args);
  done.emplace(expr.get(), result);
  return result;
}

std::string constant_text(const ExprNode& node) {
  const double value = node.constant;
  switch (node.type) {
    case DType::kBool:
      return value != 0.0 ? "true" : "false";
    case DType::kI32:
      // The literal without its sign does not fit i32.
      if (value == std::numeric_limits<std::int32_t>::min()) return "cast_i32(-2147483648)";
      return fmt::format("{}", static_cast<std::int64_t>(value));
    case DType::kI64:
      return fmt::format("cast_i64({})", static_cast<std::int64_t>(value));
    default:
      break;
  }
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void count_flops(const Expr& expr, std::unordered_set<const ExprNode*>& seen, std::uint64_t& flops) {
  if (!seen.insert(expr.get()).second) return;
  if (expr->fn != ExprFn::kOperand && expr->fn != ExprFn::kConstant && expr->fn != ExprFn::kCast) ++flops;
  for (const Expr& arg : expr->args) count_flops(arg, seen, flops);
}

}  // namespace

bool is_comparison(ExprFn fn) {
  switch (fn) {
    case ExprFn::kLt:
    case ExprFn::kLe:
    case ExprFn::kGt:
    case ExprFn::kGe:
    case ExprFn::kEq:
    case ExprFn::kNe:
      return true;
    default:
      return false;
  }
}

llvm::ArrayRef<ExprFnInfo> expr_functions() { return kFunctions; }

llvm::StringRef expr_fn_name(ExprFn fn) {
  switch (fn) {
    case ExprFn::kOperand:
      return "operand";
    case ExprFn::kConstant:
      return "constant";
    case ExprFn::kCast:
      return "cast";
    case ExprFn::kNeg:
    case ExprFn::kSub:
      return "-";
    case ExprFn::kNot:
      return "!";
    case ExprFn::kAdd:
      return "+";
    case ExprFn::kMul:
      return "*";
    case ExprFn::kDiv:
      return "/";
    case ExprFn::kLt:
      return "<";
    case ExprFn::kLe:
      return "<=";
    case ExprFn::kGt:
      return ">";
    case ExprFn::kGe:
      return ">=";
    case ExprFn::kEq:
      return "==";
    case ExprFn::kNe:
      return "!=";
    case ExprFn::kAnd:
      return "&&";
    case ExprFn::kOr:
      return "||";
    default:
      break;
  }
  for (const ExprFnInfo& info : kFunctions) {
    if (info.fn == fn) return info.name;
  }
  return "unknown";
}

DType compute_type(DType dtype) { return is_floating(dtype) ? DType::kF32 : dtype; }

int promotion_rank(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 0;
    case DType::kI32:
      return 1;
    case DType::kI64:
      return 2;
    default:
      return 3;
  }
}

Expr operand_expr(unsigned slot, DType compute) {
  auto node = std::make_shared<ExprNode>();
  node->fn = ExprFn::kOperand;
  node->type = compute_type(compute);
  node->operand = slot;
  return node;
}

Expr constant_expr(double value, DType compute) {
  auto node = std::make_shared<ExprNode>();
  node->fn = ExprFn::kConstant;
  node->type = compute_type(compute);
  node->constant = node->type == DType::kF32 ? static_cast<double>(static_cast<float>(value)) : value;
  return node;
}

Expr call_expr(ExprFn fn, llvm::ArrayRef<Expr> args) {
  if (fn == ExprFn::kWhere) {
    const DType type = wider(compute_type(args[1]->type), compute_type(args[2]->type));
    const Expr condition = promote(args[0], DType::kBool);
    const Expr chosen[2] = {promote(args[1], type), promote(args[2], type)};
    if (condition->fn == ExprFn::kConstant) return condition->constant != 0.0 ? chosen[0] : chosen[1];
    return make_node(fn, type, {condition, chosen[0], chosen[1]});
  }
  if (args.size() == 1) return call_unary(fn, args[0]);
  return call_binary(fn, args[0], args[1]);
}

Expr cast_expr(Expr value, DType compute) {
  if (value->type == compute || (compute == DType::kF32 && is_floating(value->type))) return value;
  if (is_floating(compute) && !is_floating(value->type)) {
    // An integer goes through f32 on its way to a narrower float, as on the device.
    if (compute != DType::kF32) return cast_expr(cast_expr(std::move(value), DType::kF32), compute);
  }
  Expr node = make_node(ExprFn::kCast, compute, value);
  if (value->fn != ExprFn::kConstant) return node;
  const double result = evaluate_expression(node, {});
  if (!is_floating(compute) && std::abs(result) > kLargestExactInteger) return node;
  return constant_expr(result, compute);
}

Expr substitute(const Expr& expr, llvm::ArrayRef<Expr> replacement) {
  std::unordered_map<const ExprNode*, Expr> done;
  return substitute_shared(expr, replacement, done);
}

std::string expr_text(const Expr& expr) {
  const ExprNode& node = *expr;
  if (node.fn == ExprFn::kOperand) return fmt::format("%{}", node.operand);
  if (node.fn == ExprFn::kConstant) return constant_text(node);
  if (node.fn == ExprFn::kCast) return fmt::format("cast_{}({})", dtype_name(node.type).str(), expr_text(node.args[0]));
  const std::string name = expr_fn_name(node.fn).str();
  if (node.fn == ExprFn::kNeg || node.fn == ExprFn::kNot) return fmt::format("({}{})", name, expr_text(node.args[0]));
  const bool is_call = (name[0] >= 'a' && name[0] <= 'z');
  if (!is_call) return fmt::format("({} {} {})", expr_text(node.args[0]), name, expr_text(node.args[1]));
  std::string text = name + "(";
  for (std::size_t i = 0; i < node.args.size(); ++i) text += (i == 0 ? "" : ", ") + expr_text(node.args[i]);
  return text + ")";
}

std::uint64_t expr_flops(const Expr& expr) {
  std::unordered_set<const ExprNode*> seen;
  std::uint64_t flops = 0;
  count_flops(expr, seen, flops);
  return flops;
}

}  // namespace tilewright
