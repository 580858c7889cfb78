// What llvm's JSON parser does not give: the order of keys, refusal of repeated keys, and a bound on nesting.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace tilewright {

// Keys of every object in the order written, by the path of the object: "" the whole, "inputs", "inputs.x", "ops[3]".
using JsonKeys = llvm::StringMap<std::vector<std::string>>;

// `json` need not be valid. Error: brackets nested deeper than 64 (which llvm's recursive parser has no bound for), with line and column.
llvm::Error check_json_nesting(llvm::StringRef json);

// `json` must be valid. Error: a key given twice in one object, with line and column.
llvm::Expected<JsonKeys> scan_json_keys(llvm::StringRef json);

}  // namespace tilewright
