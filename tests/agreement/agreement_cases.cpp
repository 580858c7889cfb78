// Which cases are drawn. Every description is run three times: on other data and sizes, the second time from misaligned pointers, the third
// time with special values where equal bits are asked for.
#include <algorithm>

#include "fmt/format.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/error.h"
#include "runtime/random.h"
#include "tests/agreement/agreement.h"

namespace tilewright {
namespace {

constexpr unsigned kDescriptions = 18;  // of a template
constexpr unsigned kRuns = 3;
constexpr std::int64_t kMostElements = 4096;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return splitmix64(state_); }
  std::int64_t between(std::int64_t low, std::int64_t high) {  // both included
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<std::int64_t>(values.size()) - 1)];
  }

 private:
  std::uint64_t state_;
};

// A description with one dimension N that is open until launch.
struct Drawn {
  Agreement agreement = Agreement::kBitwise;
  std::string inputs, ops;  // ops end in a value y
  std::string precision = "ieee";
  std::int64_t greatest_n = 8;
  ConfigOverrides overrides;
};

std::string tensor(const char* name, llvm::StringRef dtype, const std::string& shape) {
  return fmt::format(R"("{}": {{"dtype": "{}", "shape": {}}})", name, dtype.str(), shape);
}

std::string description_of(const Drawn& drawn) {
  const bool open = drawn.inputs.find("\"N\"") != std::string::npos;
  const std::string dims = fmt::format(R"("dims": {{"N": {{"default": {}, "min": 0, "max": 5000}}}}, )", drawn.greatest_n);
  return fmt::format(R"j({{"name": "agreement", "precision": "{}", {}"inputs": {{{}}}, "ops": [{}], "outputs": ["y"]}})j", drawn.precision,
                     open ? dims : "", drawn.inputs, drawn.ops);
}

Drawn map_of(const char* dtype, const std::string& expression, Agreement agreement, std::int64_t columns) {
  Drawn drawn;
  drawn.agreement = agreement;
  const bool two = expression.find('z') != std::string::npos;
  drawn.inputs = tensor("x", dtype, fmt::format(R"(["N", {}])", columns));
  if (two) drawn.inputs += ", " + tensor("z", dtype, fmt::format("[{}]", columns));
  drawn.ops = fmt::format(R"j({{"op": "map", "in": ["x"{}], "out": "y", "expr": "{}"}})j", two ? R"(, "z")" : "", expression);
  drawn.greatest_n = std::min<std::int64_t>(40, kMostElements / columns);
  return drawn;
}

Drawn cast_of(const char* from, const char* to, std::int64_t columns) {
  Drawn drawn;
  drawn.inputs = tensor("x", from, fmt::format(R"(["N", {}])", columns));
  drawn.ops = fmt::format(R"({{"op": "cast", "in": ["x"], "out": "y", "dtype": "{}"}})", to);
  drawn.greatest_n = std::min<std::int64_t>(40, kMostElements / columns);
  return drawn;
}

Drawn elementwise(Draw& draw, unsigned i) {
  constexpr const char* kExact[] = {"where(x > z, x, z)", "max(x, z)", "min(abs(x), z)", "x / z", "sqrt(abs(x))", "floor(x) - ceil(z)",
                                    "round(x * 7)",       "relu(x)",   "reciprocal(x)",  "x - z", "x * z * x",    "-x"};
  const std::int64_t columns = draw.between(1, 97);
  const char* const dtype = draw.one_of({"f32", "f32", "f16", "bf16"});
  if (i % 3 == 0) return map_of(dtype, kExact[i / 3 % std::size(kExact)], Agreement::kBitwise, columns);
  if (i % 3 == 1) {
    const char* const types[] = {"f32", "f16", "bf16", "i32", "i64", "bool"};
    return cast_of(types[i / 3 % 6], types[(i / 3 + 1 + static_cast<unsigned>(draw.between(0, 4))) % 6], columns);
  }
  if (i % 2 == 0) return map_of(dtype, kExact[(i / 3 + 6) % std::size(kExact)], Agreement::kBitwise, columns);
  return map_of(draw.one_of({"i32", "i64"}), draw.one_of({"x * z + x", "x / z", "max(x - z, 3) * 1000000007", "abs(x) + z"}),
                Agreement::kBitwise, columns);
}

Drawn elementwise_fused(Draw& draw, unsigned i) {
  constexpr const char* kSums[] = {"x * z + x", "x * 0.125 - z", "x - z * z", "x * x + z * z", "(x + z) * z + 0.5", "x / z + x * z"};
  return map_of(draw.one_of({"f32", "f32", "f16"}), kSums[i % std::size(kSums)], Agreement::kFused, draw.between(1, 97));
}

Drawn elementwise_functions(Draw& draw, unsigned i) {
  constexpr const char* kFunctions[] = {
      "exp(x)",     "log(abs(x) + 0.5)",    "tanh(x)",     "gelu(x)", "silu(x)", "erf(x)", "sin(x)", "cos(x)", "rsqrt(abs(x) + 0.25)",
      "sigmoid(x)", "pow(abs(x) + 0.5, z)", "gelu_tanh(x)"};
  return map_of(i < std::size(kFunctions) ? "f32" : draw.one_of({"f16", "bf16"}), kFunctions[i % std::size(kFunctions)],
                Agreement::kFunctions, draw.between(1, 97));
}

Drawn on_rows(Draw& draw, const char* dtype, Agreement agreement, const std::string& attributes) {
  const std::int64_t columns = draw.one_of<std::int64_t>({draw.between(1, 33), draw.between(34, 300), draw.between(301, 1500), 256});
  Drawn drawn;
  drawn.agreement = agreement;
  drawn.inputs = tensor("x", dtype, fmt::format(R"(["N", {}])", columns));
  drawn.ops = fmt::format(R"({{"in": ["x"], "out": "y", {}}})", attributes);
  drawn.greatest_n = kMostElements / columns;
  return drawn;
}

Drawn row_softmax(Draw& draw, unsigned) {
  return on_rows(draw, draw.one_of({"f32", "f32", "f16", "bf16"}), Agreement::kExponentials, R"("op": "softmax", "axis": 1)");
}

Drawn row_reduce(Draw& draw, unsigned i) {
  const char* const kind = draw.one_of({"sum", "sum", "min", "max", "mean"});
  const bool mean = std::string(kind) == "mean";
  const char* const dtype = mean ? "f32" : draw.one_of({"f32", "f32", "f16", "bf16", "i32", "i64"});
  Drawn drawn = on_rows(draw, dtype, mean ? Agreement::kFunctions : Agreement::kBitwise,
                        fmt::format(R"("op": "reduce", "kind": "{}", "axes": [1])", kind));
  if (i % 6 == 5 && std::string(dtype) == "f32") {
    drawn.agreement = Agreement::kFused;
    drawn.ops = R"({"op": "mul", "in": ["x", "x"], "out": "q"}, {"op": "reduce", "in": ["q"], "out": "y", "kind": "sum", "axes": [1]})";
  }
  return drawn;
}

Drawn row_cross_entropy(Draw& draw, unsigned) {
  const char* const reduction = draw.one_of({"none", "mean", "sum"});
  Drawn drawn = on_rows(draw, draw.one_of({"f32", "f32", "f16", "bf16"}), Agreement::kExponentials, "");
  drawn.inputs += R"(, "t": {"dtype": "i64", "shape": ["N"]})";
  drawn.ops = fmt::format(R"({{"op": "cross_entropy", "in": ["x", "t"], "out": "y", "reduction": "{}", "label_smoothing": {}}})", reduction,
                          draw.one_of({"0.0", "0.0", "0.1"}));
  return drawn;
}

Drawn reduce(Draw& draw, unsigned) {
  const char* const kind = draw.one_of({"sum", "sum", "min", "max", "mean"});
  const bool mean = std::string(kind) == "mean";
  const char* const dtype = mean ? "f32" : draw.one_of({"f32", "f32", "f16", "bf16", "i32", "i64"});
  Drawn drawn;
  drawn.agreement = mean ? Agreement::kFunctions : Agreement::kBitwise;
  const std::int64_t outer = draw.between(1, 60), inner = draw.between(1, 40);
  drawn.inputs = tensor("x", dtype, fmt::format(R"([{}, "N", {}])", outer, inner));
  drawn.ops = fmt::format(R"({{"op": "reduce", "in": ["x"], "out": "y", "kind": "{}", "axes": {}}})", kind,
                          draw.one_of({"[0]", "[1]", "[0, 1]", "[0, 2]", "[0, 1, 2]"}));
  drawn.greatest_n = std::min<std::int64_t>(50, 20000 / (outer * inner));
  drawn.greatest_n = std::min(drawn.greatest_n, kMostElements / std::max(outer, inner));
  return drawn;
}

Drawn column(Draw& draw, unsigned) {
  Drawn drawn;
  drawn.agreement = Agreement::kExponentials;
  const std::int64_t axis = draw.between(1, 200), inner = draw.between(2, std::max<std::int64_t>(2, kMostElements / axis / 2));
  drawn.inputs = tensor("x", draw.one_of({"f32", "f32", "f16", "bf16"}), fmt::format(R"(["N", {}, {}])", axis, inner));
  drawn.ops = R"({"op": "softmax", "in": ["x"], "out": "y", "axis": 1})";
  drawn.greatest_n = std::max<std::int64_t>(1, kMostElements / (axis * inner));
  return drawn;
}

// x [N, C, H, W] (or without H), w [O, C / groups, kh, kw].
Drawn convolution(Draw& draw, llvm::StringRef dtype, std::int64_t channels, std::int64_t outs, std::int64_t groups, unsigned spatial,
                  bool strided) {
  Drawn drawn;
  std::string x, w, padding;
  std::int64_t outputs = 0;  // of an image, at most
  do {
    x = w = padding = "";
    outputs = outs;
    for (unsigned d = 0; d < spatial; ++d) {
      const std::int64_t size = draw.between(4, spatial == 1 ? 200 : spatial == 2 ? 14 : 6), taps = draw.between(1, spatial == 3 ? 2 : 4);
      x += fmt::format(", {}", size);
      w += fmt::format(", {}", taps);
      padding += fmt::format("{}[{}, {}]", d == 0 ? "" : ", ", draw.between(0, taps - 1), draw.between(0, taps - 1));
      outputs *= size + taps - 1;
    }
  } while (outputs > kMostElements);
  drawn.inputs = tensor("x", dtype, fmt::format(R"(["N", {}{}])", channels, x)) + ", " +
                 tensor("w", dtype, fmt::format("[{}, {}{}]", outs, channels / groups, w));
  const bool bias = draw.between(0, 1) == 1;
  if (bias) drawn.inputs += ", " + tensor("b", dtype, fmt::format("[{}]", outs));
  drawn.ops = fmt::format(R"({{"op": "conv", "in": ["x", "w"{}], "out": "y", "groups": {}, "padding": [{}]{}}})", bias ? R"(, "b")" : "",
                          groups, padding, strided && draw.between(0, 1) == 1 ? R"(, "stride": 2)" : "");
  drawn.greatest_n = std::clamp<std::int64_t>(kMostElements / outputs, 1, 3);
  return drawn;
}

Drawn stencil(Draw& draw, bool line) {
  const std::int64_t channels = draw.between(2, line ? 8 : 6);
  // Rows that vectors fit into and others.
  const std::int64_t row =
      line ? draw.one_of<std::int64_t>({64, 128, 256, draw.between(40, 150)}) : draw.one_of<std::int64_t>({8, 16, 24, draw.between(5, 23)});
  const std::int64_t taps = draw.between(2, 5);
  const char* const dtype = draw.one_of({"f32", "f32", "f16", "bf16"});
  Drawn drawn;
  const std::string high = line ? "" : fmt::format(", {}", draw.between(3, 12)),
                    taps_y = line ? "" : fmt::format(", {}", draw.between(1, 3));
  drawn.inputs = tensor("x", dtype, fmt::format(R"(["N", {}{}, {}])", channels, high, row)) + ", " +
                 tensor("w", dtype, fmt::format("[{}, 1{}, {}]", channels, taps_y, taps)) + ", " +
                 tensor("b", dtype, fmt::format("[{}]", channels));
  drawn.ops = fmt::format(R"({{"op": "conv", "in": ["x", "w", "b"], "out": "y", "groups": {}, "padding": {}}})", channels,
                          line ? "\"causal\"" : "[[1, 0], [2, 1]]");
  drawn.greatest_n = std::max<std::int64_t>(1, std::min<std::int64_t>(3, kMostElements / (channels * (row + 2) * (line ? 1 : 15))));
  drawn.overrides["line"] = line ? 1 : 0;
  return drawn;
}
Drawn stencil_line(Draw& draw, unsigned) { return stencil(draw, true); }
Drawn stencil_grid(Draw& draw, unsigned) { return stencil(draw, false); }

// What stays within the bits: relu, or a reduction of the last dimension.
void add_exact_epilogue(Draw& draw, Drawn& drawn, bool f32) {
  const std::size_t at = drawn.ops.find(R"("out": "y")");
  const std::int64_t kind = draw.between(0, f32 ? 2 : 1);
  if (kind == 0) return;
  drawn.ops.replace(at, 10, R"("out": "c")");
  drawn.ops += kind == 1 ? R"(, {"op": "relu", "in": ["c"], "out": "y"})"
                         : R"(, {"op": "reduce", "in": ["c"], "out": "y", "kind": "max", "axes": [2]})";
}

Drawn matrix_convolution(Draw& draw, llvm::StringRef dtype, const std::string& precision) {
  const std::int64_t groups = draw.one_of<std::int64_t>({1, 1, 1, 2});
  const std::int64_t channels = draw.between(groups > 1 ? 4 : 1, draw.one_of<std::int64_t>({6, 24})) * groups;
  const std::int64_t outs = draw.between(groups > 1 ? 4 : 1, 20) * groups;
  Drawn drawn = convolution(draw, dtype, channels, outs, groups, static_cast<unsigned>(draw.between(1, 3)), true);
  drawn.agreement = precision == "ieee" && dtype == "f32" ? Agreement::kBitwise : Agreement::kTensor;
  drawn.precision = precision;
  add_exact_epilogue(draw, drawn, dtype == "f32");
  return drawn;
}
Drawn conv_ieee(Draw& draw, unsigned) { return matrix_convolution(draw, "f32", "ieee"); }
Drawn conv_tf32(Draw& draw, unsigned) { return matrix_convolution(draw, "f32", "tf32"); }
Drawn conv_tf32x3(Draw& draw, unsigned) { return matrix_convolution(draw, "f32", "tf32x3"); }

Drawn conv_f16(Draw& draw, unsigned) { return matrix_convolution(draw, "f16", "ieee"); }
Drawn conv_bf16(Draw& draw, unsigned) { return matrix_convolution(draw, "bf16", "ieee"); }

Drawn conv_direct(Draw& draw, unsigned) {
  const std::int64_t groups = draw.between(2, 4);
  return convolution(draw, draw.one_of({"f32", "f32", "f16", "bf16"}), 2 * groups, draw.between(1, 3) * groups, groups,
                     static_cast<unsigned>(draw.between(1, 3)), true);
}

// On conv_stream.cuh.
Drawn conv_stream(Draw& draw, unsigned) {
  Drawn drawn;
  drawn.agreement = Agreement::kTensor;
  drawn.precision = "tf32";
  const std::int64_t channels = draw.between(1, 4), outs = draw.one_of<std::int64_t>({5, 8, 16});
  const std::int64_t planes = draw.between(1, 3), rows = draw.between(1, 3), columns = draw.between(1, 5);
  const std::int64_t depth = planes + draw.between(0, 4), height = rows + draw.between(0, 4), width = columns + draw.between(0, 20);
  drawn.inputs = tensor("x", "f32", fmt::format(R"(["N", {}, {}, {}, {}])", channels, depth, height, width)) + ", " +
                 tensor("w", "f32", fmt::format("[{}, {}, {}, {}, {}]", outs, channels, planes, rows, columns)) + ", " +
                 tensor("b", "f32", fmt::format("[{}]", outs));
  drawn.ops =
      fmt::format(R"({{"op": "conv", "in": ["x", "w", "b"], "out": "y", "padding": [[0, 0], [0, 0], [0, {}]]}})", draw.between(0, 1));
  drawn.greatest_n = std::max<std::int64_t>(1, std::min<std::int64_t>(3, kMostElements / (outs * 5 * 5 * 22)));
  drawn.overrides = {{"stream", 1}, {"warpgroups", draw.between(1, 2)}};
  return drawn;
}

struct Family {
  const char* name;
  Drawn (*draw)(Draw&, unsigned);
};
constexpr Family kFamilies[] = {{"elementwise", elementwise},
                                {"elementwise, products added", elementwise_fused},
                                {"elementwise, functions", elementwise_functions},
                                {"row softmax", row_softmax},
                                {"row reduce", row_reduce},
                                {"row cross entropy", row_cross_entropy},
                                {"reduce", reduce},
                                {"column", column},
                                {"stencil line", stencil_line},
                                {"stencil grid", stencil_grid},
                                {"conv ieee", conv_ieee},
                                {"conv tf32", conv_tf32},
                                {"conv tf32x3", conv_tf32x3},
                                {"conv f16", conv_f16},
                                {"conv bf16", conv_bf16},
                                {"conv_direct", conv_direct},
                                {"conv stream tf32", conv_stream}};

}  // namespace

std::vector<AgreementCase> draw_agreement_cases(std::uint64_t seed) {
  std::vector<AgreementCase> cases;
  Draw draw(seed);
  for (const Family& family : kFamilies) {
    for (unsigned i = 0; i < kDescriptions; ++i) {
      const Drawn drawn = family.draw(draw, i);
      for (unsigned run = 0; run < kRuns; ++run) {
        AgreementCase c;
        c.template_name = family.name;
        c.agreement = drawn.agreement;
        c.description = description_of(drawn);
        c.dims.push_back(run == 0 ? drawn.greatest_n : draw.between(std::min<std::int64_t>(1, drawn.greatest_n), drawn.greatest_n));
        c.inputs.seed = draw.next() >> 16;
        c.inputs.low = run == 0 ? -1.0 : -3.0;
        c.inputs.high = run == 0 ? 1.0 : 3.0;
        c.inputs.special_values = run == 2 && drawn.agreement == Agreement::kBitwise;
        c.shift_elements = run == 1 ? 1 : 0;
        c.overrides = drawn.overrides;
        cases.push_back(std::move(c));
      }
    }
  }
  return cases;
}

}  // namespace tilewright
