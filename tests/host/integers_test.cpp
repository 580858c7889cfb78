// Integers wrap in every kernel, as docs/descriptions.md says; in C++ they would not.
#include <fmt/format.h>

#include "tests/host/host_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

TEST_CASE("host: integer arithmetic wraps", "[host]") {
  for (const char* dtype : {"i32", "i64"}) {
    for (const char* expr : {"max(x - z, 3) * 1000000007 * 1000000007", "(x + 2147483647) + 2147483647 + z", "abs(x - 2147483647 - 1) - z",
                             "-(x - 2147483647 - 1 - z * 0)", "(x * 0 - 2147483647 - 1) / (z * 0 - 1)"}) {
      const std::string json = fmt::format(
          R"j({{"name": "wrap", "inputs": {{"x": {{"dtype": "{0}", "shape": [5, 33]}}, "z": {{"dtype": "{0}", "shape": [33]}}}},
               "ops": [{{"op": "map", "in": ["x", "z"], "out": "y", "expr": "{1}"}}], "outputs": ["y"]}})j",
          dtype, expr);
      check_on_host(json, value_of(parse_description(json)), {}, {});
    }
    const std::string json = fmt::format(
        R"j({{"name": "wrap", "inputs": {{"x": {{"dtype": "{0}", "shape": [33, 700]}}}},
             "ops": [{{"op": "map", "in": ["x"], "out": "big", "expr": "x * 0 + 2147483647"}},
                     {{"op": "reduce", "in": ["big"], "out": "y", "kind": "sum", "axes": [1]}}], "outputs": ["y"]}})j",
        dtype);
    check_on_host(json, value_of(parse_description(json)), {}, {});
  }
}
