// The seed workloads of ops/descriptions at their real and at their published correctness sizes, and what only real sizes show.
#include "tests/gpu/gpu_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

Graph seed(const char* name, llvm::ArrayRef<DimValue> dims = {}) {
  return value_of(load_description(std::string(TILEWRIGHT_DESCRIPTIONS) + "/" + name + ".json", dims));
}

}  // namespace

TEST_CASE("gpu: conv3d + min + softmax at its real size", "[gpu]") {
  const Graph graph = seed("conv3d_min_softmax");
  GpuRun run;
  run.low = 0.0;
  Gpu::instance().check("conv3d_min_softmax", graph, graph.default_dims(), run);
  run.low = -3.0;
  run.high = 3.0;
  Gpu::instance().check("conv3d_min_softmax", graph, graph.default_dims(), run);
}

TEST_CASE("gpu: mean cross entropy at its real size", "[gpu]") {
  const Graph graph = seed("cross_entropy");
  GpuRun run;
  run.low = 0.0;
  run.capture = true;
  Gpu::instance().check("cross_entropy", graph, graph.default_dims(), run);
}

TEST_CASE("gpu: causal conv1d, correctness and timed sizes, through capture", "[gpu]") {
  const std::int64_t sizes[][4] = {{1, 64, 64, 4},  {2, 128, 128, 4},   {1, 256, 256, 3},   {1, 128, 64, 8},
                                   {4, 64, 128, 4}, {1, 1536, 2048, 4}, {1, 2560, 2048, 4}, {1, 2560, 4096, 4}};
  for (const auto& s : sizes) {
    const Graph graph = seed("causal_conv1d", {{"B", s[0]}, {"D", s[1]}, {"S", s[2]}, {"W", s[3]}});
    GpuRun run;
    run.capture = true;
    run.low = -3.0;
    run.high = 3.0;
    Gpu::instance().check("causal_conv1d " + std::to_string(s[1]) + "x" + std::to_string(s[2]), graph, graph.default_dims(), run);
  }
}

TEST_CASE("gpu: more than 2^31 elements", "[gpu][large]") {
  // bool keeps it at 2 GB a tensor; the reference looks at the ends alone.
  const Graph graph = graph_of(R"({"name": "large", "inputs": {"x": {"dtype": "bool", "shape": [2147483776]}},
    "ops": [{"op": "map", "in": ["x"], "out": "y", "expr": "!x"}], "outputs": ["y"]})");
  Gpu& gpu = Gpu::instance();
  CompileOptions options;
  options.device = device_model(gpu.target());
  const auto compiled = value_of(compile_program(graph, gpu.target(), gpu.builder(), options));
  const auto program = value_of(load_program(gpu.driver(), compiled));
  constexpr std::uint64_t kElements = 2147483776;
  DeviceBuffer x = value_of(DeviceBuffer::allocate(gpu.driver(), kElements)), y = value_of(DeviceBuffer::allocate(gpu.driver(), kElements));
  succeed(x.fill(0));
  succeed(y.fill(0xFF));
  succeed(program->launch({x.pointer()}, {y.pointer()}, {}, {}, nullptr));
  for (std::uint64_t at : {std::uint64_t{0}, kElements / 2, kElements - 256}) {
    std::vector<std::uint8_t> part(256);
    succeed(y.download(part, nullptr, at));
    succeed(gpu.driver().check(gpu.driver().ctx_synchronize(), "waiting"));
    CHECK(std::count(part.begin(), part.end(), 1) == 256);
  }
}

TEST_CASE("gpu: out of device memory is a typed error", "[gpu]") {
  auto buffer = DeviceBuffer::allocate(Gpu::instance().driver(), std::uint64_t{1} << 50);
  REQUIRE(!buffer);
  CHECK(take_error_facts(buffer.takeError()).status == Status::kOutOfMemory);
}

TEST_CASE("gpu: a mean over targets that are all ignored is NaN, and the workspace is left clean", "[gpu]") {
  const Graph graph =
      graph_of(R"j({"name": "ignored", "inputs": {"x": {"dtype": "f32", "shape": [700, 33]}, "m": {"dtype": "i64", "shape": [700]}},
    "ops": [{"op": "map", "in": ["m"], "out": "t", "expr": "where(m == m, -100, m)", "dtype": "i64"},
            {"op": "cross_entropy", "in": ["x", "t"], "out": "y"}], "outputs": ["y"]})j");
  Gpu::instance().check("all ignored", graph, {}, {});
}

TEST_CASE("gpu: kernels that combine the whole grid give the same bits over many launches", "[gpu][stress]") {
  const Graph graph =
      graph_of(R"({"name": "stress", "inputs": {"x": {"dtype": "f32", "shape": [4096, 1024]}, "t": {"dtype": "i64", "shape": [4096]}},
    "ops": [{"op": "cross_entropy", "in": ["x", "t"], "out": "y"}, {"op": "reduce", "in": ["x"], "out": "s", "kind": "sum", "axes": [0, 1]}],
    "outputs": ["y", "s"]})");
  for (int i = 0; i < 20; ++i) {
    GpuRun run;
    run.seed = static_cast<std::uint64_t>(i);
    run.low = 0.0;
    Gpu::instance().check("stress", graph, {}, run);
  }
}
