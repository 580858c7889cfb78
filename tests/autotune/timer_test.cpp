#include "autotune/timer.h"

#include "tests/catch.h"

using namespace tilewright;

TEST_CASE("timer: statistics of samples", "[autotune]") {
  auto timing = summarize({4.0, 1.0, 3.0, 2.0});
  REQUIRE(static_cast<bool>(timing));
  CHECK(timing->samples == 4);
  CHECK(timing->mean_us == Approx(2.5));
  CHECK(timing->std_us == Approx(1.2909944487));  // sqrt(5 / 3)
  CHECK(timing->median_us == 2.0);
  CHECK(timing->min_us == 1.0);
}

TEST_CASE("timer: one sample has no deviation, none is an error", "[autotune]") {
  auto one = summarize({7.0});
  REQUIRE(static_cast<bool>(one));
  CHECK(one->std_us == 0.0);
  CHECK(one->median_us == 7.0);
  auto none = summarize({});
  CHECK_FALSE(static_cast<bool>(none));
  llvm::consumeError(none.takeError());
}

TEST_CASE("timer: the geometric mean of the cases is the score", "[autotune]") {
  CHECK(geometric_mean({1.0, 8.0, 27.0}) == Approx(6.0));
  CHECK(geometric_mean({}) == 0.0);
}
