// Runs descriptions on the CPU and judges them by the reference.
#pragma once

#include <string>

#include "autotune/verify.h"
#include "codegen/run_on_host.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/values.h"

namespace tilewright::tests {

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
// Whether a report contains one of the alternatives of `wanted`, which bars separate: which is seen first depends on the schedule.
bool names_one_of(llvm::StringRef report, llvm::StringRef wanted);
// Compiles, runs and compares; every complaint is a failed CHECK that names `title`.
void check_on_host(const std::string& title, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const HostCase& run);

}  // namespace tilewright::tests
