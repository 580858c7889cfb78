// Data for the kernels under test, the same on the CPU and on the GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/graph.h"
#include "ops/tensor.h"

namespace tilewright {

struct InputChoice {
  std::uint64_t seed = 1;         // input i gets seed + i
  double low = -1.0, high = 1.0;  // of the first input; the others, weights and biases mostly, lie in [-1/4, 1/4)
  bool special_values = false;    // NaN, infinities, denormals and large magnitudes among floating inputs, a few only, so that most results
                                  // stay finite and are still compared
};

// In the order of graph.inputs().
std::vector<HostTensor> make_test_inputs(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const InputChoice& choice);

}  // namespace tilewright
