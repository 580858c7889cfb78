// C++ of map expressions: one const local per node, shared nodes written once.
#include <cmath>
#include <limits>
#include <unordered_map>

#include "codegen/hooks.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// C++ has no negative literals: the digits of the smallest i64 alone would fit no type.
std::string i64_text(double value) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (value <= -kTwo63) return "tw::i64(-9223372036854775807ll - 1)";
  if (value >= kTwo63) return "tw::i64(9223372036854775807ll)";
  return fmt::format("tw::i64({}ll)", static_cast<std::int64_t>(value));
}

std::string constant_text(double value, DType type) {
  if (type == DType::kBool) return value != 0.0 ? "true" : "false";
  if (type == DType::kI32) return fmt::format("tw::i32({})", static_cast<std::int64_t>(value));
  if (type == DType::kI64) return i64_text(value);
  if (std::isnan(value)) return "tw::kNan";
  if (std::isinf(value)) return value > 0 ? "tw::kInfinity" : "-tw::kInfinity";
  // Hexadecimal floats carry every bit and depend on no locale.
  const auto narrow = static_cast<float>(value);
  if (std::isinf(narrow)) return narrow > 0 ? "tw::kInfinity" : "-tw::kInfinity";
  return fmt::format("{:a}f", narrow);
}

const char* device_function(ExprFn fn, bool floating) {
  switch (fn) {
    case ExprFn::kAdd:
      return "tw::add_int";
    case ExprFn::kSub:
      return "tw::sub_int";
    case ExprFn::kMul:
      return "tw::mul_int";
    case ExprFn::kDiv:
      return "tw::div_int";
    case ExprFn::kNeg:
      return "tw::neg_int";
    case ExprFn::kAbs:
      return floating ? "fabsf" : "tw::abs_int";
    case ExprFn::kExp:
      return "expf";
    case ExprFn::kLog:
      return "logf";
    case ExprFn::kSqrt:
      return "sqrtf";
    case ExprFn::kRsqrt:
      return "tw::rsqrt";
    case ExprFn::kTanh:
      return "tanhf";
    case ExprFn::kSigmoid:
      return "tw::sigmoid";
    case ExprFn::kRelu:
      return floating ? "tw::relu" : "tw::relu_int";
    case ExprFn::kGelu:
      return "tw::gelu";
    case ExprFn::kGeluTanh:
      return "tw::gelu_tanh";
    case ExprFn::kSilu:
      return "tw::silu";
    case ExprFn::kErf:
      return "erff";
    case ExprFn::kSin:
      return "sinf";
    case ExprFn::kCos:
      return "cosf";
    case ExprFn::kFloor:
      return "floorf";
    case ExprFn::kCeil:
      return "ceilf";
    case ExprFn::kRound:
      return "rintf";
    case ExprFn::kReciprocal:
      return "tw::reciprocal";
    case ExprFn::kMin:
      return floating ? "tw::min_nan" : "tw::min_int";
    case ExprFn::kMax:
      return floating ? "tw::max_nan" : "tw::max_int";
    case ExprFn::kPow:
      return "powf";
    default:
      return nullptr;
  }
}

// Spelled in C++ between its operands as in a description.
bool is_infix(ExprFn fn, bool floating) {
  if (is_comparison(fn)) return true;
  switch (fn) {
    case ExprFn::kAnd:
    case ExprFn::kOr:
      return true;
    case ExprFn::kAdd:
    case ExprFn::kSub:
    case ExprFn::kMul:
    case ExprFn::kDiv:
      return floating;
    default:
      return false;
  }
}

// Expands to many instructions.
bool is_costly(ExprFn fn) {
  switch (fn) {
    case ExprFn::kExp:
    case ExprFn::kLog:
    case ExprFn::kTanh:
    case ExprFn::kSigmoid:
    case ExprFn::kGelu:
    case ExprFn::kGeluTanh:
    case ExprFn::kSilu:
    case ExprFn::kErf:
    case ExprFn::kSin:
    case ExprFn::kCos:
    case ExprFn::kPow:
    case ExprFn::kDiv:
      return true;
    default:
      return false;
  }
}

std::string cast_text(const std::string& value, DType from, DType to) {
  if (to == DType::kF16 || to == DType::kBf16) return fmt::format("tw::to_float(tw::from_float<{}>({}))", storage_type_text(to), value);
  if (from == to) return value;
  if (to == DType::kBool) return fmt::format("({} != {})", value, constant_text(0.0, from));
  if (is_floating(from)) return fmt::format("tw::cast_int<{}>({})", compute_type_text(to), value);
  return fmt::format("{}({})", compute_type_text(to), value);
}

class Writer {
 public:
  Writer(std::string& out, llvm::ArrayRef<std::string> operands, const std::string& indent)
      : out_(out), operands_(operands), indent_(indent) {}

  std::string visit(const Expr& expr) {
    if (expr->fn == ExprFn::kOperand) return operands_[expr->operand];
    if (expr->fn == ExprFn::kConstant) return constant_text(expr->constant, expr->type);
    auto [seen, inserted] = names_.try_emplace(expr.get());
    if (!inserted) return seen->second;
    std::string args[3];
    for (std::size_t i = 0; i < expr->args.size(); ++i) args[i] = visit(expr->args[i]);
    std::string name = fmt::format("t{}", next_++);
    out_ += fmt::format("{}const {} {} = {};\n", indent_, compute_type_text(expr->type), name, spell(*expr, args));
    return names_[expr.get()] = name;
  }

 private:
  static std::string spell(const ExprNode& node, const std::string (&args)[3]) {
    const DType first = node.args.front()->type;
    const bool floating = is_floating(first);
    if (is_infix(node.fn, floating)) return fmt::format("{} {} {}", args[0], expr_fn_name(node.fn), args[1]);
    switch (node.fn) {
      case ExprFn::kCast:
        return cast_text(args[0], first, node.type);
      case ExprFn::kWhere:
        return fmt::format("{} ? {} : {}", args[0], args[1], args[2]);
      case ExprFn::kNeg:
        if (floating) return fmt::format("-{}", args[0]);
        break;
      case ExprFn::kNot:
        return fmt::format("!{}", args[0]);
      case ExprFn::kIsNan:
        return floating ? fmt::format("{0} != {0}", args[0]) : std::string("false");
      default:
        break;
    }
    const char* function = device_function(node.fn, floating);
    if (node.args.size() == 2) return fmt::format("{}({}, {})", function, args[0], args[1]);
    return fmt::format("{}({})", function, args[0]);
  }

  std::string& out_;
  llvm::ArrayRef<std::string> operands_;
  std::string indent_;
  std::unordered_map<const ExprNode*, std::string> names_;
  unsigned next_ = 0;  // number of the next temporary
};

}  // namespace

std::uint64_t compile_weight(const FusedMap& map) {
  constexpr std::uint64_t kFunction = 16, kLeaf = 4;
  std::uint64_t weight = kLeaf * map.leaves.size();
  llvm::SmallPtrSet<const ExprNode*, 16> seen;
  llvm::SmallVector<const ExprNode*, 16> waiting;
  if (map.expr) waiting.push_back(map.expr.get());
  while (!waiting.empty()) {
    const ExprNode* node = waiting.pop_back_val();
    if (!seen.insert(node).second) continue;
    for (const Expr& arg : node->args) waiting.push_back(arg.get());
    if (!node->args.empty()) weight += is_costly(node->fn) ? kFunction : 1;
  }
  return weight;
}

std::string storage_type_text(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kF16:
      return "tw::f16";
    case DType::kBf16:
      return "tw::bf16";
    case DType::kI32:
      return "tw::i32";
    case DType::kI64:
      return "tw::i64";
    case DType::kBool:
      return "bool";
  }
  return "";
}

std::string compute_type_text(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return "tw::i32";
    case DType::kI64:
      return "tw::i64";
    case DType::kBool:
      return "bool";
    default:
      return "float";
  }
}

std::string write_expression_statements(std::string& out, const Expr& expr, llvm::ArrayRef<std::string> operands,
                                        const std::string& indent) {
  return Writer(out, operands, indent).visit(expr);
}

}  // namespace tilewright
