#include "tests/codegen/cases.h"

#include <cstdlib>

#include "fmt/format.h"

namespace tilewright {
namespace {

std::string input(const std::string& name, const std::string& dtype, const std::string& shape) {
  return fmt::format(R"("{}": {{"dtype": "{}", "shape": {}}})", name, dtype, shape);
}

std::string description(const std::string& inputs, const std::string& ops, const std::string& outputs, const std::string& more = "") {
  return fmt::format(R"({{"name": "case", {}"inputs": {{{}}}, "ops": [{}], "outputs": [{}]}})", more, inputs, ops, outputs);
}

// One op on one input x.
std::string unary(const std::string& dtype, const std::string& shape, const std::string& op, const std::string& more = "") {
  return description(input("x", dtype, shape), fmt::format(R"({{"in": ["x"], "out": "y", {}}})", op), R"("y")", more);
}

std::string conv(const std::string& dtype, const std::string& x, const std::string& w, const std::string& bias,
                 const std::string& attributes, const std::string& precision, const std::string& after = "",
                 const std::string& output = "c") {
  std::string inputs = input("x", dtype, x) + ", " + input("w", dtype, w);
  if (!bias.empty()) inputs += ", " + input("b", dtype, bias);
  const std::string ops =
      fmt::format(R"({{"op": "conv", "in": ["x", "w"{}], "out": "c"{}}}{})", bias.empty() ? "" : R"(, "b")", attributes, after);
  return description(inputs, ops, "\"" + output + "\"", fmt::format(R"("precision": "{}", )", precision));
}

void add_elementwise(std::vector<DescriptionCase>& cases) {
  for (const char* dtype : {"f32", "f16", "bf16", "i32", "i64", "bool"}) {
    cases.push_back({fmt::format("map where {}", dtype),
                     description(input("x", dtype, "[7, 33]") + ", " + input("z", dtype, "[33]"),
                                 R"j({"op": "map", "in": ["x", "z"], "out": "y", "expr": "where(x > z, x, z)"})j", R"("y")")});
  }
  const char* const functions[] = {"relu", "sigmoid", "tanh", "gelu", "silu", "exp", "log", "sqrt", "rsqrt", "abs", "neg"};
  for (const char* name : functions) cases.push_back({name, unary("f32", "[1000]", fmt::format(R"("op": "{}")", name))});
  cases.push_back({"gelu tanh", unary("f16", "[16, 64]", R"("op": "gelu", "approximate": "tanh")")});
  for (const char* name : {"add", "sub", "mul", "div", "max", "min"}) {
    cases.push_back({name, description(input("x", "f32", "[5, 1, 6]") + ", " + input("z", "f32", "[3, 1]"),
                                       fmt::format(R"({{"op": "{}", "in": ["x", "z"], "out": "y"}})", name), R"("y")")});
    cases.push_back(
        {fmt::format("{} i32", name), description(input("x", "i32", "[64, 8]") + ", " + input("z", "i32", "[64, 1]"),
                                                  fmt::format(R"({{"op": "{}", "in": ["x", "z"], "out": "y"}})", name), R"("y")")});
  }
  for (const char* to : {"f32", "f16", "bf16", "i32", "i64", "bool"}) {
    cases.push_back({fmt::format("cast f32 to {}", to), unary("f32", "[4, 64]", fmt::format(R"("op": "cast", "dtype": "{}")", to))});
    cases.push_back({fmt::format("cast i32 to {}", to), unary("i32", "[4, 65]", fmt::format(R"("op": "cast", "dtype": "{}")", to))});
    cases.push_back({fmt::format("cast bool to {}", to), unary("bool", "[127]", fmt::format(R"("op": "cast", "dtype": "{}")", to))});
  }
  cases.push_back(
      {"map of every function",
       unary(
           "f32", "[8, 128]",
           R"j("op": "map", "expr": "floor(x) + ceil(x) - round(x) + erf(x) * sin(x) - cos(x) + pow(abs(x) + 0.5, x) + reciprocal(x + 3) + where(isnan(x) || !(x < 1) && x != 2, 1, x)")j")});
  cases.push_back(
      {"strided input", fmt::format(R"({{"name": "case", "inputs": {{"x": {{"dtype": "f32", "shape": [16, 32], "strides": [1, 16]}}}},
      "ops": [{{"op": "relu", "in": ["x"], "out": "y"}}], "outputs": ["y"]}})")});
  cases.push_back({"symbolic broadcast",
                   description(input("x", "f16", R"(["N", "S", 3])") + ", " + input("z", "f32", R"(["S", 1])"),
                               R"({"op": "mul", "in": ["x", "z"], "out": "y"})", R"("y")",
                               R"("dims": {"N": {"default": 5, "min": 0, "max": 64}, "S": {"default": 37, "min": 1, "max": 100}}, )")});
  cases.push_back(
      {"chain unfused",
       description(
           input("x", "f32", "[8, 16]") + ", " + input("b", "f32", "[16]"),
           R"({"op": "add", "in": ["x", "b"], "out": "s"}, {"op": "gelu", "in": ["s"], "out": "g"}, {"op": "mul", "in": ["g", 0.5], "out": "y"})",
           R"("y")"),
       true});
  cases.push_back({"scalars", unary("f32", "[]", R"("op": "exp")")});
  cases.push_back({"empty map", unary("f32", "[0, 8]", R"("op": "exp")")});
}

void add_rows(std::vector<DescriptionCase>& cases) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const char* shape : {"[600, 1]", "[1030, 37]", "[515, 256]", "[520, 4096]", "[3, 40000]"}) {
      cases.push_back({fmt::format("softmax {} {}", dtype, shape), unary(dtype, shape, R"("op": "softmax", "axis": -1)")});
    }
    for (const char* kind : {"sum", "mean", "min", "max"}) {
      cases.push_back({fmt::format("row {} {}", kind, dtype),
                       unary(dtype, "[700, 1000]", fmt::format(R"("op": "reduce", "kind": "{}", "axes": [1])", kind))});
      cases.push_back({fmt::format("column {} {}", kind, dtype),
                       unary(dtype, "[9, 70, 33]", fmt::format(R"("op": "reduce", "kind": "{}", "axes": [1])", kind))});
    }
  }
  for (const char* kind : {"sum", "min", "max"}) {
    cases.push_back(
        {fmt::format("reduce {} i32", kind), unary("i32", "[600, 77]", fmt::format(R"("op": "reduce", "kind": "{}", "axes": [1])", kind))});
    cases.push_back(
        {fmt::format("reduce {} i64", kind), unary("i64", "[9, 600]", fmt::format(R"("op": "reduce", "kind": "{}", "axes": [0])", kind))});
  }
  cases.push_back({"reduce everything", unary("f32", "[37, 41, 43]", R"("op": "reduce", "kind": "sum", "axes": [0, 1, 2])")});
  cases.push_back({"reduce everything large", unary("f32", "[3000, 1111]", R"("op": "reduce", "kind": "mean", "axes": [0, 1])")});
  cases.push_back(
      {"reduce outer and inner", unary("f32", "[17, 40, 3, 19]", R"("op": "reduce", "kind": "max", "axes": [0, 2], "keepdims": true)")});
  cases.push_back({"reduce alternating", unary("f16", "[5, 6, 7, 8, 9]", R"("op": "reduce", "kind": "sum", "axes": [1, 3])")});
  cases.push_back(
      {"reduce alternating six times", unary("f32", "[2, 3, 4, 3, 2, 5]", R"("op": "reduce", "kind": "sum", "axes": [0, 2, 4])")});
  cases.push_back({"reduce alternating eight times",
                   unary("f32", "[2, 3, 2, 3, 2, 3, 2, 3]", R"("op": "reduce", "kind": "max", "axes": [1, 3, 5, 7])")});
  cases.push_back(
      {"softmax times what it read",
       description(
           input("x", "f32", "[520, 100]"),
           R"({"op": "relu", "in": ["x"], "out": "m"}, {"op": "softmax", "in": ["m"], "out": "p", "axis": 1}, {"op": "mul", "in": ["p", "m"], "out": "y"})",
           R"("y")")});
  cases.push_back({"reduce outermost", unary("f32", "[5000, 64]", R"("op": "reduce", "kind": "sum", "axes": [0])")});
  cases.push_back({"reduce empty axis", unary("f32", "[700, 0]", R"("op": "reduce", "kind": "mean", "axes": [1])")});
  cases.push_back({"reduce empty outer axis", unary("f32", "[0, 50]", R"("op": "reduce", "kind": "min", "axes": [0])")});
  cases.push_back({"softmax outer axis", unary("f32", "[4, 24, 900]", R"("op": "softmax", "axis": 1)")});
  cases.push_back({"softmax outer axis f16 long", unary("f16", "[2, 3000, 5]", R"("op": "softmax", "axis": 1)")});
  cases.push_back(
      {"softmax fused",
       description(
           input("x", "f32", "[600, 333]") + ", " + input("m", "f32", "[333]"),
           R"j({"op": "map", "in": ["x", "m"], "out": "s", "expr": "x * 0.125 + m"}, {"op": "softmax", "in": ["s"], "out": "p", "axis": 1}, {"op": "mul", "in": ["p", "m"], "out": "y"})j",
           R"("y")")});
  cases.push_back(
      {"reduce fused",
       description(
           input("x", "f16", "[600, 333]"),
           R"j({"op": "mul", "in": ["x", "x"], "out": "q"}, {"op": "reduce", "in": ["q"], "out": "s", "kind": "mean", "axes": [1]}, {"op": "map", "in": ["s"], "out": "y", "expr": "sqrt(s + 1e-5)", "dtype": "f32"})j",
           R"("y")")});
  const char* const symbolic =
      R"("dims": {"N": {"default": 601, "min": 0, "max": 5000}, "C": {"default": 1001, "min": 1, "max": 200000}}, )";
  cases.push_back({"softmax symbolic", unary("f32", R"(["N", "C"])", R"("op": "softmax", "axis": 1)", symbolic)});
  cases.push_back({"reduce symbolic", unary("f32", R"(["N", "C", 3])", R"("op": "reduce", "kind": "max", "axes": [1])", symbolic)});
  for (const char* reduction : {"mean", "sum", "none"}) {
    for (const char* dtype : {"f32", "f16", "bf16"}) {
      cases.push_back(
          {fmt::format("cross entropy {} {}", reduction, dtype),
           description(input("x", dtype, "[777, 130]") + ", " + input("t", "i64", "[777]"),
                       fmt::format(R"({{"op": "cross_entropy", "in": ["x", "t"], "out": "y", "reduction": "{}"}})", reduction), R"("y")")});
    }
    cases.push_back(
        {fmt::format("cross entropy {} smoothed", reduction),
         description(
             input("x", "f32", "[40, 5000]") + ", " + input("t", "i64", "[40]"),
             fmt::format(
                 R"({{"op": "cross_entropy", "in": ["x", "t"], "out": "y", "reduction": "{}", "label_smoothing": 0.1, "ignore_index": 3}})",
                 reduction),
             R"("y")")});
  }
  cases.push_back({"cross entropy symbolic", description(input("x", "f32", R"(["N", "C"])") + ", " + input("t", "i64", R"(["N"])"),
                                                         R"({"op": "cross_entropy", "in": ["x", "t"], "out": "y"})", R"("y")", symbolic)});
}

void add_convolutions(std::vector<DescriptionCase>& cases) {
  const std::string softmax_tail =
      R"(, {"op": "reduce", "in": ["c"], "out": "m", "kind": "min", "axes": [2]}, {"op": "softmax", "in": ["m"], "out": "y", "axis": 1})";
  for (const char* precision : {"ieee", "tf32x3", "tf32"}) {
    cases.push_back({fmt::format("conv3d min softmax {}", precision),
                     conv("f32", "[2, 3, 24, 32, 32]", "[24, 3, 3, 3, 3]", "[24]", "", precision, softmax_tail, "y"), false, true});
    cases.push_back({fmt::format("conv3d small {}", precision), conv("f32", "[1, 2, 5, 7, 9]", "[5, 2, 2, 3, 1]", "[5]", "", precision)});
    cases.push_back(
        {fmt::format("conv2d {}", precision), conv("f32", "[2, 64, 28, 28]", "[64, 64, 3, 3]", "[64]", R"(, "padding": 1)", precision)});
    cases.push_back({fmt::format("conv2d strided dilated {}", precision),
                     conv("f32", "[2, 20, 23, 31]", "[130, 20, 3, 5]", "",
                          R"(, "stride": [2, 3], "dilation": [2, 1], "padding": [[0, 2], [3, 1]])", precision)});
    cases.push_back(
        {fmt::format("conv1d {}", precision), conv("f32", "[3, 16, 200]", "[24, 16, 5]", "[24]", R"(, "padding": "causal")", precision)});
    cases.push_back({fmt::format("conv 1x1 {}", precision), conv("f32", "[2, 100, 9, 9]", "[37, 100, 1, 1]", "", "", precision)});
    cases.push_back({fmt::format("conv one channel {}", precision), conv("f32", "[1, 1, 1, 1]", "[1, 1, 1, 1]", "", "", precision)});
    cases.push_back({fmt::format("conv grouped {}", precision),
                     conv("f32", "[2, 32, 15, 15]", "[64, 8, 3, 3]", "[64]", R"(, "groups": 4)", precision)});
  }
  for (const char* kind : {"sum", "mean", "max", "min"}) {
    for (int axis : {2, 3, 4}) {
      cases.push_back({fmt::format("conv3d {} over {}", kind, axis),
                       conv("f32", "[2, 3, 7, 9, 11]", "[7, 3, 3, 3, 3]", "[7]", "", "tf32x3",
                            fmt::format(R"(, {{"op": "reduce", "in": ["c"], "out": "y", "kind": "{}", "axes": [{}]}})", kind, axis), "y")});
    }
  }
  cases.push_back(
      {"conv maps everywhere",
       conv(
           "f32", "[2, 3, 6, 9, 9]", "[8, 3, 3, 3, 3]", "[8]", "", "tf32x3",
           R"(, {"op": "relu", "in": ["c"], "out": "r"}, {"op": "reduce", "in": ["r"], "out": "m", "kind": "mean", "axes": [2]}, {"op": "mul", "in": ["m", 0.5], "out": "h"}, {"op": "softmax", "in": ["h"], "out": "p", "axis": 1}, {"op": "exp", "in": ["p"], "out": "y"})",
           "y")});
  for (const char* dtype : {"f16", "bf16"}) {
    cases.push_back(
        {fmt::format("conv2d {}", dtype), conv(dtype, "[2, 64, 14, 14]", "[40, 64, 3, 3]", "[40]", R"(, "padding": 1)", "ieee")});
    cases.push_back({fmt::format("conv2d odd {}", dtype), conv(dtype, "[1, 3, 17, 13]", "[9, 3, 5, 5]", "", R"(, "stride": 2)", "ieee")});
    cases.push_back({fmt::format("depthwise {}", dtype),
                     conv(dtype, "[2, 16, 256]", "[16, 1, 4]", "[16]", R"(, "groups": 16, "padding": "causal")", "ieee")});
    cases.push_back(
        {fmt::format("conv direct {}", dtype), conv(dtype, "[2, 6, 9, 9]", "[12, 2, 3, 3]", "[12]", R"(, "groups": 3)", "ieee")});
  }
  for (const char* size : {"[1, 64, 64]", "[2, 128, 128]", "[1, 8, 2048]", "[2, 5, 37]"}) {
    const std::string channels = std::string(size).substr(4, std::string(size).find(',', 4) - 4);
    for (int taps : {3, 4, 8}) {
      cases.push_back({fmt::format("causal conv1d {} {}", size, taps),
                       conv("f32", size, fmt::format("[{}, 1, {}]", channels, taps), fmt::format("[{}]", channels),
                            fmt::format(R"(, "groups": {}, "padding": "causal")", channels), "ieee")});
    }
  }
  cases.push_back({"depthwise 2d", conv("f32", "[2, 12, 20, 28]", "[24, 1, 3, 3]", "[24]", R"(, "groups": 12, "padding": 1)", "ieee")});
  cases.push_back({"depthwise 2d strided", conv("f32", "[2, 12, 20, 27]", "[12, 1, 5, 3]", "", R"(, "groups": 12, "stride": 2)", "ieee")});
  cases.push_back({"depthwise 3d", conv("f32", "[1, 6, 8, 9, 12]", "[6, 1, 3, 3, 3]", "[6]", R"(, "groups": 6, "padding": 1)", "ieee")});
  cases.push_back({"depthwise silu", conv("f32", "[2, 16, 256]", "[16, 1, 4]", "[16]", R"(, "groups": 16, "padding": "causal")", "ieee",
                                          R"(, {"op": "silu", "in": ["c"], "out": "y"})", "y")});
  cases.push_back(
      {"conv residual",
       description(
           input("x", "f32", "[1, 8, 12, 12]") + ", " + input("v", "f32", "[8, 8, 3, 3]") + ", " + input("w", "f32", "[8, 8, 1, 1]"),
           R"({"op": "conv", "in": ["x", "v"], "out": "a", "padding": 1}, {"op": "conv", "in": ["x", "w"], "out": "b"}, {"op": "add", "in": ["a", "b"], "out": "s"}, {"op": "relu", "in": ["s"], "out": "y"})",
           R"("y")")});
  cases.push_back(
      {"conv block with a residual",
       description(
           input("x", "f32", "[1, 8, 12, 12]") + ", " + input("v", "f32", "[8, 8, 3, 3]"),
           R"({"op": "relu", "in": ["x"], "out": "a"}, {"op": "conv", "in": ["a", "v"], "out": "c", "padding": 1}, {"op": "add", "in": ["c", "a"], "out": "y"})",
           R"("y")")});
  cases.push_back(
      {"conv with one scale for both operands",
       description(
           input("x", "f32", "[1, 8, 12, 12]") + ", " + input("v", "f32", "[8, 8, 1, 1]") + ", " + input("s", "f32", "[1, 8, 1, 1]"),
           R"({"op": "exp", "in": ["s"], "out": "e"}, {"op": "mul", "in": ["x", "e"], "out": "a"}, {"op": "mul", "in": ["v", "e"], "out": "u"}, {"op": "conv", "in": ["a", "u"], "out": "y"})",
           R"("y")")});
  cases.push_back({"conv symbolic",
                   description(input("x", "f32", R"(["N", 8, "H", 16])") + ", " + input("w", "f32", "[16, 8, 3, 3]"),
                               R"({"op": "conv", "in": ["x", "w"], "out": "y", "padding": 1})", R"("y")",
                               R"("dims": {"N": {"default": 3, "min": 0, "max": 64}, "H": {"default": 19, "min": 1, "max": 200}}, )")});
  cases.push_back({"conv unfused", conv("f32", "[2, 3, 6, 8, 8]", "[6, 3, 3, 3, 3]", "[6]", "", "tf32", softmax_tail, "y"), true});
  cases.push_back({"conv empty batch", conv("f32", "[0, 3, 8, 8]", "[6, 3, 3, 3]", "", "", "tf32")});
}

// Convolutions that conv_stream.cuh serves, and asks for it.
void add_streamed_convolutions(std::vector<DescriptionCase>& cases) {
  const std::map<std::string, std::int64_t> stream{{"stream", 1}};
  const auto add = [&](const std::string& name, const std::string& json, const std::map<std::string, std::int64_t>& config) {
    cases.push_back({"stream " + name, json, false, false, config});
  };
  const auto reduced = [](const std::string& kind, int axis, const std::string& more = "") {
    return fmt::format(R"(, {{"op": "reduce", "in": ["c"], "out": "m", "kind": "{}", "axes": [{}]}})", kind, axis) + more;
  };
  const std::string softmax = R"(, {"op": "softmax", "in": ["m"], "out": "y", "axis": 1})";
  const auto tf32 = [](const std::string& x, const std::string& w, const std::string& bias, const std::string& attributes,
                       const std::string& after = "",
                       const std::string& output = "c") { return conv("f32", x, w, bias, attributes, "tf32", after, output); };
  for (const auto& config : {std::map<std::string, std::int64_t>{{"stream", 1}, {"warpgroups", 4}},
                             std::map<std::string, std::int64_t>{{"stream", 1}, {"warpgroups", 3}, {"stages", 9}}}) {
    add("conv3d min softmax", tf32("[2, 3, 24, 32, 32]", "[24, 3, 3, 3, 3]", "[24]", "", reduced("min", 2, softmax), "y"), config);
  }
  for (const char* kind : {"sum", "mean", "max", "min"}) {
    add(fmt::format("conv3d {}", kind), tf32("[2, 3, 7, 9, 11]", "[7, 3, 3, 3, 3]", "[7]", "", reduced(kind, 2), "m"),
        {{"stream", 1}, {"warpgroups", 1}});
    add(fmt::format("conv2d {} over rows", kind), tf32("[2, 3, 21, 37]", "[16, 3, 4, 3]", "[16]", "", reduced(kind, 2), "m"), stream);
  }
  add("conv3d padded", tf32("[2, 3, 6, 9, 13]", "[8, 3, 3, 3, 3]", "[8]", R"(, "padding": 1)"), {{"stream", 1}, {"warpgroups", 1}});
  add("conv3d planes apart", tf32("[2, 2, 11, 9, 34]", "[20, 2, 2, 3, 3]", "", R"(, "padding": [[1, 0], [0, 1], [2, 1]])"),
      {{"stream", 1}, {"warpgroups", 2}, {"planes_per_block", 4}});
  add("conv3d strided dilated",
      tf32("[1, 3, 5, 23, 70]", "[9, 3, 3, 2, 3]", "[9]",
           R"(, "stride": [1, 2, 2], "dilation": [1, 3, 2], "padding": [[0, 2], [3, 1], [1, 1]])", reduced("max", 2), "m"),
      {{"stream", 1}, {"warpgroups", 2}});
  add("conv2d of four channels", tf32("[2, 4, 30, 100]", "[24, 4, 3, 3]", "[24]", R"(, "padding": 1)"), stream);
  add("conv3d 1x1 of eight channels", tf32("[2, 8, 4, 5, 36]", "[32, 8, 3, 1, 1]", "", ""), stream);
  add("conv1d", tf32("[3, 4, 200]", "[16, 4, 5]", "[16]", R"(, "padding": "causal")"), stream);
  add("conv3d of one channel", tf32("[1, 1, 3, 4, 5]", "[1, 1, 1, 1, 1]", "", ""), stream);
  add("conv3d empty batch", tf32("[0, 3, 5, 8, 8]", "[6, 3, 2, 3, 3]", "", "", reduced("min", 2), "m"), stream);
  add("maps everywhere",
      tf32(
          "[2, 3, 6, 9, 9]", "[8, 3, 3, 3, 3]", "[8]", "",
          R"(, {"op": "relu", "in": ["c"], "out": "r"}, {"op": "reduce", "in": ["r"], "out": "m", "kind": "mean", "axes": [2]}, {"op": "mul", "in": ["m", 0.5], "out": "h"}, {"op": "softmax", "in": ["h"], "out": "p", "axis": 1}, {"op": "exp", "in": ["p"], "out": "y"})",
          "y"),
      stream);
  add("symbolic",
      description(
          input("x", "f32", R"(["N", 3, "D", "H", 33])") + ", " + input("w", "f32", "[24, 3, 3, 3, 3]") + ", " + input("b", "f32", "[24]"),
          R"({"op": "conv", "in": ["x", "w", "b"], "out": "c"}, {"op": "reduce", "in": ["c"], "out": "y", "kind": "max", "axes": [2]})",
          R"("y")",
          R"("precision": "tf32", "dims": {"N": {"default": 3, "min": 0, "max": 64}, "D": {"default": 6, "min": 3, "max": 40}, "H": {"default": 11, "min": 3, "max": 200}}, )"),
      stream);
}

}  // namespace

const std::vector<DescriptionCase>& description_cases() {
  static const std::vector<DescriptionCase> cases = [] {
    std::vector<DescriptionCase> made;
    add_elementwise(made);
    add_rows(made);
    add_convolutions(made);
    add_streamed_convolutions(made);
    if (const char* const part = std::getenv("TILEWRIGHT_TEST_CASES"))
      std::erase_if(made, [&](const DescriptionCase& c) { return c.name.find(part) == std::string::npos; });
    return made;
  }();
  return cases;
}

}  // namespace tilewright
