#include "ops/cost.h"
#include "ops/builder.h"
#include "tests/ops/support.h"

using namespace tilewright;
using namespace tilewright_tests;

TEST_CASE("cost: conv3d_min_softmax by hand", "[ops]") {
  const Graph graph = value_of(load_description(description_path("conv3d_min_softmax")));
  const Cost cost = graph_cost(graph, graph.default_dims());
  const std::uint64_t x = 37748736;  // 128*3*24*32*32*4
  const std::uint64_t w = 7776;      // 24*3*27*4
  const std::uint64_t b = 96;        // 24*4
  const std::uint64_t y = 11059200;  // 128*24*30*30*4
  CHECK(cost.bytes == x + w + b + y);
  const std::uint64_t conv = 9853747200;   // 2 * 128*24*22*30*30 * 3*27
  const std::uint64_t min = 60825600;      // 128*24*22*30*30
  const std::uint64_t softmax = 13824000;  // 5 * 128*24*30*30
  CHECK(cost.flops == conv + min + softmax);
  CHECK(op_cost(graph, 0, graph.default_dims()).flops == conv);
  CHECK(op_cost(graph, 0, graph.default_dims()).bytes == x + w + b + 4 * min);
  CHECK(op_cost(graph, 1, graph.default_dims()).bytes == 4 * min + y);
  CHECK(op_cost(graph, 2, graph.default_dims()).bytes == 2 * y);
  CHECK(graph_cost(graph, {1}).bytes == x / 128 + w + b + y / 128);
}

TEST_CASE("cost: cross_entropy by hand", "[ops]") {
  const Graph graph = value_of(load_description(description_path("cross_entropy")));
  const Cost cost = graph_cost(graph, graph.default_dims());
  CHECK(cost.bytes == 536870912 + 262144 + 4);  // 32768*4096*4 + 32768*8 + one f32
  CHECK(cost.flops == 4ULL * 134217728 + 3ULL * 32768);
}

TEST_CASE("cost: causal_conv1d by hand", "[ops]") {
  const Graph graph = value_of(load_description(description_path("causal_conv1d")));
  const Cost cost = graph_cost(graph, graph.default_dims());
  CHECK(cost.bytes == 2 * 12582912 + 24576 + 6144);  // x and out 1536*2048*4, weight 1536*4*4, bias 1536*4
  CHECK(cost.flops == 25165824);                     // 2 * 1536*2048 * 4
}

TEST_CASE("cost: strided and broadcast inputs count what they hold", "[ops]") {
  GraphBuilder b("t");
  const ValueId x = value_of(b.input("x", DType::kF32, {10, 20}, {0, 1}));  // one row of 20
  const ValueId s = value_of(b.input("s", DType::kF16, {10, 20}, {1, 1}));  // a window over 29
  const ValueId e = value_of(b.input("e", DType::kI64, {0, 20}, {1, 1}));
  const ValueId sum = value_of(b.map("x + s", {x, s}));
  const ValueId empty = value_of(b.map("e + 1", {e}));
  const Graph graph = value_of(std::move(b).build({sum, empty}));
  CHECK(op_cost(graph, 0, {}).bytes == 20 * 4 + 29 * 2 + 200 * 4);
  CHECK(op_cost(graph, 0, {}).flops == 200);
  CHECK(op_cost(graph, 1, {}).bytes == 0);
}

TEST_CASE("cost: a mean divides, smoothing adds a sum, casts are free", "[ops]") {
  GraphBuilder b("t");
  const ValueId x = value_of(b.input("x", DType::kF32, {10, 20}));
  const ValueId t = value_of(b.input("t", DType::kI64, {10}));
  const ValueId mean = value_of(b.reduce(x, ReduceKind::kMean, {1}, false));
  const ValueId max = value_of(b.reduce(x, ReduceKind::kMax, {1}, false));
  const ValueId loss = value_of(b.cross_entropy(x, t, {LossReduction::kMean, -100, 0.1}));
  const ValueId cast = value_of(b.cast(x, DType::kF16));
  const Graph graph = value_of(std::move(b).build({mean, max, loss, cast}));
  CHECK(op_cost(graph, 0, {}).flops == 210);
  CHECK(op_cost(graph, 1, {}).flops == 200);
  CHECK(op_cost(graph, 2, {}).flops == 5 * 200 + 30);
  CHECK(op_cost(graph, 3, {}).flops == 0);
  CHECK(op_cost(graph, 3, {}).bytes == 800 + 400);
}
