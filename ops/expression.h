// The expression language of the `map` operator: a small typed AST over operand slots.
//
//   expr    := C-like arithmetic without the ternary: || && == != < <= > >= + - * / unary - ! and parentheses, binding as in C (comparisons
//              do not chain), numbers (1, 0.5, 1e-5, inf, nan, true, false), operand names, calls f(a, ...), where(cond, a, b), cast_f32(x)
// Types: f32 (f16 and bf16 operands are widened on load), i32, i64, bool. Mixed arithmetic promotes bool < i32 < i64 < f32; a whole literal
// is i32 (i64 when it does not fit), any other f32. Functions of the reals (exp, pow, ...) and `reciprocal` compute in f32.
// Integers: + - * wrap, / truncates toward zero, x / 0 is 0, INT_MIN / -1 wraps to INT_MIN. Casts from f32 truncate toward zero, saturate
// and take NaN to 0; to bool they test != 0; i64 to i32 keeps the low bits; cast_f16 and cast_bf16 round an f32 and go on computing in f32.
// min and max of bools are "and" and "or"; other arithmetic on bools is done in i32. round goes to the nearest even integer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "runtime/dtype.h"

namespace tilewright {

enum class ExprFn : std::uint8_t {
  kOperand,
  kConstant,
  kCast,
  kWhere,
  // unary
  kNeg,
  kNot,
  kAbs,
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kTanh,
  kSigmoid,
  kRelu,
  kGelu,
  kGeluTanh,
  kSilu,
  kErf,
  kSin,
  kCos,
  kFloor,
  kCeil,
  kRound,
  kReciprocal,
  kIsNan,
  // binary; kMin and kMax give NaN when either side is NaN
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kPow,
  kLt,
  kLe,
  kGt,
  kGe,
  kEq,
  kNe,
  kAnd,
  kOr,
};

// Immutable node, shared. `type` is the compute type: kF32, kI32, kI64 or kBool; a kCast to kF16 or kBf16 rounds and computes on as f32.
struct ExprNode;
using Expr = std::shared_ptr<const ExprNode>;
struct ExprNode {
  ExprFn fn = ExprFn::kConstant;
  DType type = DType::kF32;
  unsigned operand = 0;   // kOperand: slot
  double constant = 0.0;  // kConstant (integers up to 2^53)
  llvm::SmallVector<Expr, 3> args;
};

// Name and arity of a function as descriptions spell it ("gelu", "max", "where"); operators give their symbol.
struct ExprFnInfo {
  ExprFn fn;
  llvm::StringRef name;
  unsigned arity;
};
llvm::ArrayRef<ExprFnInfo> expr_functions();  // every callable function, for `tilewright ops map` and the nearest-name hint
llvm::StringRef expr_fn_name(ExprFn fn);
// <, <=, >, >=, ==, !=
bool is_comparison(ExprFn fn);

// The compute type of an operand of storage type `dtype`: f16 and bf16 compute as f32.
DType compute_type(DType dtype);
// Place in the order of promotion: bool, i32, i64, floats (which share one).
int promotion_rank(DType dtype);

// Parses `text` over operands `names[i]` of compute type `types[i]`. Errors give the column and what was expected; an unknown
// name or function comes with the nearest known one.
llvm::Expected<Expr> parse_expression(llvm::StringRef text, llvm::ArrayRef<llvm::StringRef> names, llvm::ArrayRef<DType> types);

// Building by hand; the type is inferred (arguments are promoted with explicit kCast nodes). Constants are folded where that is exact; an
// f32 constant is rounded to f32.
Expr operand_expr(unsigned slot, DType compute);
Expr constant_expr(double value, DType compute);
Expr call_expr(ExprFn fn, llvm::ArrayRef<Expr> args);
Expr cast_expr(Expr value, DType compute);

// The same expression with operand slot i replaced by slots[i].
Expr substitute(const Expr& expr, llvm::ArrayRef<Expr> replacement);

// Canonical text with operands as %0, %1, ...: equal expressions give equal text, and parsing it with those names gives the expression
// back.
std::string expr_text(const Expr& expr);

// Scalar evaluation in double (integers exactly up to 2^53), from the definition. values[i] is operand i.
double evaluate_expression(const Expr& expr, llvm::ArrayRef<double> values);

// Number of arithmetic operations per element (a transcendental counts one, a cast none, a shared node once), for cost.
std::uint64_t expr_flops(const Expr& expr);

}  // namespace tilewright
