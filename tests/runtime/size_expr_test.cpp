#include <limits>

#include "runtime/size_expr.h"
#include "tests/catch.h"

using tilewright::element_count;
using tilewright::Shape;
using tilewright::shape_text;
using tilewright::SizeExpr;
using tilewright::Symbol;

namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
const Symbol kSymbols[] = {{"N", 128, 1, 4096}, {"S", 2048, 0, 1 << 20}};
const SizeExpr kN = SizeExpr::symbol(0);
const SizeExpr kS = SizeExpr::symbol(1);

}  // namespace

TEST_CASE("size_expr: constants fold and keep no tree", "[runtime]") {
  CHECK((SizeExpr(3) + 4).is_constant(7));
  CHECK((SizeExpr(3) * 4).is_constant(12));
  CHECK((SizeExpr(3) - 4).is_constant(-1));
  CHECK(floor_div(SizeExpr(-7), 2).is_constant(-4));
  CHECK(ceil_div(SizeExpr(-7), 2).is_constant(-3));
  CHECK(floor_div(SizeExpr(7), 2).is_constant(3));
  CHECK(ceil_div(SizeExpr(7), 2).is_constant(4));
  CHECK(floor_div(SizeExpr(7), 0).is_constant(0));
  CHECK(ceil_div(SizeExpr(7), 0).is_constant(0));
  CHECK(min(SizeExpr(3), 4).is_constant(3));
  CHECK(max(SizeExpr(3), 4).is_constant(4));
}

TEST_CASE("size_expr: equal sizes written alike compare equal", "[runtime]") {
  CHECK(kN + 0 == kN);
  CHECK(0 + kN == kN);
  CHECK(kN * 1 == kN);
  CHECK(floor_div(kN, 1) == kN);
  CHECK(ceil_div(kN, 1) == kN);
  CHECK((kN * 0).is_constant(0));
  CHECK(3 * kN * 4 == kN * 12);
  CHECK((kN + 3) - 3 == kN);
  CHECK((kN + 1) + kS == (kN + kS) + 1);
  CHECK(kN * 3 * kS == kN * kS * 3);
  CHECK(floor_div(kN * 12, 4) == kN * 3);
  CHECK(ceil_div(kN * 12, 12) == kN);
  CHECK(max(kN, kN) == kN);
  CHECK(max(SizeExpr(4), kN) == max(kN, SizeExpr(4)));
  CHECK_FALSE(floor_div(kN * 12, 5) == ceil_div(kN * 12, 5));
  CHECK_FALSE(kN == kS);
  CHECK_FALSE(kN + 1 == kN + 2);
}

TEST_CASE("size_expr: evaluates for symbol values", "[runtime]") {
  const std::int64_t dims[] = {5, 9};
  CHECK((kN * kS + 1).evaluate(dims) == 46);
  CHECK(floor_div(kS + 3, 4).evaluate(dims) == 3);
  CHECK(ceil_div(kS + 4, 4).evaluate(dims) == 4);
  CHECK(floor_div(kN, kS + (-9)).evaluate(dims) == 0);
  CHECK(min(kN, kS).evaluate(dims) == 5);
  CHECK(max(kN, kS).evaluate(dims) == 9);
}

TEST_CASE("size_expr: arithmetic saturates", "[runtime]") {
  CHECK((SizeExpr(kLargest) + 1).constant() == kLargest);
  CHECK((SizeExpr(kLargest) * 2).constant() == kLargest);
  CHECK((SizeExpr(kLargest) * -2).constant() == -kLargest);
  CHECK((SizeExpr(-kLargest) - kLargest).constant() == -kLargest);
  const std::int64_t dims[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  CHECK((kN * kS).evaluate(dims) == kLargest);
}

TEST_CASE("size_expr: bounds follow the ranges of the symbols", "[runtime]") {
  CHECK((kN * 900).upper_bound(kSymbols) == 4096 * 900);
  CHECK((kN * 900).lower_bound(kSymbols) == 900);
  CHECK((kS - 5).lower_bound(kSymbols) == -5);
  CHECK(ceil_div(kS, 3).upper_bound(kSymbols) == ((1 << 20) + 2) / 3);
  CHECK(floor_div(kN, kS).upper_bound(kSymbols) == 4096);
  CHECK(floor_div(kN, kS).lower_bound(kSymbols) == 0);
  CHECK(min(kN, 100).upper_bound(kSymbols) == 100);
  CHECK(max(kN, 100).lower_bound(kSymbols) == 100);
  CHECK((kN * -2).lower_bound(kSymbols) == -8192);
}

TEST_CASE("size_expr: text is infix with the names of the symbols", "[runtime]") {
  CHECK((kN * 900).str(kSymbols) == "N*900");
  CHECK(floor_div(kS + 3, 4).str(kSymbols) == "(S+3)/4");
  CHECK((kS - 3).str(kSymbols) == "S-3");
  CHECK(floor_div(kN, kS * 2).str(kSymbols) == "N/(S*2)");
  CHECK((floor_div(kS - 1, 2) + 1).str(kSymbols) == "(S-1)/2+1");
  CHECK(ceil_div(kS, 4).str(kSymbols) == "ceil_div(S, 4)");
  CHECK(min(kN, kS).str() == "min(s0, s1)");
  CHECK(shape_text({kN, 3, 24}, kSymbols) == "[N, 3, 24]");
  CHECK(shape_text({}) == "[]");
}

TEST_CASE("size_expr: symbols are listed and renumbered", "[runtime]") {
  llvm::SmallVector<unsigned, 4> used;
  (kS * kN + kS).collect_symbols(used);
  REQUIRE(used.size() == 2);
  CHECK(used[0] == 0);
  CHECK(used[1] == 1);
  CHECK((kN * kS + 2).renumbered({1, 0}) == kS * kN + 2);
}

TEST_CASE("size_expr: the element count is the product of a shape", "[runtime]") {
  CHECK(element_count({}).is_constant(1));
  CHECK(element_count(Shape{kN, 3, 4}) == kN * 12);
  CHECK(element_count(Shape{kN, 0}).is_constant(0));
}
