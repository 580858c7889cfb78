// Sizes that may depend on dimensions known only at launch: small immutable integer expressions over symbol indices.
// Shapes, grids, workspace sizes and kernel arguments are all written in them, so that a launch recipe needs no operator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tilewright {

// Range and default of one named dimension. `min` may be 0.
struct Symbol {
  std::string name;
  std::int64_t default_value = 1;
  std::int64_t min = 1;
  std::int64_t max = std::int64_t{1} << 31;
};

// Immutable value type; copying shares the tree. Constructors fold constants and normalise x + c, x * 1, floor_div(x, 1), so that equal
// sizes written alike compare equal. Arithmetic saturates at +-INT64_MAX instead of wrapping.
class SizeExpr {
 public:
  enum class Kind : std::uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kCeilDiv, kMin, kMax };

  SizeExpr(std::int64_t constant = 0);  // NOLINT: implicit on purpose, sizes are numbers first
  static SizeExpr symbol(unsigned index);

  Kind kind() const;
  bool is_constant() const { return kind() == Kind::kConstant; }
  bool is_constant(std::int64_t value) const { return is_constant() && constant() == value; }
  std::int64_t constant() const;  // of a kConstant
  unsigned symbol_index() const;  // of a kSymbol
  const SizeExpr& lhs() const;    // of a binary kind
  const SizeExpr& rhs() const;

  // The value for given symbol values, one per index. Division by zero gives 0.
  std::int64_t evaluate(llvm::ArrayRef<std::int64_t> symbols) const;
  // An upper bound over the ranges of the symbols (exact for monotone expressions, which all sizes are).
  std::int64_t upper_bound(llvm::ArrayRef<Symbol> symbols) const;
  std::int64_t lower_bound(llvm::ArrayRef<Symbol> symbols) const;
  // Text such as "N*900", "(S+3)/4"; names[i] is symbol i, "s<i>" when names is too short.
  std::string str(llvm::ArrayRef<Symbol> symbols = {}) const;
  // The same expression with symbol i replaced by order[i].
  SizeExpr renumbered(llvm::ArrayRef<unsigned> order) const;
  // Every symbol index used, ascending and without repeats.
  void collect_symbols(llvm::SmallVectorImpl<unsigned>& out) const;

  friend bool operator==(const SizeExpr& a, const SizeExpr& b);
  friend SizeExpr operator+(const SizeExpr& a, const SizeExpr& b);
  friend SizeExpr operator-(const SizeExpr& a, std::int64_t b);
  friend SizeExpr operator*(const SizeExpr& a, const SizeExpr& b);
  friend SizeExpr floor_div(const SizeExpr& a, const SizeExpr& b);
  friend SizeExpr ceil_div(const SizeExpr& a, const SizeExpr& b);
  friend SizeExpr min(const SizeExpr& a, const SizeExpr& b);
  friend SizeExpr max(const SizeExpr& a, const SizeExpr& b);

 private:
  struct Node;
  explicit SizeExpr(std::shared_ptr<const Node> node);
  static SizeExpr binary(Kind kind, const SizeExpr& a, const SizeExpr& b);
  std::int64_t value_ = 0;            // of a constant; constants need no node
  std::shared_ptr<const Node> node_;  // null for constants
};

// Shape of a tensor, outermost dimension first. Rank 0 is a scalar.
using Shape = llvm::SmallVector<SizeExpr, 6>;

// Product of the dimensions (1 for a scalar).
SizeExpr element_count(llvm::ArrayRef<SizeExpr> shape);
// "[N, 3, 24]"
std::string shape_text(llvm::ArrayRef<SizeExpr> shape, llvm::ArrayRef<Symbol> symbols = {});

}  // namespace tilewright
