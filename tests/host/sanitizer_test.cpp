// Kernels under the compiler's own sanitizers. Their library must be the first in a process and ends it at the first finding, so each part
// of the work is a hidden test case, which another process of this executable runs.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "fmt/format.h"
#include "runtime/host/process.h"
#include "tests/host/host_fixture.h"
#include "tests/host/planted.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

constexpr const char* kSanitizers = "address,undefined";
constexpr const char* kBugNumber = "TILEWRIGHT_TEST_PLANTED";

struct SanitizerBug {
  const char* name;
  const char* setup;  // statements; `zero` is a zero that no compiler knows
  const char* value;  // stored to out[i]
  const char* complaint;
};
constexpr SanitizerBug kSanitizerBugs[] = {
    {"index arithmetic that overflows", "const int step = zero + (BUG ? 0x40000000 : 1);", "in[(i + 1) * step & 63]",
     "signed integer overflow"},
    {"sum of indices that overflows", "const int base = zero + 0x7fffffff - 63;", "in[base + i + BUG & 63]", "signed integer overflow"},
    {"shift as wide as its operand", "const int width = zero + BUG * 32;", "in[i] << width", "shift exponent 32 is too large"},
    {"shift by less than nothing", "const int width = zero - BUG;", "in[i] >> width", "shift exponent -1 is negative"},
    {"index past a local array", "int local[4]; for (int k = 0; k < 4; ++k) local[k] = in[i] + k;", "local[(i & 3) + BUG]",
     "index 4 out of bounds for type 'int [4]'"},
    {"pointer past a local array",
     "volatile int local[4]; for (int k = 0; k < 4; ++k) local[k] = in[i] + k; const volatile int* volatile p = local;", "p[(i & 3) + BUG]",
     "stack-buffer-overflow"},
    {"local variable after its end",
     "volatile int outer = in[i]; const volatile int* p = &outer; { volatile int inner = in[i]; if (BUG) p = &inner; }", "*p",
     "stack-use-after-scope"},
    {"division by zero", "const int divisor = zero + 1 - BUG;", "in[i] / divisor", "division by zero"},
    {"reading through a pointer that is not aligned",
     "alignas(8) u32 four[4] = {static_cast<u32>(in[i]), 0, 0, 0}; const u32* p = four + zero + BUG;", "*reinterpret_cast<const u64*>(p)",
     "misaligned address"},
    {"boolean that is neither", "const u8 byte = static_cast<u8>(zero + BUG * 2); bool flag; __builtin_memcpy(&flag, &byte, 1);",
     "flag ? 1 : 0", "not a valid value for type 'bool'"},
};

// Written by plain assignments, which the executor does not see in this mode, and read by primitives, which it sees.
std::string run_bug(const SanitizerBug& bug, bool with_bug) {
  const std::string body = fmt::format(
      "const int zero = in[i] - 100 - i; {}\n"
      "__shared__ int s[64]; s[i] = static_cast<int>({}); out[i] = atomicAdd(s + i, 0); out[i] = atomicAdd(out + i, 0);",
      bug.setup, bug.value);
  return run_planted({bug.name, body.c_str(), bug.complaint}, with_bug, 1, kSanitizers);
}

// A test case of this executable, sanitizers loaded.
ProcessOutput run_sanitized(const std::string& test_case, const std::string& bug_number = "") {
  const HostCompiler compiler = value_of(host_builder().compiler());
  const std::string runtime = compiler.sanitizer_runtime();
  INFO(compiler.identity() << " has no shared library of its address sanitizer");
  REQUIRE(!runtime.empty());
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string preload = "LD_PRELOAD=" + runtime, bug = std::string(kBugNumber) + "=" + bug_number;
  return value_of(run_process("env", {preload, "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0",
                                      "UBSAN_OPTIONS=print_stacktrace=1", bug, self, test_case}));
}

void check_clean(const std::string& test_case) {
  const ProcessOutput output = run_sanitized(test_case);
  const auto [before, plan] = llvm::StringRef(output.text).split("host plan");
  if (!plan.empty()) std::printf("host plan%s\n", plan.split('\n').first.str().c_str());
  INFO(output.text);
  CHECK(output.status == 0);
  CHECK(llvm::StringRef(output.text).contains("All tests passed"));
}

}  // namespace

TEST_CASE("sanitizers: a planted bug", "[.sanitized]") {
  const char* const number = std::getenv(kBugNumber);
  REQUIRE(number != nullptr);
  const std::string report = run_bug(kSanitizerBugs[std::strtoul(number, nullptr, 10) % std::size(kSanitizerBugs)], true);
  // Not reached by a process that the sanitizers have ended.
  FAIL("not found by the sanitizers: " << report);
}

TEST_CASE("sanitizers: planted bugs' twins", "[.sanitized]") {
  for (const SanitizerBug& bug : kSanitizerBugs) {
    INFO(bug.name);
    CHECK(run_bug(bug, false) == "");
  }
}

TEST_CASE("sanitizers: every bug inside a kernel is reported with its line", "[host]") {
  for (std::size_t i = 0; i < std::size(kSanitizerBugs); ++i) {
    const ProcessOutput output = run_sanitized("sanitizers: a planted bug", std::to_string(i));
    INFO(kSanitizerBugs[i].name << ":\n" << output.text);
    CHECK(output.status != 0);
    CHECK(llvm::StringRef(output.text).contains(kSanitizerBugs[i].complaint));
    CHECK(llvm::StringRef(output.text).contains("kernel.cu:"));
  }
}

TEST_CASE("sanitizers: the same kernels without their bug are good", "[host]") { check_clean("sanitizers: planted bugs' twins"); }
TEST_CASE("sanitizers: plan over all templates, part 1", "[host]") { check_clean("host: sanitized plan over all templates 1"); }
TEST_CASE("sanitizers: plan over all templates, part 2", "[host]") { check_clean("host: sanitized plan over all templates 2"); }
TEST_CASE("sanitizers: plan over all templates, part 3", "[host]") { check_clean("host: sanitized plan over all templates 3"); }
TEST_CASE("sanitizers: plan over all templates, part 4", "[host]") { check_clean("host: sanitized plan over all templates 4"); }
