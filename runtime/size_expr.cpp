#include "runtime/size_expr.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "runtime/integer.h"

namespace tilewright {

struct SizeExpr::Node {
  Kind kind;
  unsigned symbol = 0;
  SizeExpr lhs, rhs;
};

namespace {

std::int64_t apply(SizeExpr::Kind kind, std::int64_t a, std::int64_t b) {
  switch (kind) {
    case SizeExpr::Kind::kAdd:
      return saturating_add(a, b);
    case SizeExpr::Kind::kMul:
      return saturating_mul(a, b);
    case SizeExpr::Kind::kFloorDiv:
      return divide_down(a, b);
    case SizeExpr::Kind::kCeilDiv:
      return divide_up(a, b);
    case SizeExpr::Kind::kMin:
      return std::min(a, b);
    case SizeExpr::Kind::kMax:
      return std::max(a, b);
    case SizeExpr::Kind::kConstant:
    case SizeExpr::Kind::kSymbol:
      break;
  }
  return 0;
}

struct Interval {
  std::int64_t low, high;
};

Interval interval_of(const SizeExpr& expr, llvm::ArrayRef<Symbol> symbols) {
  if (expr.is_constant()) return {expr.constant(), expr.constant()};
  if (expr.kind() == SizeExpr::Kind::kSymbol) {
    if (expr.symbol_index() >= symbols.size()) return {0, kLargestSize};
    const Symbol& symbol = symbols[expr.symbol_index()];
    return {symbol.min, symbol.max};
  }
  const Interval a = interval_of(expr.lhs(), symbols);
  const Interval b = interval_of(expr.rhs(), symbols);
  Interval result{kLargestSize, -kLargestSize};
  const auto cover = [&](std::int64_t x, std::int64_t y) {
    const std::int64_t value = apply(expr.kind(), x, y);
    result.low = std::min(result.low, value);
    result.high = std::max(result.high, value);
  };
  // Every operation is monotone in each argument, except that a quotient jumps where its divisor passes 0.
  llvm::SmallVector<std::int64_t, 5> right{b.low, b.high};
  if (expr.kind() == SizeExpr::Kind::kFloorDiv || expr.kind() == SizeExpr::Kind::kCeilDiv) {
    for (const std::int64_t special : {-1, 0, 1}) {
      if (b.low <= special && special <= b.high) right.push_back(special);
    }
  }
  for (const std::int64_t y : right) {
    cover(a.low, y);
    cover(a.high, y);
  }
  return result;
}

// 1: sum, 2: product or quotient, 3: atom.
int precedence(SizeExpr::Kind kind) {
  switch (kind) {
    case SizeExpr::Kind::kAdd:
      return 1;
    case SizeExpr::Kind::kMul:
    case SizeExpr::Kind::kFloorDiv:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

SizeExpr::SizeExpr(std::int64_t constant) : value_(constant) {}
SizeExpr::SizeExpr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

SizeExpr SizeExpr::symbol(unsigned index) { return SizeExpr(std::make_shared<const Node>(Node{Kind::kSymbol, index, 0, 0})); }

SizeExpr::Kind SizeExpr::kind() const { return node_ ? node_->kind : Kind::kConstant; }
std::int64_t SizeExpr::constant() const { return value_; }
unsigned SizeExpr::symbol_index() const { return node_->symbol; }
const SizeExpr& SizeExpr::lhs() const { return node_->lhs; }
const SizeExpr& SizeExpr::rhs() const { return node_->rhs; }

SizeExpr SizeExpr::binary(Kind kind, const SizeExpr& a, const SizeExpr& b) {
  if (a.is_constant() && b.is_constant()) return apply(kind, a.constant(), b.constant());
  return SizeExpr(std::make_shared<const Node>(Node{kind, 0, a, b}));
}

std::int64_t SizeExpr::evaluate(llvm::ArrayRef<std::int64_t> symbols) const {
  if (is_constant()) return value_;
  if (kind() == Kind::kSymbol) return symbol_index() < symbols.size() ? symbols[symbol_index()] : 0;
  return apply(kind(), lhs().evaluate(symbols), rhs().evaluate(symbols));
}

std::int64_t SizeExpr::upper_bound(llvm::ArrayRef<Symbol> symbols) const { return interval_of(*this, symbols).high; }
std::int64_t SizeExpr::lower_bound(llvm::ArrayRef<Symbol> symbols) const { return interval_of(*this, symbols).low; }

std::string SizeExpr::str(llvm::ArrayRef<Symbol> symbols) const {
  if (is_constant()) return fmt::format("{}", value_);
  if (kind() == Kind::kSymbol) {
    return symbol_index() < symbols.size() ? symbols[symbol_index()].name : fmt::format("s{}", symbol_index());
  }
  const auto side = [&](const SizeExpr& e, int level) {
    const std::string text = e.str(symbols);
    const bool negative = e.is_constant() && e.constant() < 0;
    return precedence(e.kind()) < level || (negative && level > 1) ? "(" + text + ")" : text;
  };
  switch (kind()) {
    case Kind::kAdd:
      if (rhs().is_constant() && rhs().constant() < 0) return side(lhs(), 1) + rhs().str();
      return side(lhs(), 1) + "+" + side(rhs(), 1);
    case Kind::kMul:
      return side(lhs(), 2) + "*" + side(rhs(), rhs().kind() == Kind::kMul ? 2 : 3);
    case Kind::kFloorDiv:
      return side(lhs(), 2) + "/" + side(rhs(), 3);
    case Kind::kCeilDiv:
      return fmt::format("ceil_div({}, {})", lhs().str(symbols), rhs().str(symbols));
    case Kind::kMin:
      return fmt::format("min({}, {})", lhs().str(symbols), rhs().str(symbols));
    default:
      return fmt::format("max({}, {})", lhs().str(symbols), rhs().str(symbols));
  }
}

SizeExpr SizeExpr::renumbered(llvm::ArrayRef<unsigned> order) const {
  if (is_constant()) return *this;
  if (kind() == Kind::kSymbol) return symbol_index() < order.size() ? symbol(order[symbol_index()]) : *this;
  const SizeExpr a = lhs().renumbered(order);
  const SizeExpr b = rhs().renumbered(order);
  return binary(kind(), a, b);
}

void SizeExpr::collect_symbols(llvm::SmallVectorImpl<unsigned>& out) const {
  if (is_constant()) return;
  if (kind() == Kind::kSymbol) {
    auto* const place = std::lower_bound(out.begin(), out.end(), symbol_index());
    if (place == out.end() || *place != symbol_index()) out.insert(place, symbol_index());
    return;
  }
  lhs().collect_symbols(out);
  rhs().collect_symbols(out);
}

bool operator==(const SizeExpr& a, const SizeExpr& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_constant()) return a.constant() == b.constant();
  if (a.node_ == b.node_) return true;
  if (a.kind() == SizeExpr::Kind::kSymbol) return a.symbol_index() == b.symbol_index();
  return a.lhs() == b.lhs() && a.rhs() == b.rhs();
}

SizeExpr operator+(const SizeExpr& a, const SizeExpr& b) {
  using Kind = SizeExpr::Kind;
  if (a.is_constant() && !b.is_constant()) return b + a;
  if (b.is_constant(0)) return a;
  // One constant per sum, at its right end.
  if (b.is_constant() && a.kind() == Kind::kAdd && a.rhs().is_constant()) return a.lhs() + saturating_add(a.rhs().constant(), b.constant());
  if (b.kind() == Kind::kAdd && b.rhs().is_constant()) return (a + b.lhs()) + b.rhs();
  if (!b.is_constant() && a.kind() == Kind::kAdd && a.rhs().is_constant()) return (a.lhs() + b) + a.rhs();
  return SizeExpr::binary(Kind::kAdd, a, b);
}

SizeExpr operator-(const SizeExpr& a, std::int64_t b) { return a + saturating_mul(b, -1); }

SizeExpr operator*(const SizeExpr& a, const SizeExpr& b) {
  using Kind = SizeExpr::Kind;
  if (a.is_constant() && !b.is_constant()) return b * a;
  if (b.is_constant(1)) return a;
  if (b.is_constant(0)) return 0;
  // One factor per product, at its right end.
  if (b.is_constant() && a.kind() == Kind::kMul && a.rhs().is_constant()) return a.lhs() * saturating_mul(a.rhs().constant(), b.constant());
  if (b.kind() == Kind::kMul && b.rhs().is_constant()) return (a * b.lhs()) * b.rhs();
  if (!b.is_constant() && a.kind() == Kind::kMul && a.rhs().is_constant()) return (a.lhs() * b) * a.rhs();
  return SizeExpr::binary(Kind::kMul, a, b);
}

namespace {

// a / divisor when a is a product with a factor that `divisor` divides: exact, so rounding does not matter.
std::optional<SizeExpr> exact_quotient(const SizeExpr& a, const SizeExpr& divisor) {
  if (divisor.is_constant(1)) return a;
  if (!divisor.is_constant() || divisor.constant() <= 0 || a.kind() != SizeExpr::Kind::kMul || !a.rhs().is_constant()) return std::nullopt;
  const std::int64_t factor = a.rhs().constant();
  if (factor == kLargestSize || factor % divisor.constant() != 0) return std::nullopt;
  return a.lhs() * SizeExpr(factor / divisor.constant());
}

}  // namespace

SizeExpr floor_div(const SizeExpr& a, const SizeExpr& b) {
  if (auto quotient = exact_quotient(a, b)) return *quotient;
  return SizeExpr::binary(SizeExpr::Kind::kFloorDiv, a, b);
}

SizeExpr ceil_div(const SizeExpr& a, const SizeExpr& b) {
  if (auto quotient = exact_quotient(a, b)) return *quotient;
  return SizeExpr::binary(SizeExpr::Kind::kCeilDiv, a, b);
}

SizeExpr min(const SizeExpr& a, const SizeExpr& b) {
  if (a == b) return a;
  if (a.is_constant() && !b.is_constant()) return SizeExpr::binary(SizeExpr::Kind::kMin, b, a);
  return SizeExpr::binary(SizeExpr::Kind::kMin, a, b);
}

SizeExpr max(const SizeExpr& a, const SizeExpr& b) {
  if (a == b) return a;
  if (a.is_constant() && !b.is_constant()) return SizeExpr::binary(SizeExpr::Kind::kMax, b, a);
  return SizeExpr::binary(SizeExpr::Kind::kMax, a, b);
}

SizeExpr element_count(llvm::ArrayRef<SizeExpr> shape) {
  SizeExpr count = 1;
  for (const SizeExpr& size : shape) count = count * size;
  return count;
}

std::string shape_text(llvm::ArrayRef<SizeExpr> shape, llvm::ArrayRef<Symbol> symbols) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + shape[i].str(symbols);
  return text + "]";
}

}  // namespace tilewright
