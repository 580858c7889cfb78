// Descriptions as graphs.
#pragma once

#include <string>

#include "ops/json.h"
#include "tests/values.h"

namespace tilewright::tests {

// The graph of a description, or a failed test.
inline Graph graph_of(const std::string& json, llvm::ArrayRef<DimValue> dims = {}) {
  INFO(json);
  return value_of(parse_description(json, dims));
}

}  // namespace tilewright::tests
