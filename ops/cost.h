// Bytes and operations of an op or a graph, from shapes alone.
#pragma once

#include "ops/graph.h"

namespace tilewright {

struct Cost {
  std::uint64_t bytes = 0;  // device memory: every operand read once, every result written once
  std::uint64_t flops = 0;  // a multiply-add counts two; a transcendental one
};

// Of one op alone, at the given dimension values.
Cost op_cost(const Graph& graph, OpId op, llvm::ArrayRef<std::int64_t> dims);

// The floor of a whole graph: flops of all ops, bytes of the declared inputs and outputs only, each crossing memory once (inputs that are
// broadcast or strided count the elements they hold).
Cost graph_cost(const Graph& graph, llvm::ArrayRef<std::int64_t> dims);

}  // namespace tilewright
