#include "runtime/random.h"

#include "runtime/host/launch_state.h"
#include "tests/catch.h"

using namespace tilewright;

TEST_CASE("random: SplitMix64 gives the published numbers", "[runtime]") {
  // The sequence of seed 1234567 that test suites of other implementations use.
  constexpr std::uint64_t kWanted[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
                                       16408922859458223821u};
  std::uint64_t state = 1234567;
  for (std::uint64_t i = 0; i < std::size(kWanted); ++i) {
    CHECK(splitmix64(state) == kWanted[i]);
    CHECK(splitmix64_at(1234567, i) == kWanted[i]);
  }
  std::uint64_t zero = 0;
  CHECK(splitmix64(zero) == 0xe220a8397b1dcdafu);
}

TEST_CASE("random: a seed draws the same schedule on every machine", "[runtime]") {
  Random random(1, 2);
  CHECK(random.next() == 0x5a1e518fcfcf0d64u);
  CHECK(random.next() == 0x1a215e1f9abe2521u);
  CHECK(random.next() == 0xeb0adee8a2cbe4a4u);
  CHECK(random.below(1000) == 205);
  CHECK(random.below(1000) == 60);
}
