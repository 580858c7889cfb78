// The JSON form of a description (docs/descriptions.md).
#pragma once

#include <cstdint>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "ops/graph.h"

namespace tilewright {

// A value for a named dimension given from outside the description (`--dim D=2560`).
struct DimValue {
  std::string name;
  std::int64_t value = 0;
};

// Parses and validates. `dims` gives values to dimensions that the description bakes in ("baked": true); entries for dimensions that stay
// open until launch are left to the caller (Graph::symbols), entries for no dimension at all are refused. Errors: malformed JSON with line
// and column, unknown key or operator with the nearest known one, and everything GraphBuilder reports, prefixed with "ops[3] (softmax): ".
llvm::Expected<Graph> parse_description(llvm::StringRef json, llvm::ArrayRef<DimValue> dims = {});

// Reads a file. Errors as above, prefixed with the path; kIo when it cannot be read.
llvm::Expected<Graph> load_description(llvm::StringRef path, llvm::ArrayRef<DimValue> dims = {});

// The canonical form: compact JSON with values renamed in a fixed order, ops in a fixed topological order, defaults filled, keys sorted,
// the name of the graph left out; precision only where an f32 contraction exists. The order of inputs and of outputs stays: it is the
// calling convention. Descriptions that mean the same give the same text.
std::string canonical_form(const Graph& graph);

// Hex BLAKE3 (32 digits) of the canonical form.
std::string signature(const Graph& graph);

}  // namespace tilewright
