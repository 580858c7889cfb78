#include "autotune/timer.h"

#include "runtime/error.h"
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

TEST_CASE("timer: differences are over the runs, and work that cannot be told from nothing is refused", "[autotune]") {
  auto timing = summarize_differences({101.0, 103.0}, {1.0, 1.0}, 100);
  REQUIRE(static_cast<bool>(timing));
  CHECK(timing->mean_us == Approx(1010.0));
  CHECK(timing->runs_per_sample == 100);
  // One sample may be lost in the noise, their mean may not.
  auto noisy = summarize_differences({1.1, 0.9, 1.2}, {1.0, 1.0, 1.0}, 10);
  REQUIRE(static_cast<bool>(noisy));
  CHECK(noisy->min_us < 0);
  for (double together : {0.9, 1.0}) {
    auto none = summarize_differences({together, together}, {1.0, 1.0}, 10);
    REQUIRE_FALSE(static_cast<bool>(none));
    const ErrorFacts facts = take_error_facts(none.takeError());
    CHECK(facts.status == Status::kUnsupported);
    CHECK(facts.message.find("kernelbench") != std::string::npos);
  }
}

TEST_CASE("timer: the geometric mean of the cases is the score", "[autotune]") {
  CHECK(geometric_mean({1.0, 8.0, 27.0}) == Approx(6.0));
  CHECK(geometric_mean({}) == 0.0);
}
