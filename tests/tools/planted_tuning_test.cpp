#include "tests/catch.h"
#include "tests/planted/planted_search.h"

using namespace tilewright;

TEST_CASE("tuning: planted candidates end by themselves, are named, and the winner stays (CPU)", "[autotune]") {
  tests::check_planted_search(tests::Place::kHost, Target{}, TILEWRIGHT_PLANTED_HELPER);
}
