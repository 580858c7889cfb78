// Checks of asynchronous copies, mbarriers, clusters and wgmma, each proved by a bug that must be seen and by the same kernel without it.
#include "tests/host/async_planted.h"
#include "tests/host/host_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

constexpr std::uint64_t kSeeds = 8;

void check_all(llvm::ArrayRef<AsyncPlanted> all) {
  for (const AsyncPlanted& planted : all) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      INFO(planted.name << ", seed " << seed);
      CHECK(run_async_planted(planted, false, seed) == "");
      const std::string report = run_async_planted(planted, true, seed);
      INFO("with the bug: " << (report.empty() ? "nothing reported" : report));
      CHECK(names_one_of(report, planted.complaint));
    }
  }
}

}  // namespace

TEST_CASE("planted: asynchronous copies, mbarriers and clusters", "[host]") { check_all(async_planted_bugs()); }
TEST_CASE("planted: wgmma", "[host]") { check_all(wgmma_planted_bugs()); }
