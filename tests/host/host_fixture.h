// Runs descriptions on the CPU and judges them by the reference.
#pragma once

#include <string>

#include "autotune/verify.h"
#include "codegen/run_on_host.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "tests/catch.h"

namespace tilewright::tests {

// The value of an Expected, or a failed test.
template <typename T>
T value_of(llvm::Expected<T> expected) {
  if (!expected) FAIL(take_error_facts(expected.takeError()).message);
  return std::move(*expected);
}

struct HostCase {
  bool fuse = true;
  std::uint64_t seed = 1;
  double low = -1.0, high = 1.0;  // of the first input; the others, weights and biases mostly, lie in [-1/4, 1/4)
  bool special_values = false;    // NaN, infinities, denormals and large magnitudes among the inputs
  std::uint32_t shift_elements = 0;
  ConfigOverrides overrides;
  std::string sanitize;  // "address,undefined": compiled so, in a process that has the sanitizers' library (see sanitizer_test.cpp)
};

// One builder, over memory alone, for the whole executable.
HostBuilder& host_builder();
// Compiles, runs and compares; every complaint is a failed CHECK that names `title`.
void check_on_host(const std::string& title, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const HostCase& run);

}  // namespace tilewright::tests
