// The reference's maps, how ops are chained, and what it refuses.
#include "tests/ops/reference_support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

AddOp map_op(const std::string& expr, std::optional<DType> dtype = std::nullopt) {
  return [=](GraphBuilder& builder, llvm::ArrayRef<ValueId> in) { return builder.map(expr, in, dtype); };
}

AddOp cast_op(DType dtype) {
  return [=](GraphBuilder& builder, llvm::ArrayRef<ValueId> in) { return builder.cast(in[0], dtype); };
}

// The element of a tensor of `shape` that is broadcast to `index` of the result.
double broadcast_at(const Sizes& shape, const std::vector<double>& values, const Sizes& index) {
  std::int64_t linear = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    linear = linear * shape[d] + (shape[d] == 1 ? 0 : index[index.size() - shape.size() + d]);
  }
  return values[static_cast<std::size_t>(linear)];
}

// x + 100 z, element by element.
std::vector<double> broadcast_sum(const Sizes& out, const Sizes& x_shape, const std::vector<double>& x, const Sizes& z_shape,
                                  const std::vector<double>& z) {
  std::vector<double> y;
  for (std::int64_t i = 0; i < count_of(out); ++i) {
    Sizes index(out.size());
    std::int64_t rest = i;
    for (std::size_t d = out.size(); d-- > 0; rest /= out[d]) index[d] = rest % out[d];
    y.push_back(broadcast_at(x_shape, x, index) + 100.0 * broadcast_at(z_shape, z, index));
  }
  return y;
}

}  // namespace

TEST_CASE("reference map: operands broadcast as in NumPy", "[ops]") {
  const struct {
    Sizes out, x, z;
  } cases[] = {
      {{2, 3}, {2, 3}, {2, 3}},
      {{2, 3}, {2, 3}, {3}},
      {{2, 3}, {2, 3}, {2, 1}},
      {{2, 3}, {2, 1}, {1, 3}},
      {{2, 3, 4, 5}, {2, 3, 4, 5}, {3, 1, 1}},
      {{2, 3, 4, 5}, {2, 1, 4, 1}, {3, 1, 5}},
      {{2, 3, 4, 5}, {1, 1, 4, 5}, {2, 3, 1, 1}},
      {{4, 1, 6}, {4, 1, 1}, {1, 6}},
      {{3}, {}, {3}},
      {{}, {}, {}},
      {{1, 1}, {1, 1}, {1}},
      {{0, 3}, {0, 3}, {3}},
      {{100, 300}, {100, 300}, {100, 1}},  // several pieces of work
      {{20000, 3}, {3}, {20000, 1}},
  };
  for (const auto& c : cases) {
    const std::vector<double> x = eighths(count_of(c.x), 1), z = eighths(count_of(c.z), 2);
    const ReferenceTensor y = reference_of({{c.x, x}, {c.z, z}}, map_op("x0 + 100 * x1"));
    CHECK(sizes_of(y) == c.out);
    check_values(y.values, broadcast_sum(c.out, c.x, x, c.z, z));
  }
}

TEST_CASE("reference map: strided and integer operands", "[ops]") {
  const std::vector<double> x = eighths(6, 3);
  check_values(reference_of({{{2, 3}, x, DType::kF32, {1, 2}}, {{3}, {1, 2, 3}, DType::kI32}}, map_op("x0 + 100 * x1")).values,
               broadcast_sum({2, 3}, {2, 3}, x, {3}, {1, 2, 3}));
  const std::vector<double> wide = eighths(15000, 4);  // pieces of work that begin within a row
  check_values(reference_of({{{3, 5000}, wide, DType::kF32, {1, 3}}}, map_op("x0 * 2 / 2")).values, wide);
  check_values(reference_of({{{3}, {7, -7, 2147483647}, DType::kI32}}, map_op("x0 / 2 + 1")).values, {4, -2, 1073741824});
  check_values(reference_of({{{2}, {2147483647, 1}, DType::kI32}}, map_op("x0 + 1")).values, {-2147483648.0, 2});
  check_values(reference_of({{{3}, {0.5, kNaN, -1}}}, map_op("x0 > 0")).values, {1, 0, 0});
}

TEST_CASE("reference map: results stay in double, casts and integers do not", "[ops]") {
  const std::vector<Input> third{{{1}, {1.0}}, {{1}, {3.0}}};
  check_values(reference_of(third, map_op("x0 / x1")).values, {1.0 / 3.0});
  check_values(reference_of(third, map_op("x0 / x1", DType::kF16)).values, {1.0 / 3.0});
  check_values(reference_of(third, map_op("x0 / x1", DType::kI32)).values, {0});
  check_values(reference_of(third, map_op("x0 / x1", DType::kBool)).values, {1});
  const std::vector<Input> fine{{{2}, {1.0 + 0x1p-11, -(1.0 + 0x1p-8)}}};  // ties of f16 and bf16
  check_values(reference_of(fine, cast_op(DType::kF16)).values, {1.0, -(1.0 + 0x1p-8)});
  check_values(reference_of(fine, cast_op(DType::kBf16)).values, {1.0, -1.0});
  check_values(reference_of(fine, cast_op(DType::kI64)).values, {1, -1});
  check_values(reference_of({{{2}, {1.0 + 0x1p-10, 65504}, DType::kF16}}, cast_op(DType::kF32)).values, {1.0 + 0x1p-10, 65504});
}

TEST_CASE("reference map: NaN propagates through min, max and relu", "[ops]") {
  const std::vector<Input> pairs{{{4}, {kNaN, 1, -kInf, 2}}, {{4}, {0, kNaN, 3, kInf}}};
  check_values(reference_of(pairs, map_op("min(x0, x1)")).values, {kNaN, kNaN, -kInf, 2});
  check_values(reference_of(pairs, map_op("max(x0, x1)")).values, {kNaN, kNaN, 3, kInf});
  check_values(reference_of({{{3}, {kNaN, -kInf, kInf}}}, map_op("relu(x0)")).values, {kNaN, 0, kInf});
}

TEST_CASE("reference: ops are chained, several outputs, intermediates in double", "[ops]") {
  GraphBuilder builder("t");
  const ValueId x = value_of(builder.input("x", DType::kF32, shape_of({2, 3})));
  const ValueId third = value_of(builder.map("x / 3", {x}));
  const ValueId total = value_of(builder.reduce(third, ReduceKind::kSum, {1}, true));
  const ValueId share = value_of(builder.named("div", {third, total}));
  const ValueId most = value_of(builder.reduce(share, ReduceKind::kMax, {0, 1}, false));
  const Graph graph = value_of(std::move(builder).build({share, total, most}));
  const auto outputs = value_of(evaluate_reference(graph, {tensor_of(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 1})}, {}));
  REQUIRE(outputs.size() == 3);
  check_values(outputs[0].values, {1.0 / 6, 2.0 / 6, 3.0 / 6, 0.4, 0.5, 0.1}, 1e-15);
  check_values(outputs[1].values, {2, 10.0 / 3}, 1e-15);
  check_values(outputs[2].values, {0.5}, 1e-15);
  CHECK(outputs[2].shape.empty());
}

TEST_CASE("reference: targets may be computed, a value may be read again later", "[ops]") {
  const Graph graph = value_of(parse_description(with_ops(
      R"({"op": "map", "in": ["t"], "out": "u", "expr": "t + 1"},
         {"op": "cross_entropy", "in": ["x", "u"], "out": "loss", "reduction": "none"},
         {"op": "map", "in": ["loss", "u"], "out": "y", "expr": "loss + 1000 * u"})",
      R"("x": {"dtype": "f32", "shape": [2, 2]}, "t": {"dtype": "i64", "shape": [2]})")));
  const auto outputs =
      value_of(evaluate_reference(graph, {tensor_of(DType::kF32, {2, 2}, {0, 1, 0, 1}), tensor_of(DType::kI64, {2}, {-1, 0})}, {}));
  const double lse = std::log(1.0 + std::exp(1.0));
  check_values(outputs[0].values, {lse, lse - 1 + 1000}, 1e-15);
}

TEST_CASE("reference: symbolic dimensions take the given sizes", "[ops]") {
  const Graph graph =
      value_of(parse_description(R"({"name": "t", "inputs": {"x": {"dtype": "f32", "shape": ["N", 2]}}, "dims": {"N": {"default": 7}},
    "ops": [{"op": "reduce", "in": ["x"], "out": "y", "kind": "sum", "axes": [0]}], "outputs": ["y"]})"));
  const HostTensor x = tensor_of(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  check_values(value_of(evaluate_reference(graph, {x}, {3}))[0].values, {9, 12});
  CHECK(error_of(evaluate_reference(graph, {x}, {})) == "reference: 0 dimensions given, 1 declared");
}

TEST_CASE("reference: inputs that are not as declared are named", "[ops]") {
  const Graph graph = value_of(parse_description(with_ops(R"({"op": "relu", "in": ["x"], "out": "y"})")));
  const auto error = [&](const std::vector<HostTensor>& inputs) { return error_of(evaluate_reference(graph, inputs, {})); };
  CHECK(error({HostTensor::make(DType::kF32, {2, 3, 8})}) == "(no error)");
  CHECK(error({HostTensor::make(DType::kF16, {2, 3, 8})}) == "input x: dtype f16 given, f32 declared");
  CHECK(error({HostTensor::make(DType::kF32, {2, 8, 3})}) == "input x: shape [2, 8, 3] given, [2, 3, 8] declared");
  CHECK(error({HostTensor::make(DType::kF32, {6})}) == "input x: shape [6] given, [2, 3, 8] declared");
  CHECK(error({}) == "reference: 0 inputs given, 1 declared");
}
