// The three ready descriptions on the CPU, scaled down.
#include "llvm/ADT/STLExtras.h"
#include "tests/host/host_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

Graph load_seed(const std::string& name, llvm::ArrayRef<DimValue> dims) {
  return value_of(load_description(std::string(TILEWRIGHT_SOURCE_DIR) + "/ops/descriptions/" + name + ".json", dims));
}

void check_seed(const std::string& name, llvm::ArrayRef<DimValue> dims) {
  std::vector<DimValue> baked;
  for (const DimValue& dim : dims) {
    if (dim.name == "D") baked.push_back(dim);
  }
  const Graph graph = load_seed(name, baked);
  llvm::SmallVector<std::int64_t, 4> sizes = graph.default_dims();
  for (auto [index, symbol] : llvm::enumerate(graph.symbols())) {
    for (const DimValue& dim : dims) {
      if (dim.name == symbol.name) sizes[index] = dim.value;
    }
  }
  check_on_host(name, graph, sizes, {});
}

}  // namespace

TEST_CASE("host: the seeds agree with the reference at small sizes", "[host]") {
  check_seed("conv3d_min_softmax", {{"N", 2}});
  check_seed("cross_entropy", {{"N", 512}});
  check_seed("causal_conv1d", {{"D", 64}, {"S", 128}});
}
