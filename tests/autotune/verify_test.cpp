// The judge: nothing wrong passes, nothing right fails.
#include "autotune/verify.h"

#include <cmath>
#include <limits>

#include "ops/json.h"
#include "runtime/error.h"
#include "tests/catch.h"

using namespace tilewright;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

HostTensor row_of(DType dtype, const std::vector<double>& values) {
  HostTensor tensor = HostTensor::make(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

ReferenceTensor want_of(const std::vector<double>& values) {
  ReferenceTensor tensor;
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  tensor.values = values;
  return tensor;
}

Comparison judged(const std::vector<double>& got, const std::vector<double>& want, Tolerance tolerance = {1e-3, 1e-3, 0.0},
                  DType dtype = DType::kF32) {
  return compare(row_of(dtype, got), want_of(want), tolerance);
}

Graph graph_of(const std::string& inputs, const std::string& ops, const std::string& precision = "ieee", const std::string& dims = "{}") {
  auto graph = parse_description(R"({"name": "t", "precision": ")" + precision + R"(", "inputs": {)" + inputs + R"(}, "dims": )" + dims +
                                 R"(, "ops": [)" + ops + R"(], "outputs": ["y"]})");
  if (!graph) FAIL(take_error_facts(graph.takeError()).message);
  return std::move(*graph);
}

Tolerance tolerance_of(const Graph& graph) { return default_tolerance(graph, graph.outputs()[0]); }

std::string conv_inputs(const std::string& dtype, int channels = 4) {
  const std::string c = std::to_string(channels);
  return R"("x": {"dtype": ")" + dtype + R"(", "shape": [1, )" + c + R"(, 8, 8]}, "w": {"dtype": ")" + dtype + R"(", "shape": [2, )" + c +
         R"(, 3, 3]})";
}

const char* const kConv = R"({"op": "conv", "in": ["x", "w"], "out": "y"})";

}  // namespace

TEST_CASE("verify: equal tensors pass, and the figures are those of the definition", "[autotune]") {
  const Comparison same = judged({1, -2, 0}, {1, -2, 0}, {0, 0, 0});
  CHECK(same.passed);
  CHECK(same.normwise == 0.0);
  CHECK(same.max_absolute == 0.0);
  CHECK(same.elements == 3);
  const Comparison near = judged({3, 4.5}, {3, 4}, {1, 1, 0});
  CHECK(near.passed);
  CHECK(near.normwise == 0.5 / 5.0);
  CHECK(near.max_absolute == 0.5);
  CHECK(near.max_violation == 0.5 / 4.0);
  CHECK(near.worst_index == 1);
  CHECK(near.worst_got == 4.5);
  CHECK(near.worst_want == 4.0);
}

TEST_CASE("verify: each bound alone refuses", "[autotune]") {
  CHECK(judged({1.0, 2.001}, {1, 2}, {1, 1e-3, 0}).passed);
  const Comparison beyond = judged({1.0, 2.0021, 5}, {1, 2, 5}, {1, 1e-3, 0});
  CHECK_FALSE(beyond.passed);
  CHECK(beyond.mismatches == 1);
  CHECK(beyond.special_mismatches == 0);
  CHECK(beyond.worst_index == 1);
  CHECK(beyond.max_violation > 1.0);
  // Every element within its bound, the norm not.
  const Comparison biased = judged({1.01, 1.01, 1.01}, {1, 1, 1}, {1e-3, 0.1, 0});
  CHECK(biased.mismatches == 0);
  CHECK_FALSE(biased.passed);
  // The absolute part is of the largest element.
  CHECK(judged({4.0, 0.003}, {4, 0}, {1, 0, 1e-3}).passed);
  CHECK_FALSE(judged({4.0, 0.005}, {4, 0}, {1, 0, 1e-3}).passed);
}

TEST_CASE("verify: a few huge elements do not excuse the others", "[autotune]") {
  std::vector<double> want(101, 1.0), got(101, 1.0);
  want[7] = got[7] = 1e15;
  const Tolerance tolerance{1e-3, 1e-4, 1e-6};
  CHECK(judged(got, want, tolerance).passed);
  got[50] = 2.0;  // 1e-6 of 1e15 would allow 1e9
  const Comparison comparison = judged(got, want, tolerance);
  CHECK_FALSE(comparison.passed);
  CHECK(comparison.worst_index == 50);
  // Many zeros do not make the scale zero.
  std::vector<double> sparse(101, 0.0), off(101, 0.0);
  sparse[3] = off[3] = 1.0;
  off[4] = 1e-7;
  CHECK(judged(off, sparse, tolerance).passed);
}

TEST_CASE("verify: NaN never passes where a number is wanted", "[autotune]") {
  for (std::size_t at = 0; at < 3; ++at) {
    std::vector<double> got{1, 2, 3};
    got[at] = kNaN;
    const Comparison comparison = judged(got, {1, 2, 3}, {kInf, kInf, kInf});
    CHECK_FALSE(comparison.passed);
    CHECK(comparison.special_mismatches == 1);
    CHECK(comparison.mismatches == 1);
    CHECK(comparison.normwise == kInf);
    CHECK(comparison.max_violation == kInf);
    CHECK(comparison.worst_index == static_cast<std::int64_t>(at));
  }
  CHECK_FALSE(judged({kNaN, kNaN}, {0, 0}, {kInf, kInf, kInf}).passed);
  CHECK_FALSE(judged({1.0}, {1.0}, {kNaN, 0, 0}).passed);
  CHECK_FALSE(judged({1.5}, {1.0}, {1, kNaN, 0}).passed);
  CHECK(judged({1.5}, {1.0}, {1, kNaN, 0}).max_violation == kInf);
}

TEST_CASE("verify: NaN and infinity must match in place and sign", "[autotune]") {
  CHECK(judged({kNaN, kInf, -kInf, 1}, {kNaN, kInf, -kInf, 1}).passed);
  CHECK(judged({-kNaN, 1}, {kNaN, 1}).passed);
  const struct {
    double got, want;
  } wrong[] = {{1, kNaN}, {kInf, kNaN}, {kNaN, kInf}, {-kInf, kInf}, {kInf, -kInf}, {3e38, kInf}, {kInf, 1}, {0, -kInf}};
  for (const auto& pair : wrong) {
    INFO("got " << pair.got << " wanted " << pair.want);
    const Comparison comparison = judged({1, pair.got}, {1, pair.want}, {1e3, 1e3, 1e3});
    CHECK_FALSE(comparison.passed);
    CHECK(comparison.special_mismatches == 1);
    CHECK(comparison.worst_index == 1);
  }
}

TEST_CASE("verify: what overflows the dtype is infinity in it", "[autotune]") {
  CHECK(judged({kInf, -kInf}, {1e39, -1e39}).passed);
  CHECK(judged({kInf}, {70000}, {1e-3, 1e-3, 0}, DType::kF16).passed);
  CHECK_FALSE(judged({kInf}, {70000}).passed);
  CHECK_FALSE(judged({-kInf}, {1e39}).passed);
  CHECK_FALSE(judged({kInf}, {65000}, {1e-3, 1e-3, 0}, DType::kF16).passed);
}

TEST_CASE("verify: all zeros wanted", "[autotune]") {
  CHECK(judged({0, 0}, {0, 0}, {0, 0, 0}).passed);
  CHECK_FALSE(judged({0, 1e-30}, {0, 0}).passed);
}

TEST_CASE("verify: integers and booleans exactly", "[autotune]") {
  const Tolerance exact{0, 0, 0};
  CHECK(judged({5, -3}, {5, -3}, exact, DType::kI64).passed);
  CHECK_FALSE(judged({5, -3}, {5, -2}, exact, DType::kI64).passed);
  CHECK(judged({1, 0}, {1, 0}, exact, DType::kBool).passed);
  CHECK_FALSE(judged({1, 0}, {1, 1}, exact, DType::kBool).passed);
}

TEST_CASE("verify: shapes must be equal; empty tensors are", "[autotune]") {
  ReferenceTensor want = want_of({1, 2, 3, 4});
  want.shape = {2, 2};
  const Comparison other = compare(row_of(DType::kF32, {1, 2, 3, 4}), want, {1, 1, 1});
  CHECK_FALSE(other.passed);
  CHECK(other.mismatches == 4);
  CHECK(comparison_text(other) == "shapes differ");
  CHECK(judged({}, {}, {0, 0, 0}).passed);
  ReferenceTensor empty = want_of({});
  CHECK_FALSE(compare(row_of(DType::kF32, {1}), empty, {1, 1, 1}).passed);
}

TEST_CASE("verify: a strided result is read by its strides", "[autotune]") {
  const std::int64_t shape[] = {2, 2}, strides[] = {1, 2};
  HostTensor got = HostTensor::make(DType::kF32, shape, strides);
  for (std::int64_t i = 0; i < 4; ++i) got.set(i, static_cast<double>(i));
  ReferenceTensor want = want_of({0, 1, 2, 3});
  want.shape = {2, 2};
  CHECK(compare(got, want, {0, 0, 0}).passed);
}

TEST_CASE("verify: the text says what is wrong and where", "[autotune]") {
  CHECK(comparison_text(judged({3, 4.5}, {3, 4}, {1, 1, 0})) == "normwise error 1.00e-01, largest 5.00e-01");
  const std::string text = comparison_text(judged({1, kNaN}, {1, 2}));
  CHECK(text.find("1 of 2 elements") != std::string::npos);
  CHECK(text.find("1 NaN or infinity") != std::string::npos);
  CHECK(text.find("worst at 1: got nan, wanted 2") != std::string::npos);
}

TEST_CASE("verify: default bounds follow dtype and precision", "[autotune]") {
  CHECK(tolerance_of(graph_of(conv_inputs("f32"), kConv)).normwise == 2e-6);
  CHECK(tolerance_of(graph_of(conv_inputs("f32"), kConv, "tf32x3")).normwise == 2e-6);
  CHECK(tolerance_of(graph_of(conv_inputs("f32"), kConv, "tf32")).normwise == 1e-3);
  CHECK(tolerance_of(graph_of(conv_inputs("f16"), kConv)).normwise == 2e-3);
  CHECK(tolerance_of(graph_of(conv_inputs("bf16"), kConv)).normwise == 1.6e-2);
  // Nothing is contracted: tf32 loosens nothing.
  const std::string x = R"("x": {"dtype": "f32", "shape": [4, 8]})";
  CHECK(tolerance_of(graph_of(x, R"({"op": "softmax", "in": ["x"], "out": "y", "axis": 1})", "tf32")).normwise == 2e-6);
  // The bits of an f16 input are exact; an f16 value on the way is rounded, and so is an f16 result.
  const std::string half = R"("x": {"dtype": "f16", "shape": [4, 8]})";
  CHECK(tolerance_of(graph_of(half, R"({"op": "cast", "in": ["x"], "out": "y", "dtype": "f32"})")).normwise == 2e-6);
  CHECK(tolerance_of(graph_of(half, R"({"op": "relu", "in": ["x"], "out": "y"})")).normwise == 2e-3);
  CHECK(tolerance_of(graph_of(x, R"({"op": "map", "in": ["x"], "out": "h", "expr": "x * 3", "dtype": "f16"},
                                    {"op": "cast", "in": ["h"], "out": "y", "dtype": "f32"})"))
            .normwise == 2e-3);
  const Tolerance exact = tolerance_of(graph_of(x, R"({"op": "map", "in": ["x"], "out": "y", "expr": "x > 0"})"));
  CHECK(exact.normwise == 0.0);
  CHECK(exact.relative == 0.0);
  CHECK(exact.absolute == 0.0);
}

TEST_CASE("verify: default bounds grow with the number of values summed", "[autotune]") {
  const auto sum = [](const std::string& size, const std::string& kind) {
    return tolerance_of(graph_of(R"("x": {"dtype": "f32", "shape": [2, )" + size + "]}",
                                 R"({"op": "reduce", "in": ["x"], "out": "y", "kind": ")" + kind + R"(", "axes": [1]})"))
        .normwise;
  };
  CHECK(sum("1024", "sum") == 2e-6);
  CHECK(sum("4096", "sum") == Approx(3 * 2e-6));
  CHECK(sum("4096", "mean") == Approx(3 * 2e-6));
  CHECK(sum("4096", "max") == 2e-6);
  CHECK(tolerance_of(graph_of(conv_inputs("f32", 200), kConv)).normwise == 2e-6);                            // 1800 products
  CHECK(tolerance_of(graph_of(conv_inputs("f32", 1024), kConv)).normwise == Approx(std::sqrt(4.5) * 2e-6));  // 9216
}
