// The judge of every kernel: each operator written from its definition, in double, with Eigen, over the same bits the kernel sees.
#pragma once

#include <vector>

#include "llvm/Support/Error.h"
#include "ops/tensor.h"

namespace tilewright {

struct ReferenceOptions {
  unsigned threads = 0;  // 0: all cores
};

// A dense double tensor, row-major.
struct ReferenceTensor {
  llvm::SmallVector<std::int64_t, 6> shape;
  std::vector<double> values;
};

// Evaluates the graph for inputs in graph.inputs() order. Intermediates stay in double, except that a value stored as an integer, a bool,
// or f16/bf16 by an explicit cast or input is what those bits say; a map or op whose dtype is f16/bf16 keeps double (the judge's tolerance
// allows for the kernel's rounding). Outputs in graph.outputs() order.
// Error: an input of another dtype or shape than declared (named, seen, wanted); a target class outside [0, C) that is not ignore_index.
llvm::Expected<std::vector<ReferenceTensor>> evaluate_reference(const Graph& graph, llvm::ArrayRef<HostTensor> inputs,
                                                                llvm::ArrayRef<std::int64_t> dims, const ReferenceOptions& options = {});

}  // namespace tilewright
