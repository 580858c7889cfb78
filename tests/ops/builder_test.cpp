#include <cmath>
#include <functional>

#include "ops/builder.h"
#include "tests/ops/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

std::string shape_of_value(const GraphBuilder& builder, ValueId id) {
  return shape_text(builder.graph().value(id).shape, builder.graph().symbols());
}

struct ConvCase {
  Shape x, w;
  ConvAttributes attributes;
  std::string shape;
};

ConvAttributes conv_attributes(llvm::ArrayRef<std::int64_t> stride, llvm::ArrayRef<std::int64_t> dilation,
                               llvm::ArrayRef<std::int64_t> before, llvm::ArrayRef<std::int64_t> after, std::int64_t groups = 1) {
  ConvAttributes attributes;
  attributes.stride.assign(stride.begin(), stride.end());
  attributes.dilation.assign(dilation.begin(), dilation.end());
  attributes.pad_before.assign(before.begin(), before.end());
  attributes.pad_after.assign(after.begin(), after.end());
  attributes.groups = groups;
  return attributes;
}

std::string conv_error(Shape x, Shape w, const ConvAttributes& attributes = {}, DType x_type = DType::kF32, DType w_type = DType::kF32,
                       std::optional<Shape> bias = std::nullopt, DType bias_type = DType::kF32) {
  GraphBuilder b("t");
  const ValueId xi = value_of(b.input("x", x_type, std::move(x)));
  const ValueId wi = value_of(b.input("w", w_type, std::move(w)));
  std::optional<ValueId> bi;
  if (bias) bi = value_of(b.input("b", bias_type, *bias));
  return error_of(b.conv(xi, wi, bi, attributes));
}

}  // namespace

TEST_CASE("conv: shapes of one, two and three spatial dimensions", "[ops]") {
  const ConvCase cases[] = {
      {{2, 3, 10}, {4, 3, 3}, {}, "[2, 4, 8]"},
      {{2, 3, 10}, {4, 3, 3}, conv_attributes({2}, {1}, {1}, {1}), "[2, 4, 5]"},
      {{2, 3, 10}, {4, 3, 3}, conv_attributes({1}, {1}, {2}, {0}), "[2, 4, 10]"},
      {{2, 3, 10}, {4, 3, 3}, conv_attributes({1}, {4}, {8}, {0}), "[2, 4, 10]"},
      {{2, 4, 10}, {4, 1, 4}, conv_attributes({1}, {1}, {3}, {0}, 4), "[2, 4, 10]"},
      {{2, 4, 10}, {8, 1, 4}, conv_attributes({3}, {1}, {0}, {5}, 4), "[2, 8, 4]"},
      {{2, 4, 7, 9}, {6, 2, 3, 5}, conv_attributes({2, 1}, {1, 2}, {0, 3}, {1, 1}, 2), "[2, 6, 3, 5]"},
      {{128, 3, 24, 32, 32}, {24, 3, 3, 3, 3}, {}, "[128, 24, 22, 30, 30]"},
      {{0, 3, 5}, {4, 3, 5}, {}, "[0, 4, 1]"},
      {{2, 0, 5}, {4, 0, 5}, {}, "[2, 4, 1]"},
      {{2, 3, 0}, {4, 3, 3}, conv_attributes({1}, {1}, {1}, {2}), "[2, 4, 1]"},
  };
  for (const ConvCase& c : cases) {
    GraphBuilder b("t");
    const ValueId x = value_of(b.input("x", DType::kF16, c.x));
    const ValueId w = value_of(b.input("w", DType::kF16, c.w));
    const ValueId bias = value_of(b.input("b", DType::kF32, {c.w[0]}));
    const ValueId y = value_of(b.conv(x, w, bias, c.attributes));
    CHECK(shape_of_value(b, y) == c.shape);
    CHECK(b.graph().value(y).dtype == DType::kF16);
  }
}

TEST_CASE("conv: batch and spatial sizes may be symbolic", "[ops]") {
  GraphBuilder b("t");
  const SizeExpr n = value_of(b.dim({"N", 4, 0, 64}));
  const SizeExpr s = value_of(b.dim({"S", 100, 3, 1000}));
  const ValueId x = value_of(b.input("x", DType::kF32, {n, 8, s}));
  const ValueId w = value_of(b.input("w", DType::kF32, {8, 1, 3}));
  CHECK(shape_of_value(b, value_of(b.conv(x, w, {}, conv_attributes({1}, {1}, {2}, {0}, 8)))) == "[N, 8, S]");
  CHECK(shape_of_value(b, value_of(b.conv(x, w, {}, conv_attributes({1}, {1}, {0}, {0}, 8)))) == "[N, 8, S-2]");
  CHECK(shape_of_value(b, value_of(b.conv(x, w, {}, conv_attributes({2}, {1}, {0}, {0}, 8)))) == "[N, 8, (S-3)/2+1]");
  const ValueId y = value_of(b.conv(x, w, {}, conv_attributes({1}, {1}, {1}, {1}, 8)));
  CHECK(shape_of_value(b, value_of(b.reduce(y, ReduceKind::kMax, {-1}, true))) == "[N, 8, 1]");
  CHECK(shape_of_value(b, value_of(b.map("x + y", {x, value_of(b.map_expr(operand_expr(0, DType::kF32), y, std::nullopt, "y"))}))) ==
        "[N, 8, S]");
  CHECK(error_of(b.conv(x, w, {}, conv_attributes({1}, {2}, {0}, {0}, 8))) ==
        "conv: operand x: spatial dimension 0 is S, which may be as small as 3; with padding 0 + 0 the kernel's extent 5 (w [8, 1, 3], "
        "dilation 2) needs at "
        "least 5: raise the dimension's \"min\"");
}

TEST_CASE("conv: errors name operand, seen and wanted", "[ops]") {
  CHECK(conv_error({2, 3}, {4, 3}) == "conv: operand x: expected shape [N, C, spatial...] with 1 to 3 spatial dimensions, got [2, 3]");
  CHECK(conv_error({2, 3, 8, 8, 8, 8}, {4, 3, 1, 1, 1, 1}) ==
        "conv: operand x: expected shape [N, C, spatial...] with 1 to 3 spatial dimensions, got [2, 3, 8, 8, 8, 8]");
  CHECK(conv_error({2, 3, 8}, {4, 3}) == "conv: operand w: expected rank 3 ([O, C/groups, kernel...]) as x [2, 3, 8] has, got [4, 3]");
  CHECK(conv_error({2, 3, 8}, {4, 2, 3}) ==
        "conv: operand w: expected 3 channels (dimension 1) for x [2, 3, 8] and groups 1, got [4, 2, 3]");
  CHECK(
      conv_error({2, 3, 8}, {4, 3, 9}) ==
      "conv: operand x: spatial dimension 0 of size 8 with padding 0 + 0 is smaller than the kernel's extent 9 (w [4, 3, 9], dilation 1)");
  CHECK(conv_error({2, 3, 8}, {4, 3, 0}) == "conv: operand w: expected a kernel of at least 1 in every spatial dimension, got [4, 3, 0]");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, {}, DType::kI32, DType::kI32) == "conv: operand x: expected dtype f32, f16 or bf16, got i32");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, {}, DType::kF16, DType::kBf16) == "conv: operand w: expected dtype f16 as x has, got bf16");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, {}, DType::kF16, DType::kF16, Shape{4}, DType::kBf16) ==
        "conv: operand bias \"b\": expected dtype f16 as x has, or f32, got bf16");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, {}, DType::kF32, DType::kF32, Shape{3}) ==
        "conv: operand bias \"b\": expected shape [4] for w [4, 3, 3], got [3]");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, conv_attributes({1}, {1}, {0}, {0}, 2)) ==
        "conv: groups: 2 does not divide the 3 channels of x [2, 3, 8] and the 4 filters of w [4, 3, 3]");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, conv_attributes({1}, {1}, {0}, {0}, 0)) == "conv: groups: expected a positive number, got 0");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, conv_attributes({0}, {1}, {0}, {0})) == "conv: stride: expected a number in [1, 1048575], got 0");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, conv_attributes({1}, {-1}, {0}, {0})) ==
        "conv: dilation: expected a number in [1, 1048575], got -1");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, conv_attributes({1}, {1}, {-1}, {0})) ==
        "conv: padding: expected a number in [0, 2147483647], got -1");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, conv_attributes({2147483647}, {1}, {0}, {0})) ==
        "conv: stride: expected a number in [1, 1048575], got 2147483647");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, conv_attributes({1}, {1048576}, {0}, {0})) ==
        "conv: dilation: expected a number in [1, 1048575], got 1048576");
  CHECK(conv_error({2, 3, 8}, {4, 3, 3}, conv_attributes({1, 1}, {1}, {0}, {0})) ==
        "conv: stride: expected 1 value, one per spatial dimension, got 2");
  CHECK(contains(conv_error({2, 3, 8}, {4, 3, SizeExpr(std::int64_t{1} << 58)}, conv_attributes({1}, {1048575}, {0}, {0})),
                 "smaller than the kernel"));
}

TEST_CASE("conv: channels and weights are numbers", "[ops]") {
  GraphBuilder b("t");
  const SizeExpr d = value_of(b.dim({"D", 4, 1, 64}));
  const ValueId x = value_of(b.input("x", DType::kF32, {1, d, 8}));
  const ValueId w = value_of(b.input("w", DType::kF32, {4, 4, 3}));
  CHECK(error_of(b.conv(x, w, {}, {})) == "conv: operand x: the channels (dimension 1 of [1, D, 8]) must be a number or a baked dimension");
  const ValueId x2 = value_of(b.input("x2", DType::kF32, {1, 4, 8}));
  const ValueId w2 = value_of(b.input("w2", DType::kF32, {d, 4, 3}));
  CHECK(error_of(b.conv(x2, w2, {}, {})) == "conv: operand w \"w2\": every dimension of [D, 4, 3] must be a number or a baked dimension");
}

TEST_CASE("reduce: shapes, dtypes and negative axes", "[ops]") {
  GraphBuilder b("t");
  const SizeExpr n = value_of(b.dim({"N", 4, 1, 64}));
  const ValueId x = value_of(b.input("x", DType::kF16, {n, 3, 5, 7}));
  const ValueId i = value_of(b.input("i", DType::kI32, {2, 0}));
  const ValueId flag = value_of(b.input("flag", DType::kBool, {2, 3}));
  CHECK(shape_of_value(b, value_of(b.reduce(x, ReduceKind::kMin, {2}, false))) == "[N, 3, 7]");
  CHECK(shape_of_value(b, value_of(b.reduce(x, ReduceKind::kMean, {-1, 1}, true))) == "[N, 1, 5, 1]");
  const ValueId all = value_of(b.reduce(x, ReduceKind::kSum, {3, 0, 2, 1}, false));
  CHECK(shape_of_value(b, all) == "[]");
  CHECK(b.graph().value(all).dtype == DType::kF16);
  const auto& attributes = std::get<ReduceAttributes>(b.graph().ops().back().attributes);
  CHECK(attributes.axes == llvm::SmallVector<unsigned, 6>{0, 1, 2, 3});
  CHECK(b.graph().value(value_of(b.reduce(i, ReduceKind::kSum, {0}, false))).dtype == DType::kI64);
  CHECK(b.graph().value(value_of(b.reduce(flag, ReduceKind::kSum, {0}, false))).dtype == DType::kI64);
  CHECK(b.graph().value(value_of(b.reduce(flag, ReduceKind::kMax, {0}, false))).dtype == DType::kBool);
  CHECK(b.graph().value(value_of(b.reduce(i, ReduceKind::kMax, {0}, false))).dtype == DType::kI32);
  CHECK(error_of(b.reduce(i, ReduceKind::kMax, {1}, false)) ==
        "reduce: operand x \"i\": the max of i32 over the empty axis 1 of [2, 0] has no value");
  CHECK(error_of(b.reduce(i, ReduceKind::kMean, {0}, false)) ==
        "reduce: operand x \"i\": the mean expects a floating dtype (f32, f16, bf16), got i32; cast it first");
  CHECK(error_of(b.reduce(x, ReduceKind::kMin, {4}, false)) == "reduce: axes of x [N, 3, 5, 7]: expected a number in [-4, 3], got 4");
  CHECK(error_of(b.reduce(x, ReduceKind::kMin, {-5}, false)) == "reduce: axes of x [N, 3, 5, 7]: expected a number in [-4, 3], got -5");
  CHECK(error_of(b.reduce(x, ReduceKind::kMin, {3, -1}, false)) == "reduce: axes: axis 3 is given twice");
  CHECK(error_of(b.reduce(x, ReduceKind::kMin, {}, false)) == "reduce: axes: expected at least one axis of x [N, 3, 5, 7]");
  CHECK(error_of(b.reduce(all, ReduceKind::kMin, {0}, false)) == "reduce: axes of x []: 0 is given, but the operand is a scalar");
  CHECK(error_of(b.reduce(99, ReduceKind::kMin, {0}, false)) == "reduce: there is no value 99");
}

TEST_CASE("softmax: keeps shape and dtype and refuses other operands", "[ops]") {
  GraphBuilder b("t");
  const ValueId x = value_of(b.input("x", DType::kBf16, {2, 3}));
  const ValueId i = value_of(b.input("i", DType::kI64, {2, 3}));
  const ValueId s = value_of(b.input("s", DType::kF32, {}));
  const ValueId y = value_of(b.softmax(x, -1, "y"));
  CHECK(shape_of_value(b, y) == "[2, 3]");
  CHECK(b.graph().value(y).dtype == DType::kBf16);
  CHECK(std::get<SoftmaxAttributes>(b.graph().ops()[0].attributes).axis == 1);
  CHECK(error_of(b.softmax(x, 2)) == "softmax: axis of x [2, 3]: expected a number in [-2, 1], got 2");
  CHECK(error_of(b.softmax(i, 0)) == "softmax: operand x \"i\": expected dtype f32, f16 or bf16, got i64");
  CHECK(error_of(b.softmax(s, 0)) == "softmax: axis of x []: 0 is given, but the operand is a scalar");
  CHECK(error_of(b.softmax(x, 0, "y")) == "softmax: value y: the name is taken");
}

TEST_CASE("cross_entropy: the loss is f32; operands are checked", "[ops]") {
  GraphBuilder b("t");
  const SizeExpr n = value_of(b.dim({"N", 4, 1, 64}));
  const ValueId logits = value_of(b.input("logits", DType::kF16, {n, 10}));
  const ValueId targets = value_of(b.input("targets", DType::kI64, {n}));
  const ValueId wrong = value_of(b.input("wrong", DType::kI64, {5}));
  const ValueId narrow = value_of(b.input("narrow", DType::kI32, {n}));
  const ValueId mean = value_of(b.cross_entropy(logits, targets, {}));
  CHECK(b.graph().value(mean).dtype == DType::kF32);
  CHECK(shape_of_value(b, mean) == "[]");
  CHECK(shape_of_value(b, value_of(b.cross_entropy(logits, targets, {LossReduction::kNone, 0, 1.0}))) == "[N]");
  CHECK(error_of(b.cross_entropy(logits, wrong, {})) ==
        "cross_entropy: operand targets \"wrong\": expected shape [N] for logits [N, 10], got [5]");
  CHECK(error_of(b.cross_entropy(logits, narrow, {})) ==
        "cross_entropy: operand targets \"narrow\": expected dtype i64 (class indices), got i32");
  CHECK(error_of(b.cross_entropy(targets, targets, {})) ==
        "cross_entropy: operand logits \"targets\": expected dtype f32, f16 or bf16, got i64");
  const ValueId cube = value_of(b.input("cube", DType::kF32, {2, 3, 4}));
  CHECK(error_of(b.cross_entropy(cube, targets, {})) == "cross_entropy: operand logits \"cube\": expected shape [N, C], got [2, 3, 4]");
  for (const double smoothing : {-0.1, 1.5, std::nan("")}) {
    CHECK(contains(error_of(b.cross_entropy(logits, targets, {LossReduction::kMean, -100, smoothing})),
                   "label_smoothing: expected a number in [0, 1]"));
  }
}

TEST_CASE("map: broadcasts as NumPy and names the shapes that do not", "[ops]") {
  GraphBuilder b("t");
  const SizeExpr n = value_of(b.dim({"N", 4, 1, 64}));
  const SizeExpr m = value_of(b.dim({"M", 4, 1, 64}));
  const ValueId x = value_of(b.input("x", DType::kF32, {n, 3, 1}));
  const ValueId z = value_of(b.input("z", DType::kF32, {3, 7}));
  const ValueId s = value_of(b.input("s", DType::kF32, {}));
  const ValueId e = value_of(b.input("e", DType::kF32, {0}));
  const ValueId other = value_of(b.input("other", DType::kF32, {m, 1, 1}));
  const ValueId wide = value_of(b.input("wide", DType::kF32, {4}));
  CHECK(shape_of_value(b, value_of(b.map("x + z", {x, z}))) == "[N, 3, 7]");
  CHECK(shape_of_value(b, value_of(b.map("z + x", {z, x}))) == "[N, 3, 7]");
  CHECK(shape_of_value(b, value_of(b.map("s * x", {s, x}))) == "[N, 3, 1]");
  CHECK(shape_of_value(b, value_of(b.map("x + e", {x, e}))) == "[N, 3, 0]");
  CHECK(
      error_of(b.map("x + other", {x, other})) ==
      "map: operands \"x\" [N, 3, 1], \"other\" [M, 1, 1] do not broadcast: M against N (sizes must be equal or 1, counted from the last)");
  CHECK(error_of(b.map("z + wide", {z, wide})) ==
        "map: operands \"z\" [3, 7], \"wide\" [4] do not broadcast: 4 against 7 (sizes must be equal or 1, counted from the last)");
  CHECK(error_of(b.map("z + 1", {z, wide})) == "map: operand in \"wide\" is not used in expr");
  CHECK(error_of(b.map("z + q", {z})) == "map: expr, column 5: unknown operand \"q\"; did you mean \"z\"?");
  CHECK(error_of(b.map("z + z", {z, z})) == "map: operand in \"z\" is given twice; name it twice in expr instead");
  CHECK(error_of(b.map("1.0", {})) == "map: expected at least one operand that is a value");
}

TEST_CASE("map: the result's dtype is promoted from the operands that reach it", "[ops]") {
  GraphBuilder b("t");
  const ValueId h = value_of(b.input("h", DType::kF16, {2}));
  const ValueId h2 = value_of(b.input("h2", DType::kF16, {2}));
  const ValueId g = value_of(b.input("g", DType::kBf16, {2}));
  const ValueId f = value_of(b.input("f", DType::kF32, {2}));
  const ValueId i = value_of(b.input("i", DType::kI32, {2}));
  const ValueId l = value_of(b.input("l", DType::kI64, {2}));
  const auto dtype = [&](llvm::StringRef expr, llvm::ArrayRef<ValueId> in) {
    return dtype_name(b.graph().value(value_of(b.map(expr, in))).dtype).str();
  };
  CHECK(dtype("h * 0.5 + h2", {h, h2}) == "f16");
  CHECK(dtype("g + 1", {g}) == "bf16");
  CHECK(dtype("h + g", {h, g}) == "f32");
  CHECK(dtype("h + f", {h, f}) == "f32");
  CHECK(dtype("h + i", {h, i}) == "f16");
  CHECK(dtype("i + l", {i, l}) == "i64");
  CHECK(dtype("i * 2", {i}) == "i32");
  CHECK(dtype("i * 0.5", {i}) == "f32");
  CHECK(dtype("exp(i)", {i}) == "f32");
  CHECK(dtype("h < f", {h, f}) == "bool");
  CHECK(dtype("where(f > 0, h, h2)", {f, h, h2}) == "f16");
  CHECK(dtype("cast_bf16(f)", {f}) == "bf16");
  const ValueId y = value_of(b.map("f + i", {f, i}, DType::kI32));
  CHECK(b.graph().value(y).dtype == DType::kI32);
  CHECK(std::get<MapAttributes>(b.graph().ops().back().attributes).expr->type == DType::kI32);
  CHECK(b.graph().value(value_of(b.cast(f, DType::kF16))).dtype == DType::kF16);
}

TEST_CASE("map: a ready expression is checked against its operands", "[ops]") {
  GraphBuilder b("t");
  const ValueId x = value_of(b.input("x", DType::kF32, {2}));
  CHECK(error_of(b.map_expr(operand_expr(1, DType::kF32), {x}, std::nullopt)) == "map: expr reads operand 1, but there are 1");
  CHECK(error_of(b.map_expr(operand_expr(0, DType::kI32), {x}, std::nullopt)) ==
        "map: operand in \"x\": expr reads it as i32, but its compute type is f32");
  // A value given twice is one operand.
  const Expr sum = call_expr(ExprFn::kAdd, {operand_expr(0, DType::kF32), operand_expr(1, DType::kF32)});
  value_of(b.map_expr(sum, {x, x}, std::nullopt));
  CHECK(b.graph().ops().back().inputs.size() == 1);
  CHECK(expr_text(std::get<MapAttributes>(b.graph().ops().back().attributes).expr) == "(%0 + %0)");
}

TEST_CASE("builder: named forms become maps", "[ops]") {
  GraphBuilder b("t");
  const ValueId x = value_of(b.input("x", DType::kF16, {2, 3}));
  const ValueId z = value_of(b.input("z", DType::kF16, {3}));
  const auto expr = [&](llvm::StringRef form, llvm::ArrayRef<MapOperand> operands) {
    value_of(b.named(form, operands));
    return expr_text(std::get<MapAttributes>(b.graph().ops().back().attributes).expr);
  };
  CHECK(expr("add", {MapOperand(x), MapOperand(z)}) == "(%0 + %1)");
  CHECK(expr("sub", {MapOperand(1.0), MapOperand(x)}) == "(1.0 - %0)");
  CHECK(expr("mul", {MapOperand(x), MapOperand(0.5)}) == "(%0 * 0.5)");
  CHECK(expr("mul", {MapOperand(x), MapOperand(x)}) == "(%0 * %0)");
  CHECK(expr("mul", {MapOperand(x), MapOperand(-0.0)}) == "(%0 * -0.0)");
  CHECK(expr("max", {MapOperand(x), MapOperand(0.0)}) == "max(%0, 0.0)");
  CHECK(expr("gelu", {MapOperand(x)}) == "gelu(%0)");
  CHECK(expr("gelu_tanh", {MapOperand(x)}) == "gelu_tanh(%0)");
  CHECK(expr("neg", {MapOperand(x)}) == "(-%0)");
  CHECK(b.graph().values().back().dtype == DType::kF16);
  CHECK(error_of(b.named("addd", {MapOperand(x), MapOperand(z)})) == "addd: not a named elementwise form; did you mean \"add\"?");
  CHECK(error_of(b.named("softmax", {MapOperand(x)})) == "softmax: not a named elementwise form");
  CHECK(error_of(b.named("add", {MapOperand(x)})) == "add: expected 2 operands, got 1");
  CHECK(error_of(b.named("relu", {MapOperand(x), MapOperand(x)})) == "relu: expected 1 operand, got 2");
  CHECK(error_of(b.named("add", {MapOperand(1.0), MapOperand(2.0)})) == "add: expected at least one operand that is a value");
}

TEST_CASE("builder: dimensions and inputs are checked", "[ops]") {
  GraphBuilder b("t");
  const SizeExpr n = value_of(b.dim({"N", 4, 1, 64}));
  CHECK(error_of(b.dim({"N", 4, 1, 64})) == "dimension N: declared twice");
  CHECK(error_of(b.baked_dim({"N", 4, 1, 64})) == "dimension N: declared twice");
  CHECK(error_of(b.dim({"1N", 4, 1, 64})) == "dimension \"1N\": the name must be an identifier");
  CHECK(error_of(b.dim({"M", 4, 5, 3})) == "dimension M: the range [5, 3] is empty or negative");
  CHECK(error_of(b.dim({"M", 4, -1, 3})) == "dimension M: the range [-1, 3] is empty or negative");
  CHECK(error_of(b.dim({"M", 9, 1, 3})) == "dimension M: 9 is outside its range [1, 3]");
  CHECK(value_of(b.baked_dim({"D", 9, 1, 30})).is_constant(9));
  CHECK(b.graph().symbols().size() == 1);
  CHECK(b.graph().baked_dims().size() == 1);
  CHECK(error_of(b.input("x", DType::kF32, {2, -3})) == "input x: dimension -3 of shape [2, -3] is negative");
  const SizeExpr big = std::int64_t{1} << 32;
  CHECK(error_of(b.input("x", DType::kF32, {big, big})) == "input x: shape [4294967296, 4294967296] has more than 2^62 elements");
  CHECK(error_of(b.input("x", DType::kF32, {big, big, 0})) == "input x: shape [4294967296, 4294967296, 0] has more than 2^62 elements");
  value_of(b.input("large", DType::kF32, {n, big}));
  value_of(b.input("empty", DType::kF32, {0, n, 0}));
  CHECK(error_of(b.input("large", DType::kF32, {1})) == "value large: the name is taken");
  CHECK(error_of(b.input("a b", DType::kF32, {1})) == "value \"a b\": the name must be an identifier other than inf, nan, true, false");
  CHECK(contains(error_of(b.input("inf", DType::kF32, {1})), "must be an identifier"));
  CHECK(error_of(b.input("x", DType::kF32, {2, 3}, {3})) == "input x: expected 2 strides for shape [2, 3], got 1");
  CHECK(error_of(b.input("x", DType::kF32, {2, 3}, {-3, 1})) == "input x: strides must not be negative, got -3");
  CHECK(contains(error_of(b.input("x", DType::kF32, {8, 3}, {std::int64_t{1} << 60, 1})), "strides reach beyond 2^62 elements"));
}

TEST_CASE("builder: row-major strides are the default spelled out", "[ops]") {
  GraphBuilder b("t");
  const SizeExpr n = value_of(b.dim({"N", 4, 1, 64}));
  CHECK(b.graph().value(value_of(b.input("a", DType::kF32, {n, 3, 1, 5}, {15, 5, 77, 1}))).strides.empty());
  CHECK(b.graph().value(value_of(b.input("b", DType::kF32, {n, 3}, {1, 64}))).strides.size() == 2);
  CHECK(b.graph().value(value_of(b.input("c", DType::kF32, {3, 3}, {0, 1}))).strides.size() == 2);
}

TEST_CASE("builder: a graph has outputs and nothing unused", "[ops]") {
  const auto build = [](const std::function<llvm::SmallVector<ValueId, 4>(GraphBuilder&, ValueId)>& make,
                        Precision precision = Precision::kTf32) {
    GraphBuilder b("t", precision);
    const ValueId x = value_of(b.input("x", DType::kF32, {2, 3}));
    const auto outputs = make(b, x);
    return error_of(std::move(b).build(outputs));
  };
  CHECK(build([](GraphBuilder& b, ValueId x) { return llvm::SmallVector<ValueId, 4>{value_of(b.softmax(x, 0))}; }) == "(no error)");
  CHECK(build([](GraphBuilder&, ValueId) { return llvm::SmallVector<ValueId, 4>{}; }) == "t: expected at least one output");
  CHECK(build([](GraphBuilder&, ValueId x) { return llvm::SmallVector<ValueId, 4>{x}; }) ==
        "t: outputs: \"x\" is an input; copy it with a map");
  CHECK(build([](GraphBuilder&, ValueId) { return llvm::SmallVector<ValueId, 4>{7}; }) == "t: outputs: there is no value 7");
  CHECK(build([](GraphBuilder& b, ValueId x) {
          const ValueId y = value_of(b.softmax(x, 0, "y"));
          return llvm::SmallVector<ValueId, 4>{y, y};
        }) == "t: outputs: \"y\" is given twice");
  CHECK(build([](GraphBuilder& b, ValueId x) {
          const ValueId y = value_of(b.softmax(x, 0, "y"));
          value_of(b.softmax(y, 0, "z"));
          return llvm::SmallVector<ValueId, 4>{y};
        }) == "t: ops[1] (softmax) computes \"z\", which no output needs");
  CHECK(build([](GraphBuilder& b, ValueId x) {
          value_of(b.input("u", DType::kF32, {2}));
          return llvm::SmallVector<ValueId, 4>{value_of(b.softmax(x, 0))};
        }) == "t: input \"u\" is read by no op");
  CHECK(build([](GraphBuilder& b, ValueId x) {
          value_of(b.dim({"N", 4, 1, 64}));
          return llvm::SmallVector<ValueId, 4>{value_of(b.softmax(x, 0))};
        }) == "t: dimension N is in no input's shape");
  CHECK(build([](GraphBuilder& b, ValueId x) { return llvm::SmallVector<ValueId, 4>{value_of(b.softmax(x, 0))}; }, Precision::kBf16x3) ==
        "t: precision \"bf16x3\" is not offered yet; use \"tf32x3\" or \"tf32\"");
}

TEST_CASE("graph: users, outputs and default dimensions", "[ops]") {
  GraphBuilder b("t");
  const SizeExpr n = value_of(b.dim({"N", 4, 1, 64}));
  const ValueId x = value_of(b.input("x", DType::kF32, {n, 3}));
  const ValueId y = value_of(b.softmax(x, 1, "y"));
  const ValueId z = value_of(b.map("x * y", {x, y}));
  const Graph graph = value_of(std::move(b).build({z, y}));
  CHECK(graph.users(x) == llvm::SmallVector<OpId, 4>{0, 1});
  CHECK(graph.users(z).empty());
  CHECK(graph.is_output(y));
  CHECK_FALSE(graph.is_output(x));
  CHECK(graph.default_dims() == llvm::SmallVector<std::int64_t, 4>{4});
  CHECK(op_name(graph.op(0)) == "softmax");
  CHECK(op_name(graph.op(1)) == "map");
}
