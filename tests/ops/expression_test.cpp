#include <cmath>
#include <limits>
#include <random>

#include "ops/expression.h"
#include "ops/tensor.h"
#include "tests/ops/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

const llvm::StringRef kNames[] = {"x", "z", "i", "l", "b"};
const DType kTypes[] = {DType::kF32, DType::kF32, DType::kI32, DType::kI64, DType::kBool};
const llvm::StringRef kSlots[] = {"%0", "%1", "%2", "%3", "%4"};

Expr parse(llvm::StringRef text) { return value_of(parse_expression(text, kNames, kTypes)); }
std::string text_of(llvm::StringRef text) { return expr_text(parse(text)); }
double value_of(llvm::StringRef text, double x = 0, double z = 0, double i = 0, double l = 0, double b = 0) {
  return evaluate_expression(parse(text), {x, z, i, l, b});
}
std::string parse_error(llvm::StringRef text) { return error_of(parse_expression(text, kNames, kTypes)); }

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("expression: operators bind as in C", "[ops]") {
  CHECK(text_of("x + z * x - z") == "((%0 + (%1 * %0)) - %1)");
  CHECK(text_of("x / z / x") == "((%0 / %1) / %0)");
  CHECK(text_of("-x * z") == "((-%0) * %1)");
  CHECK(text_of("-(x * z)") == "(-(%0 * %1))");
  CHECK(text_of("x < z && z < x || b") == "(((%0 < %1) && (%1 < %0)) || %4)");
  CHECK(text_of("x + z < z == b") == "(((%0 + %1) < %1) == %4)");
  CHECK(text_of("!b && b") == "((!%4) && %4)");
  CHECK(text_of("x - -z") == "(%0 - (-%1))");
  CHECK(text_of("where(x > z, gelu(x), max(x, z))") == "where((%0 > %1), gelu(%0), max(%0, %1))");
}

TEST_CASE("expression: types are inferred and promoted by explicit casts", "[ops]") {
  CHECK(parse("x + z")->type == DType::kF32);
  CHECK(parse("i + i")->type == DType::kI32);
  CHECK(parse("i + l")->type == DType::kI64);
  CHECK(parse("b + b")->type == DType::kI32);
  CHECK(parse("x < z")->type == DType::kBool);
  CHECK(text_of("i + l") == "(cast_i64(%2) + %3)");
  CHECK(text_of("i * x") == "(cast_f32(%2) * %0)");
  CHECK(text_of("exp(i)") == "exp(cast_f32(%2))");
  CHECK(text_of("where(i, x, l)") == "where(cast_bool(%2), %0, cast_f32(%3))");
  CHECK(text_of("max(b, b)") == "(%4 || %4)");
  CHECK(text_of("min(b, b)") == "(%4 && %4)");
  CHECK(text_of("floor(i)") == "%2");
  CHECK(text_of("isnan(i)") == "false");
  CHECK(text_of("cast_f32(x)") == "%0");
  CHECK(text_of("x * 2") == "(%0 * 2.0)");
  CHECK(text_of("i * 2") == "(%2 * 2)");
  CHECK(text_of("l * 2") == "(%3 * cast_i64(2))");
  CHECK(text_of("i * 2.5") == "(cast_f32(%2) * 2.5)");
}

TEST_CASE("expression: constants fold only where that is exact", "[ops]") {
  CHECK(text_of("x * (1 + 2)") == "(%0 * 3.0)");
  CHECK(text_of("x * (0.5 * 0.25)") == "(%0 * 0.125)");
  CHECK(text_of("x * (1.0 / 4.0)") == "(%0 * 0.25)");
  CHECK(text_of("x * (1.0 / 3.0)") == "(%0 * (1.0 / 3.0))");
  CHECK(text_of("x + (0.1 + 0.2)") == "(%0 + (0.1 + 0.2))");
  CHECK(text_of("x + (1e30 + 1.0)") == "(%0 + (1e+30 + 1.0))");
  CHECK(text_of("x * exp(1.0)") == "(%0 * exp(1.0))");
  CHECK(text_of("x * -2") == "(%0 * -2.0)");
  CHECK(text_of("where(true, x, z)") == "%0");
  CHECK(text_of("i + 7 / 2") == "(%2 + 3)");
  CHECK(text_of("x + 1.0 / 0.0") == "(%0 + (1.0 / 0.0))");
}

TEST_CASE("expression: text parses back to itself", "[ops]") {
  for (const char* text :
       {"x + z * 0.1", "where(x >= z || isnan(x), gelu_tanh(x), -inf)", "cast_i32(x) / i + l", "i + cast_i32(-2147483648)", "x + nan",
        "cast_f16(x * z) + cast_bf16(z)", "pow(x, 1e-5) - silu(rsqrt(abs(z)))", "l + 4503599627370496", "b == true", "-x + !b",
        "l * (1 - 2147483648 - 1)", "round(x) + erf(z) * reciprocal(x)", "x + 16777216.0 + 1e38 + 1e-45"}) {
    const std::string once = text_of(text);
    INFO(text);
    CHECK(expr_text(value_of(parse_expression(once, kSlots, kTypes))) == once);
  }
}

TEST_CASE("expression: errors name the column and the nearest known name", "[ops]") {
  CHECK(parse_error("x + ") == "expr, column 5: expected a value, found the end");
  CHECK(parse_error("x + * z") == "expr, column 5: expected a value, found \"* z\"");
  CHECK(parse_error("(x + z") == "expr, column 7: expected \")\" or an operator, found the end");
  CHECK(parse_error("x z") == "expr, column 3: expected an operator or the end, found \"z\"");
  CHECK(parse_error("gelo(x)") == "expr, column 1: unknown function \"gelo\"; did you mean \"gelu\"?");
  CHECK(parse_error("x + y") == "expr, column 5: unknown operand \"y\"; did you mean \"x\"?");
  CHECK(parse_error("x + other") == "expr, column 5: unknown operand \"other\"; operands are x, z, i, l, b");
  CHECK(parse_error("max(x)") == "expr, column 1: max takes 2 arguments, got 1");
  CHECK(parse_error("exp()") == "expr, column 1: exp takes 1 argument, got 0");
  CHECK(contains(parse_error("x < z < x"), "comparisons do not chain"));
  CHECK(contains(parse_error("x + 1e39"), "column 5: the number is outside the range of f32"));
  CHECK(contains(parse_error("x + 1e999"), "column 5: the number is outside the range of f32"));
  CHECK(contains(parse_error("l + 9007199254740993"), "whole numbers go up to 2^53"));
  CHECK(contains(parse_error("x + 1abc"), "expected a number"));
  CHECK(contains(parse_error(""), "expected a value, found the end"));
  CHECK(contains(parse_error("x = z"), "column 3"));
  CHECK(contains(parse_error(std::string(5000, '(')), "nested deeper"));
  CHECK(contains(parse_error(std::string(5000, '-') + "x"), "nested deeper"));
  std::string sum = "x";
  for (int n = 0; n < 2000; ++n) sum += "+x";
  CHECK(contains(parse_error(sum), "more than 1000 operations"));
}

TEST_CASE("expression: floats follow their definitions", "[ops]") {
  const double x = -0.7;
  CHECK(value_of("gelu(x)", x) == Approx(0.5 * x * (1 + std::erf(x / std::sqrt(2.0)))).epsilon(1e-15));
  CHECK(value_of("gelu_tanh(x)", x) == Approx(0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))).epsilon(1e-15));
  CHECK(value_of("silu(x)", x) == Approx(x / (1 + std::exp(-x))).epsilon(1e-15));
  CHECK(value_of("sigmoid(x)", x) == Approx(1 / (1 + std::exp(-x))).epsilon(1e-15));
  CHECK(value_of("rsqrt(x)", 4) == 0.5);
  CHECK(value_of("reciprocal(x)", 4) == 0.25);
  CHECK(value_of("pow(x, z)", 2, 10) == 1024);
  CHECK(value_of("round(x)", 2.5) == 2);
  CHECK(value_of("round(x)", 3.5) == 4);
  CHECK(value_of("floor(x) + ceil(x)", -1.5) == -3);
  CHECK(value_of("abs(x)", -3) == 3);
  CHECK(value_of("relu(x)", -3) == 0);
  CHECK(value_of("tanh(x) - exp(x) + log(z) + sqrt(z) + sin(x) + cos(x) + erf(x)", x, 3) ==
        Approx(std::tanh(x) - std::exp(x) + std::log(3) + std::sqrt(3) + std::sin(x) + std::cos(x) + std::erf(x)));
  CHECK(value_of("x * 0.1", 1) == static_cast<double>(0.1F));
}

TEST_CASE("expression: NaN goes through min, max, relu and comparisons as IEEE says", "[ops]") {
  CHECK(std::isnan(value_of("max(x, z)", kNan, 1)));
  CHECK(std::isnan(value_of("max(x, z)", 1, kNan)));
  CHECK(std::isnan(value_of("min(x, z)", kNan, 1)));
  CHECK(std::isnan(value_of("min(x, z)", 1, kNan)));
  CHECK(std::isnan(value_of("relu(x)", kNan)));
  CHECK(value_of("x < z || x > z || x == z", kNan, 1) == 0);
  CHECK(value_of("x != z", kNan, kNan) == 1);
  CHECK(value_of("isnan(x)", kNan) == 1);
  CHECK(value_of("where(x, 1.0, 2.0)", kNan) == 1);
  CHECK(value_of("max(x, z)", -kInf, kInf) == kInf);
  CHECK(value_of("sigmoid(x)", -kInf) == 0);
}

TEST_CASE("expression: integers wrap, truncate and divide as documented", "[ops]") {
  CHECK(value_of("i + 1", 0, 0, 2147483647) == -2147483648.0);
  CHECK(value_of("i * i", 0, 0, 65536) == 0);
  CHECK(value_of("-i", 0, 0, -2147483648.0) == -2147483648.0);
  CHECK(value_of("abs(i)", 0, 0, -2147483648.0) == -2147483648.0);
  CHECK(value_of("i / -2", 0, 0, 7) == -3);
  CHECK(value_of("i / 0", 0, 0, 7) == 0);
  CHECK(value_of("i / -1", 0, 0, -2147483648.0) == -2147483648.0);
  CHECK(value_of("l + l", 0, 0, 0, 4503599627370496.0) == 9007199254740992.0);
  CHECK(value_of("cast_i32(x)", -2.9) == -2);
  CHECK(value_of("cast_i32(x)", 1e20) == 2147483647);
  CHECK(value_of("cast_i32(x)", -1e20) == -2147483648.0);
  CHECK(value_of("cast_i32(x)", kNan) == 0);
  CHECK(value_of("cast_i64(x)", kNan) == 0);
  CHECK(value_of("cast_i32(l)", 0, 0, 0, 4294967299.0) == 3);
  CHECK(value_of("cast_bool(x)", 0.5) == 1);
  CHECK(value_of("b + b", 0, 0, 0, 0, 1) == 2);
}

TEST_CASE("expression: a cast to a narrow float rounds and computes on", "[ops]") {
  CHECK(parse("cast_f16(x) + z")->type == DType::kF32);
  CHECK(text_of("cast_f16(x) + z") == "(cast_f16(%0) + %1)");
  CHECK(value_of("cast_f16(x)", 1.0001) == 1.0);
  CHECK(value_of("cast_bf16(x)", 1.001) == 1.0);
  CHECK(text_of("cast_f16(0.1) * x") == "(0.099975586 * %0)");
}

TEST_CASE("expression: substitution rebuilds types and shares nodes", "[ops]") {
  const Expr square = value_of(parse_expression("a * a", {"a"}, {DType::kF32}));
  const Expr inner = parse("exp(x)");
  const Expr result = substitute(square, {inner});
  CHECK(expr_text(result) == "(exp(%0) * exp(%0))");
  CHECK(result->args[0] == result->args[1]);
  CHECK(expr_flops(result) == 2);
  CHECK(expr_text(substitute(square, {operand_expr(3, DType::kI64)})) == "(%3 * %3)");
  CHECK(substitute(square, {operand_expr(3, DType::kI64)})->type == DType::kI64);
}

TEST_CASE("expression: flops count operations and not casts", "[ops]") {
  CHECK(expr_flops(parse("x")) == 0);
  CHECK(expr_flops(parse("gelu(x + z) * 0.5")) == 3);
  CHECK(expr_flops(parse("cast_f32(i)")) == 0);
  CHECK(expr_flops(parse("where(x > z, x, z)")) == 2);
}

TEST_CASE("expression: every function of the table parses with its arity", "[ops]") {
  for (const ExprFnInfo& info : expr_functions()) {
    std::string call = info.name.str() + "(x";
    for (unsigned i = 1; i < info.arity; ++i) call += ", z";
    INFO(call);
    CHECK(parse_error(call + ")") == "(no error)");
    CHECK(std::isfinite(value_of(call + ")", 0.5, 0.25)));
  }
}

TEST_CASE("expression: random text never crashes", "[ops]") {
  const char* const pieces[] = {"x",  "z",  "i", "b",   "(",     ")", ",",   "+",   "-", "*", "/",  "<",
                                "==", "&&", "!", "max", "where", "1", "0.5", "1e9", " ", "%", "inf"};
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const unsigned length = 1 + random() % 12;
    for (unsigned n = 0; n < length; ++n) text += pieces[random() % std::size(pieces)];
    llvm::Expected<Expr> result = parse_expression(text, kNames, kTypes);
    if (!result) {
      CHECK_FALSE(llvm::toString(result.takeError()).empty());
      continue;
    }
    INFO(text);
    const std::string once = expr_text(*result);
    CHECK(expr_text(value_of(parse_expression(once, kSlots, kTypes))) == once);
  }
}
