#include "runtime/target.h"

#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

TEST_CASE("target: every known name comes back from its target", "[runtime]") {
  for (const llvm::StringRef name : known_target_names()) {
    CAPTURE(name.str());
    CHECK(must(parse_target(name)).name() == name.str());
  }
}

TEST_CASE("target: parts of a name", "[runtime]") {
  CHECK(must(parse_target("sm_90a")) == Target{9, 0, true, false});
  CHECK(must(parse_target("sm_100a")) == Target{10, 0, true, false});
  CHECK(must(parse_target("sm_80")) == Target{8, 0, false, false});
  CHECK(must(parse_target("compute_90")) == Target{9, 0, false, true});
}

TEST_CASE("target: an unknown name is refused with the known ones", "[runtime]") {
  for (const char* name : {"", "sm_", "sm_75", "sm_90b", "sm_900", "SM_90a", "sm_90a ", "90", "compute_90a", "sm_-90"}) {
    CAPTURE(name);
    const ErrorFacts facts = failure_of(parse_target(name));
    CHECK(facts.status == Status::kInvalidArgument);
    CHECK(contains(facts.message, "sm_100a"));
  }
  CHECK(contains(failure_of(parse_target("sm_90b")).message, "did you mean"));
}

TEST_CASE("target: a list has no repeats and fails as a whole", "[runtime]") {
  const auto targets = must(parse_targets("sm_90a, sm_100a,sm_90a"));
  REQUIRE(targets.size() == 2);
  CHECK(targets[1].name() == "sm_100a");
  CHECK(failure_of(parse_targets("sm_90a,,sm_80")).status == Status::kInvalidArgument);
}

TEST_CASE("target: devices get their own", "[runtime]") {
  CHECK(must(target_of_device(9, 0)).name() == "sm_90a");
  CHECK(must(target_of_device(10, 0)).name() == "sm_100a");
  CHECK(must(target_of_device(8, 6)).name() == "sm_86");
  CHECK(must(target_of_device(12, 0)).name() == "sm_120");
  CHECK(failure_of(target_of_device(7, 5)).status == Status::kUnsupported);
}

TEST_CASE("target: a device newer than the compiler gets PTX and a note", "[runtime]") {
  LogCapture capture;
  CHECK(must(target_of_device(13, 2)).name() == "compute_121");
  CHECK(capture.contains("13.2"));
  CHECK(must(target_of_device(10, 0, {80, 86, 89, 90})).name() == "compute_90");
  // Between two known ones: never PTX of a newer architecture.
  CHECK(must(target_of_device(8, 9, {80, 86, 90})).name() == "compute_86");
  CHECK(failure_of(target_of_device(9, 0, {75, 120})).status == Status::kUnsupported);
}
