// Text of map expressions to nodes: precedence climbing over one-character lookahead.
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "llvm/ADT/StringExtras.h"
#include "ops/expression.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// Bounds keep recursion over hostile input far from the end of the stack.
constexpr unsigned kMaxNesting = 128;
constexpr unsigned kMaxOperations = 1000;
constexpr std::uint64_t kLargestExactInteger = std::uint64_t{1} << 53;

struct BinaryOperator {
  llvm::StringRef text;
  ExprFn fn;
  int level;
};

// Longer spellings first, so that "<=" is not read as "<".
constexpr BinaryOperator kOperators[] = {
    {"||", ExprFn::kOr, 1}, {"&&", ExprFn::kAnd, 2}, {"==", ExprFn::kEq, 3}, {"!=", ExprFn::kNe, 3},
    {"<=", ExprFn::kLe, 4}, {">=", ExprFn::kGe, 4},  {"<", ExprFn::kLt, 4},  {">", ExprFn::kGt, 4},
    {"+", ExprFn::kAdd, 5}, {"-", ExprFn::kSub, 5},  {"*", ExprFn::kMul, 6}, {"/", ExprFn::kDiv, 6},
};

bool is_identifier_start(char c) { return llvm::isAlpha(c) || c == '_' || c == '%'; }
bool is_identifier_part(char c) { return llvm::isAlnum(c) || c == '_'; }

class Parser {
 public:
  Parser(llvm::StringRef text, llvm::ArrayRef<llvm::StringRef> names, llvm::ArrayRef<DType> types)
      : text_(text), names_(names), types_(types) {}

  llvm::Expected<Expr> parse() {
    llvm::Expected<Expr> result = parse_binary(1);
    if (!result) return result;
    skip_spaces();
    if (position_ != text_.size()) return fail("expected an operator or the end");
    return result;
  }

 private:
  llvm::Error fail_at(std::size_t position, const std::string& what) const {
    const std::string found = position < text_.size() ? fmt::format("\"{}\"", text_.substr(position, 12)) : std::string("the end");
    return make_error(Status::kInvalidArgument, "expr, column {}: {}, found {}", position + 1, what, found);
  }
  llvm::Error fail(const std::string& what) {
    skip_spaces();
    return fail_at(position_, what);
  }

  void skip_spaces() {
    while (position_ < text_.size() && llvm::isSpace(text_[position_])) ++position_;
  }
  bool take(char c) {
    skip_spaces();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  const BinaryOperator* peek_operator() {
    skip_spaces();
    for (const BinaryOperator& candidate : kOperators) {
      if (text_.substr(position_).starts_with(candidate.text)) return &candidate;
    }
    return nullptr;
  }

  bool count_operation() { return ++operations_ <= kMaxOperations; }
  llvm::Error too_long() const {
    return make_error(Status::kInvalidArgument, "expr has more than {} operations; split it over several maps", kMaxOperations);
  }

  llvm::Expected<Expr> parse_binary(int level) {
    llvm::Expected<Expr> left = parse_unary();
    if (!left) return left;
    Expr result = *left;
    int comparison = 0;
    while (const BinaryOperator* op = peek_operator()) {
      if (op->level < level) break;
      const bool compares = op->level == 3 || op->level == 4;
      if (compares && comparison == op->level) return fail("comparisons do not chain, use &&");
      comparison = compares ? op->level : 0;
      position_ += op->text.size();
      llvm::Expected<Expr> right = parse_binary(op->level + 1);
      if (!right) return right;
      if (!count_operation()) return too_long();
      result = call_expr(op->fn, {result, *right});
    }
    return result;
  }

  llvm::Expected<Expr> parse_unary() {
    if (++nesting_ > kMaxNesting) return make_error(Status::kInvalidArgument, "expr is nested deeper than {}", kMaxNesting);
    llvm::Expected<Expr> result = parse_unary_body();
    --nesting_;
    return result;
  }

  llvm::Expected<Expr> parse_unary_body() {
    skip_spaces();
    const bool negates = text_.substr(position_).starts_with("-");
    const bool inverts = text_.substr(position_).starts_with("!") && !text_.substr(position_).starts_with("!=");
    if (!negates && !inverts) return parse_primary();
    ++position_;
    llvm::Expected<Expr> operand = parse_unary();
    if (!operand) return operand;
    if (!count_operation()) return too_long();
    return call_expr(negates ? ExprFn::kNeg : ExprFn::kNot, *operand);
  }

  llvm::Expected<Expr> parse_primary() {
    if (take('(')) {
      llvm::Expected<Expr> inner = parse_binary(1);
      if (!inner) return inner;
      if (!take(')')) return fail("expected \")\" or an operator");
      return inner;
    }
    if (position_ >= text_.size()) return fail("expected a value");
    const char c = text_[position_];
    if (llvm::isDigit(c) || c == '.') return parse_number();
    if (!is_identifier_start(c)) return fail("expected a value");
    const std::size_t start = position_++;
    while (position_ < text_.size() && is_identifier_part(text_[position_])) ++position_;
    const llvm::StringRef name = text_.slice(start, position_);
    return take('(') ? parse_call(name, start) : parse_name(name, start);
  }

  llvm::Expected<Expr> parse_number() {
    const std::size_t start = position_;
    const char* const begin = text_.data() + start;
    const char* const end = text_.data() + text_.size();
    double value = 0.0;
    const auto [stop, status] = std::from_chars(begin, end, value);
    if (status == std::errc::result_out_of_range) return fail_at(start, "the number is outside the range of f32");
    if (status != std::errc()) return fail_at(start, "expected a number");
    position_ += static_cast<std::size_t>(stop - begin);
    if (position_ < text_.size() && is_identifier_part(text_[position_])) return fail_at(start, "expected a number");
    const llvm::StringRef spelling = text_.slice(start, position_);
    if (spelling.find_first_of(".eE") == llvm::StringRef::npos) {
      std::uint64_t whole = 0;
      if (spelling.getAsInteger(10, whole) || whole > kLargestExactInteger) return fail_at(start, "whole numbers go up to 2^53");
      return constant_expr(value, value <= std::numeric_limits<std::int32_t>::max() ? DType::kI32 : DType::kI64);
    }
    if (std::isinf(static_cast<float>(value))) return fail_at(start, "the number is outside the range of f32");
    return constant_expr(value, DType::kF32);
  }

  llvm::Expected<Expr> parse_name(llvm::StringRef name, std::size_t start) {
    for (std::size_t slot = 0; slot < names_.size(); ++slot) {
      if (names_[slot] == name) return operand_expr(static_cast<unsigned>(slot), types_[slot]);
    }
    if (name == "inf") return constant_expr(std::numeric_limits<double>::infinity(), DType::kF32);
    if (name == "nan") return constant_expr(std::numeric_limits<double>::quiet_NaN(), DType::kF32);
    if (name == "true") return constant_expr(1.0, DType::kBool);
    if (name == "false") return constant_expr(0.0, DType::kBool);
    std::string hint = did_you_mean(name, names_);
    if (hint.empty()) hint = fmt::format("; operands are {}", names_.empty() ? "none" : llvm::join(names_.begin(), names_.end(), ", "));
    return make_error(Status::kInvalidArgument, "expr, column {}: unknown operand \"{}\"{}", start + 1, name, hint);
  }

  llvm::Expected<Expr> parse_call(llvm::StringRef name, std::size_t start) {
    const ExprFnInfo* info = nullptr;
    llvm::SmallVector<llvm::StringRef, 32> known;
    for (const ExprFnInfo& candidate : expr_functions()) {
      known.push_back(candidate.name);
      if (candidate.name == name) info = &candidate;
    }
    if (info == nullptr) {
      return make_error(Status::kInvalidArgument, "expr, column {}: unknown function \"{}\"{}", start + 1, name, did_you_mean(name, known));
    }
    llvm::SmallVector<Expr, 3> args;
    if (!take(')')) {
      do {
        llvm::Expected<Expr> arg = parse_binary(1);
        if (!arg) return arg;
        args.push_back(*arg);
      } while (take(','));
      if (!take(')')) return fail("expected \",\", \")\" or an operator");
    }
    if (args.size() != info->arity) {
      return make_error(Status::kInvalidArgument, "expr, column {}: {} takes {} argument{}, got {}", start + 1, name, info->arity,
                        info->arity == 1 ? "" : "s", args.size());
    }
    if (!count_operation()) return too_long();
    if (info->fn == ExprFn::kCast) return cast_expr(args[0], *parse_dtype(name.drop_front(llvm::StringRef("cast_").size())));
    return call_expr(info->fn, args);
  }

  llvm::StringRef text_;
  llvm::ArrayRef<llvm::StringRef> names_;
  llvm::ArrayRef<DType> types_;
  std::size_t position_ = 0;
  unsigned nesting_ = 0;
  unsigned operations_ = 0;
};

}  // namespace

llvm::Expected<Expr> parse_expression(llvm::StringRef text, llvm::ArrayRef<llvm::StringRef> names, llvm::ArrayRef<DType> types) {
  return Parser(text, names, types).parse();
}

}  // namespace tilewright
