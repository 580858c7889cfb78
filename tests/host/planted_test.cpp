// Every check of the executor, proved by a bug that it must see and by the same kernel without it.
#include "tests/host/planted.h"
#include "tests/host/host_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

constexpr std::uint64_t kSeeds = 4;

}  // namespace

TEST_CASE("planted: every bug is reported, whatever the schedule", "[host]") {
  for (const Planted& planted : planted_bugs()) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const std::string report = run_planted(planted, true, seed);
      INFO(planted.name << ", seed " << seed << ": " << (report.empty() ? "nothing reported" : report));
      CHECK(names_one_of(report, planted.complaint));
    }
  }
}

TEST_CASE("planted: the same kernels without their bug are good", "[host]") {
  for (const Planted& planted : planted_bugs()) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      INFO(planted.name << ", seed " << seed);
      CHECK(run_planted(planted, false, seed) == "");
    }
  }
}

TEST_CASE("planted: a report names kernel, block, thread, element and line", "[host]") {
  const std::string report = run_planted(planted_bugs()[0], true, 1);
  INFO(report);
  CHECK(
      llvm::StringRef(report).starts_with("kernel planted, block (0, 0, 0), thread (63, 0, 0): out of bounds: read of 4 bytes at in[64]"));
  CHECK(llvm::StringRef(report).contains("\n  at kernel.cu:16 in planted"));
}
