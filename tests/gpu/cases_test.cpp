// Every description of tests/codegen/cases.cpp on the card.
#include "tests/codegen/cases.h"
#include "tests/gpu/gpu_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

// The defaults, every dimension at its least, and odd values in between.
std::vector<llvm::SmallVector<std::int64_t, 4>> dim_choices(const Graph& graph) {
  std::vector<llvm::SmallVector<std::int64_t, 4>> choices{graph.default_dims()};
  if (graph.symbols().empty()) return choices;
  llvm::SmallVector<std::int64_t, 4> least, odd;
  for (const Symbol& symbol : graph.symbols()) {
    least.push_back(symbol.min);
    odd.push_back(std::min(symbol.max, std::max(symbol.min, symbol.default_value * 2 + 1)));
  }
  choices.push_back(least);
  choices.push_back(odd);
  return choices;
}

template <typename Change>
void check_all(Change change) {
  for (const DescriptionCase& c : description_cases()) {
    const Graph graph = graph_of(c.json);
    for (const auto& dims : dim_choices(graph)) {
      GpuRun run;
      run.fuse = !c.unfused;
      change(run);
      if (run.fuse) run.overrides = c.config;
      Gpu::instance().check(c.name, graph, dims, run);
    }
  }
}

}  // namespace

TEST_CASE("gpu: every case agrees with the reference", "[gpu]") {
  check_all([](GpuRun&) {});
}

TEST_CASE("gpu: every case agrees on other data, from misaligned pointers", "[gpu]") {
  check_all([](GpuRun& run) {
    run.seed = 4711;
    run.low = -3.0;
    run.high = 3.0;
    run.shift_elements = 1;
  });
}

TEST_CASE("gpu: NaN, infinities, denormals and large values come out where they belong", "[gpu]") {
  check_all([](GpuRun& run) {
    run.seed = 99;
    run.special_values = true;
  });
}

TEST_CASE("gpu: one kernel per op gives the same results", "[gpu]") {
  check_all([](GpuRun& run) {
    run.seed = 7;
    run.fuse = false;
  });
}

TEST_CASE("gpu: captured graphs replay every case", "[gpu]") {
  check_all([](GpuRun& run) {
    run.seed = 12;
    run.capture = true;
  });
}
