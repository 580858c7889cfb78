#include "tests/codegen/inputs.h"

#include <cmath>
#include <limits>

#include "llvm/ADT/STLExtras.h"

namespace tilewright {
namespace {

// Products may cancel, and the bound of an element allows for rounding errors of moderate ones alone.
double large_value(const Graph& graph, std::size_t input) {
  if (!contracts(graph)) return 1e15;
  return input == 0 ? 1e5 : 1e3;
}

void sprinkle_special_values(HostTensor& tensor, std::uint64_t seed, double large) {
  const double values[] = {std::numeric_limits<double>::quiet_NaN(), INFINITY, -INFINITY, 1e-40, -0.0, large, -large};
  const std::int64_t count = tensor.element_count();
  if (!is_floating(tensor.dtype) || count == 0) return;
  for (std::uint64_t k = 0; k < 7; ++k) {
    tensor.set(static_cast<std::int64_t>((seed * 2654435761u + k * 40503u * 97u) % static_cast<std::uint64_t>(count)), values[k]);
  }
}

}  // namespace

std::vector<HostTensor> make_test_inputs(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const InputChoice& choice) {
  std::vector<HostTensor> inputs;
  for (auto [index, id] : llvm::enumerate(graph.inputs())) {
    const std::uint64_t seed = choice.seed + index;
    inputs.push_back(random_input(graph, id, dims, seed, index == 0 ? choice.low : -0.25, index == 0 ? choice.high : 0.25));
    if (choice.special_values) sprinkle_special_values(inputs.back(), seed, large_value(graph, index));
  }
  return inputs;
}

}  // namespace tilewright
