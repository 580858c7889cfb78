// What the tests of ops/ share.
#pragma once

#include <cstdlib>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/values.h"

namespace tilewright_tests {

using tilewright::tests::value_of;

template <typename T>
std::string error_of(llvm::Expected<T> value) {
  if (!value) return llvm::toString(value.takeError());
  return "(no error)";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// `text` with the first `from` replaced by `to`; fails the test when `from` is not there.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  INFO("looking for " << from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

inline std::string description_path(const std::string& name) {
  return std::string(TILEWRIGHT_SOURCE_DIR) + "/ops/descriptions/" + name + ".json";
}

// A description with one input x [2, 3, 8] f32 beside `inputs`, and the ops given; output y.
inline std::string with_ops(const std::string& ops, const std::string& inputs = R"("x": {"dtype": "f32", "shape": [2, 3, 8]})",
                            const std::string& dims = "{}") {
  return R"({"name": "t", "inputs": {)" + inputs + R"(}, "dims": )" + dims + R"(, "ops": [)" + ops + R"(], "outputs": ["y"]})";
}

inline std::string signature_of(const std::string& json) { return tilewright::signature(value_of(tilewright::parse_description(json))); }

}  // namespace tilewright_tests
