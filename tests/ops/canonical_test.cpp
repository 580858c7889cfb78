#include <set>

#include "llvm/Support/JSON.h"
#include "ops/builder.h"
#include "tests/ops/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

const std::string kInputs =
    R"("x": {"dtype": "f32", "shape": ["N", 6, 12]}, "w": {"dtype": "f32", "shape": [6, 2, 3]}, "b": {"dtype": "f32", "shape": [6, 1]})";
const std::string kDims = R"({"N": {"default": 8, "min": 1, "max": 64}})";
const std::string kConv = R"({"op": "conv", "in": ["x", "w"], "out": "c", "groups": 3, "padding": "causal"})";
const std::string kMap = R"({"op": "map", "in": ["c", "b"], "out": "s", "expr": "c + b"})";
const std::string kReduce = R"({"op": "reduce", "in": ["x"], "out": "r", "kind": "max", "axes": [1, 2], "keepdims": true})";
const std::string kMul = R"({"op": "mul", "in": ["s", "r"], "out": "y"})";
const std::string kBase = with_ops(kConv + "," + kMap + "," + kReduce + "," + kMul, kInputs, kDims);

std::string changed(const std::string& from, const std::string& to) { return signature_of(replaced(kBase, from, to)); }

}  // namespace

TEST_CASE("canonical: the form is JSON with sorted keys and no names", "[ops]") {
  const Graph graph = value_of(parse_description(kBase));
  const std::string text = canonical_form(graph);
  CHECK(
      text ==
      R"({"deterministic":true,"dims":[{"default":8,"max":64,"min":1}],"inputs":[{"dtype":"f32","shape":["s0",6,12]},{"dtype":"f32","shape":[6,2,3]},)"
      R"({"dtype":"f32","shape":[6,1]}],"ops":[{"dilation":[1],"groups":3,"in":[0,1],"op":"conv","padding":[[2,0]],"stride":[1]},)"
      R"-({"dtype":"f32","expr":"(%0 + %1)","in":[3,2],"op":"map"},{"axes":[1,2],"in":[0],"keepdims":true,"kind":"max","op":"reduce"},)-"
      R"-({"dtype":"f32","expr":"(%0 * %1)","in":[4,5],"op":"map"}],"outputs":[6],"precision":"tf32x3"})-");
  CHECK(error_of(llvm::json::parse(text)) == "(no error)");
  CHECK(signature(graph).size() == 32);
  CHECK(signature(graph).find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("canonical: names, order, defaults and sugar do not matter", "[ops]") {
  const std::string base = signature_of(kBase);
  CHECK(changed("\"name\": \"t\"", "\"name\": \"another\"") == base);
  // Values and dimensions renamed.
  std::string renamed = kBase;
  for (const auto& [from, to] : {std::pair{"\"c\"", "\"conv_out\""},
                                 {"\"c\"", "\"conv_out\""},
                                 {"c + b", "conv_out + b"},
                                 {"\"N\"", "\"batch\""},
                                 {"\"N\"", "\"batch\""}}) {
    renamed = replaced(renamed, from, to);
  }
  CHECK(signature_of(renamed) == base);
  // Any topological order.
  CHECK(signature_of(with_ops(kReduce + "," + kConv + "," + kMap + "," + kMul, kInputs, kDims)) == base);
  CHECK(signature_of(with_ops(kConv + "," + kReduce + "," + kMap + "," + kMul, kInputs, kDims)) == base);
  // Defaults spelled out, and other spellings of the same.
  CHECK(changed("\"padding\": \"causal\"", R"("padding": [[2, 0]], "stride": [1], "dilation": 1)") == base);
  CHECK(changed("\"dims\"", R"("precision": "tf32x3", "deterministic": true, "dims")") == base);
  CHECK(changed("[1, 2]", "[-1, 1]") == base);
  CHECK(changed(R"("shape": ["N", 6, 12])", R"("strides": [72, 12, 1], "shape": ["N", 6, 12])") == base);
  CHECK(changed(kMap, R"({"op": "add", "in": ["c", "b"], "out": "s"})") == base);
  CHECK(changed(kMap, R"({"in": ["b", "c"], "op": "map", "out": "s", "dtype": "f32", "expr": "(c)+b"})") == base);
  CHECK(changed(kMul, R"({"op": "map", "in": ["r", "s"], "out": "y", "expr": "s*r"})") == base);
  // A baked dimension is its number.
  CHECK(signature_of(replaced(replaced(kBase, "\"groups\": 3", "\"groups\": \"G\""), kDims,
                              R"({"N": {"default": 8, "min": 1, "max": 64}, "G": {"default": 3, "baked": true}})")) == base);
}

TEST_CASE("canonical: the builder and JSON give the same signature", "[ops]") {
  GraphBuilder b("other");
  const SizeExpr n = value_of(b.dim({"n", 8, 1, 64}));
  const ValueId x = value_of(b.input("in0", DType::kF32, {n, 6, 12}));
  const ValueId w = value_of(b.input("in1", DType::kF32, {6, 2, 3}));
  const ValueId bias = value_of(b.input("in2", DType::kF32, {6, 1}));
  ConvAttributes attributes;
  attributes.pad_before = {2};
  attributes.groups = 3;
  const ValueId r = value_of(b.reduce(x, ReduceKind::kMax, {1, 2}, true));
  const ValueId c = value_of(b.conv(x, w, std::nullopt, attributes));
  const ValueId s = value_of(b.named("add", {MapOperand(c), MapOperand(bias)}));
  const ValueId y =
      value_of(b.map_expr(call_expr(ExprFn::kMul, {operand_expr(0, DType::kF32), operand_expr(1, DType::kF32)}), {s, r}, std::nullopt));
  CHECK(signature(value_of(std::move(b).build({y}))) == signature_of(kBase));
}

TEST_CASE("canonical: every change of meaning changes the signature", "[ops]") {
  std::set<std::string> seen{signature_of(kBase)};
  std::size_t expected = 1;
  const auto differs = [&](const std::string& from, const std::string& to) {
    INFO(from << " -> " << to);
    seen.insert(changed(from, to));
    CHECK(seen.size() == ++expected);
  };
  differs("\"groups\": 3", "\"groups\": 3, \"stride\": 2");
  differs("\"groups\": 3", "\"groups\": 3, \"dilation\": 2");
  differs("\"causal\"", "[[1, 1]]");
  differs("\"causal\"", "[[0, 2]]");
  differs("\"groups\": 3, \"padding\": \"causal\"", "\"groups\": 3, \"padding\": 3");
  differs("\"max\", \"axes\"", "\"min\", \"axes\"");
  differs("\"max\", \"axes\"", "\"mean\", \"axes\"");
  differs("\"axes\": [1, 2]", "\"axes\": [0, 1, 2]");
  differs("c + b", "c - b");
  differs("c + b", "b + c");
  differs("c + b", "c + b * 0.5");
  differs("c + b", "c + b * 0.25");
  differs("\"expr\"", "\"dtype\": \"f16\", \"expr\"");
  differs("\"max\": 64", "\"max\": 65");
  differs("\"min\": 1", "\"min\": 2");
  differs("\"default\": 8", "\"default\": 9");
  differs("\"N\", 6, 12", "\"N\", 6, 13");
  seen.insert(signature_of(replaced(replaced(kBase, kDims, "{}"), "\"N\"", "8")));
  CHECK(seen.size() == ++expected);
  differs("\"dims\"", "\"precision\": \"tf32\", \"dims\"");
  differs("\"dims\"", "\"precision\": \"ieee\", \"dims\"");
  differs("\"dims\"", "\"deterministic\": false, \"dims\"");
  differs("\"shape\": [6, 1]", "\"strides\": [2, 1], \"shape\": [6, 1]");
  differs("\"shape\": [6, 1]}", "\"shape\": [1, 1]}");
  differs("[\"y\"]", "[\"y\", \"s\"]");
  differs("[\"y\"]", "[\"s\", \"y\"]");
  differs("\"in\": [\"s\", \"r\"]", "\"in\": [\"r\", \"s\"]");
}

TEST_CASE("canonical: attributes of softmax, reduce, cross_entropy and dtypes matter", "[ops]") {
  const std::string inputs = R"("l": {"dtype": "f32", "shape": [5, 5]}, "t": {"dtype": "i64", "shape": [5]})";
  const auto loss = [&](const std::string& attributes) {
    return signature_of(with_ops(R"({"op": "cross_entropy", "in": ["l", "t"], "out": "y")" + attributes + "}", inputs));
  };
  CHECK(loss("") == loss(R"(, "reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0)"));
  CHECK(loss("") == loss(R"(, "label_smoothing": -0.0)"));
  const std::set<std::string> losses{loss(""), loss(R"(, "reduction": "sum")"), loss(R"(, "reduction": "none")"),
                                     loss(R"(, "ignore_index": 0)"), loss(R"(, "label_smoothing": 0.1)")};
  CHECK(losses.size() == 5);
  const auto one = [](const std::string& op, const std::string& dtype = "f32") {
    return signature_of(with_ops(op, R"("x": {"dtype": ")" + dtype + R"(", "shape": [5, 5]})"));
  };
  const std::string softmax = R"({"op": "softmax", "in": ["x"], "out": "y", "axis": 1})";
  CHECK(one(softmax) == one(replaced(softmax, "1", "-1")));
  const std::set<std::string> others{one(softmax),
                                     one(replaced(softmax, "1", "0")),
                                     one(softmax, "f16"),
                                     one(softmax, "bf16"),
                                     one(R"({"op": "reduce", "in": ["x"], "out": "y", "kind": "sum", "axes": [1]})"),
                                     one(R"({"op": "reduce", "in": ["x"], "out": "y", "kind": "sum", "axes": [1], "keepdims": true})"),
                                     one(R"({"op": "gelu", "in": ["x"], "out": "y"})"),
                                     one(R"({"op": "gelu", "in": ["x"], "out": "y", "approximate": "tanh"})"),
                                     one(R"({"op": "cast", "in": ["x"], "out": "y", "dtype": "f16"})")};
  CHECK(others.size() == 9);
  CHECK(one(R"({"op": "gelu", "in": ["x"], "out": "y", "approximate": "tanh"})") ==
        one(R"-({"op": "map", "in": ["x"], "out": "y", "expr": "gelu_tanh(x)"})-"));
  CHECK(one(R"({"op": "cast", "in": ["x"], "out": "y", "dtype": "f16"})") ==
        one(R"-({"op": "map", "in": ["x"], "out": "y", "expr": "cast_f16(x)", "dtype": "f16"})-"));
  CHECK(one(R"({"op": "mul", "in": ["x", 2], "out": "y"})") == one(R"({"op": "map", "in": ["x"], "out": "y", "expr": "x * 2.0"})"));
}

TEST_CASE("canonical: precision counts only where an f32 contraction is", "[ops]") {
  const std::string softmax = with_ops(R"({"op": "softmax", "in": ["x"], "out": "y", "axis": 1})");
  CHECK(signature_of(softmax) == signature_of(replaced(softmax, "\"dims\"", "\"precision\": \"ieee\", \"dims\"")));
}

TEST_CASE("canonical: the order of inputs is part of the calling convention", "[ops]") {
  const std::string op = R"({"op": "sub", "in": ["a", "b"], "out": "y"})";
  const std::string a = R"("a": {"dtype": "f32", "shape": [5]})";
  const std::string b = R"("b": {"dtype": "f32", "shape": [5]})";
  CHECK(signature_of(with_ops(op, a + "," + b)) != signature_of(with_ops(op, b + "," + a)));
}

TEST_CASE("canonical: signatures of the seeds are stable", "[ops]") {
  // A change here invalidates every store and record: it must be meant.
  for (const char* name : {"conv3d_min_softmax", "cross_entropy", "causal_conv1d"}) {
    const Graph first = value_of(load_description(description_path(name)));
    const Graph second = value_of(load_description(description_path(name)));
    CHECK(signature(first) == signature(second));
  }
}
