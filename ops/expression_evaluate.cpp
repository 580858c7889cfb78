// The meaning of map expressions, in double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/expression.h"
#include "ops/tensor.h"

namespace tilewright {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;       // 1 / sqrt(2)
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;  // sqrt(2 / pi), of gelu's tanh form (Hendrycks and Gimpel, 2016)
constexpr double kGeluCubic = 0.044715;

std::int64_t saturating_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9223372036854775808.0) return std::numeric_limits<std::int64_t>::max();
  if (value < -9223372036854775808.0) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

double wrapped(std::uint64_t bits, DType type) {
  if (type == DType::kI32) return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
  return static_cast<double>(static_cast<std::int64_t>(bits));
}

double cast_value(double value, DType from, DType to) {
  switch (to) {
    case DType::kBool:
      return value != 0.0 ? 1.0 : 0.0;
    case DType::kI64:
      return static_cast<double>(saturating_integer(value));
    case DType::kI32:
      if (!is_floating(from)) return wrapped(static_cast<std::uint64_t>(saturating_integer(value)), to);
      if (std::isnan(value)) return 0.0;
      return std::trunc(std::clamp(value, -2147483648.0, 2147483647.0));
    case DType::kF16:
    case DType::kBf16:
      return round_to_dtype(value, to);
    case DType::kF32:
      return value;
  }
  return value;
}

double min_nan(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::min(a, b); }
double max_nan(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b); }

double integer_arithmetic(ExprFn fn, DType type, double a, double b) {
  const std::int64_t x = saturating_integer(a);
  const std::int64_t y = saturating_integer(b);
  const auto ux = static_cast<std::uint64_t>(x);
  const auto uy = static_cast<std::uint64_t>(y);
  switch (fn) {
    case ExprFn::kAdd:
      return wrapped(ux + uy, type);
    case ExprFn::kSub:
      return wrapped(ux - uy, type);
    case ExprFn::kMul:
      return wrapped(ux * uy, type);
    default:
      break;
  }
  if (y == 0) return 0.0;
  if (y == -1) return wrapped(0 - ux, type);
  return wrapped(static_cast<std::uint64_t>(x / y), type);
}

double unary_value(const ExprNode& node, double x) {
  const bool floating = is_floating(node.type);
  switch (node.fn) {
    case ExprFn::kCast:
      return cast_value(x, node.args[0]->type, node.type);
    case ExprFn::kNeg:
      return floating ? -x : integer_arithmetic(ExprFn::kSub, node.type, 0.0, x);
    case ExprFn::kAbs:
      return floating || x >= 0 ? std::abs(x) : integer_arithmetic(ExprFn::kSub, node.type, 0.0, x);
    case ExprFn::kNot:
      return x == 0.0 ? 1.0 : 0.0;
    case ExprFn::kExp:
      return std::exp(x);
    case ExprFn::kLog:
      return std::log(x);
    case ExprFn::kSqrt:
      return std::sqrt(x);
    case ExprFn::kRsqrt:
      return 1.0 / std::sqrt(x);
    case ExprFn::kTanh:
      return std::tanh(x);
    case ExprFn::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case ExprFn::kRelu:
      return max_nan(x, 0.0);
    case ExprFn::kGelu:
      return 0.5 * x * (1.0 + std::erf(x * kSqrtHalf));
    case ExprFn::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(kSqrtTwoOverPi * (x + kGeluCubic * x * x * x)));
    case ExprFn::kSilu:
      return x / (1.0 + std::exp(-x));
    case ExprFn::kErf:
      return std::erf(x);
    case ExprFn::kSin:
      return std::sin(x);
    case ExprFn::kCos:
      return std::cos(x);
    case ExprFn::kFloor:
      return std::floor(x);
    case ExprFn::kCeil:
      return std::ceil(x);
    case ExprFn::kRound:
      return std::nearbyint(x);
    case ExprFn::kReciprocal:
      return 1.0 / x;
    case ExprFn::kIsNan:
      return std::isnan(x) ? 1.0 : 0.0;
    default:
      return 0.0;
  }
}

double binary_value(const ExprNode& node, double a, double b) {
  switch (node.fn) {
    case ExprFn::kAdd:
      if (is_floating(node.type)) return a + b;
      break;
    case ExprFn::kSub:
      if (is_floating(node.type)) return a - b;
      break;
    case ExprFn::kMul:
      if (is_floating(node.type)) return a * b;
      break;
    case ExprFn::kDiv:
      if (is_floating(node.type)) return a / b;
      break;
    case ExprFn::kMin:
      return min_nan(a, b);
    case ExprFn::kMax:
      return max_nan(a, b);
    case ExprFn::kPow:
      return std::pow(a, b);
    case ExprFn::kLt:
      return a < b ? 1.0 : 0.0;
    case ExprFn::kLe:
      return a <= b ? 1.0 : 0.0;
    case ExprFn::kGt:
      return a > b ? 1.0 : 0.0;
    case ExprFn::kGe:
      return a >= b ? 1.0 : 0.0;
    case ExprFn::kEq:
      return a == b ? 1.0 : 0.0;
    case ExprFn::kNe:
      return a != b ? 1.0 : 0.0;
    case ExprFn::kAnd:
      return a != 0.0 && b != 0.0 ? 1.0 : 0.0;
    case ExprFn::kOr:
      return a != 0.0 || b != 0.0 ? 1.0 : 0.0;
    default:
      return 0.0;
  }
  return integer_arithmetic(node.fn, node.type, a, b);
}

double value_of(const ExprNode& node, llvm::ArrayRef<double> values) {
  if (node.fn == ExprFn::kConstant) return node.constant;
  if (node.fn == ExprFn::kOperand) return values[node.operand];
  const double first = value_of(*node.args[0], values);
  if (node.fn == ExprFn::kWhere) return value_of(*node.args[first != 0.0 ? 1 : 2], values);
  if (node.args.size() == 1) return unary_value(node, first);
  return binary_value(node, first, value_of(*node.args[1], values));
}

}  // namespace

double evaluate_expression(const Expr& expr, llvm::ArrayRef<double> values) { return value_of(*expr, values); }

}  // namespace tilewright
