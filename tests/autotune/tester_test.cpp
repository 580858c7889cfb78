#include "autotune/tester.h"

#include <chrono>
#include <csignal>
#include <thread>

#include "runtime/error.h"
#include "tests/catch.h"

using namespace tilewright;

namespace {

// A helper in shell: answers the config's "mode": 0 well, 1 crashes, 2 hangs, 3 ends, 4 talks nonsense.
const char* const kScript = R"sh(while read -r line; do case "$line" in
  *'"mode":0'*) echo '{"fate":"measured","reason":"","samples":[1.5,2.5]}';;
  *'"mode":1'*) kill -SEGV $$;;
  *'"mode":2'*) sleep 100;;
  *'"mode":3'*) exit 7;;
  *) echo nonsense;;
esac; done)sh";

HelperOptions shell() {
  HelperOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", kScript};
  options.time_limit_s = 0.5;
  return options;
}

Trial trial_of(HelperTester& tester, std::int64_t mode) {
  auto trial = tester.time({{"mode", mode}}, 2);
  if (!trial) FAIL(take_error_facts(trial.takeError()).message);
  return std::move(*trial);
}

}  // namespace

TEST_CASE("helper: a crash, a hang and an exit cost one candidate each", "[autotune]") {
  HelperTester tester(shell());
  CHECK(trial_of(tester, 0).samples_us == std::vector<double>{1.5, 2.5});
  const Trial crashed = trial_of(tester, 1);
  CHECK(crashed.fate == Fate::kCrashed);
  CHECK(crashed.reason.find("signal 11") != std::string::npos);
  CHECK(trial_of(tester, 0).fate == Fate::kMeasured);
  const auto start = std::chrono::steady_clock::now();
  const Trial hung = trial_of(tester, 2);
  CHECK(hung.fate == Fate::kTimedOut);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK(trial_of(tester, 0).fate == Fate::kMeasured);
  const Trial ended = trial_of(tester, 3);
  CHECK(ended.fate == Fate::kCrashed);
  CHECK(ended.reason.find("exit status 7") != std::string::npos);
  CHECK(trial_of(tester, 0).fate == Fate::kMeasured);
  CHECK(tester.starts() == 4);
}

TEST_CASE("helper: killed from outside, it is replaced", "[autotune]") {
  HelperTester tester(shell());
  CHECK(trial_of(tester, 0).fate == Fate::kMeasured);
  REQUIRE(tester.process() > 0);
  ::kill(tester.process(), SIGKILL);
  const Trial killed = trial_of(tester, 0);
  CHECK(killed.fate == Fate::kCrashed);
  CHECK(killed.reason.find("signal 9") != std::string::npos);
  CHECK(trial_of(tester, 0).fate == Fate::kMeasured);
}

TEST_CASE("helper: one that never answers ends the search, as does nonsense", "[autotune]") {
  HelperOptions options = shell();
  options.arguments = {"-c", "exit 3"};
  HelperTester tester(options);
  for (int i = 0; i < 3; ++i) CHECK(trial_of(tester, 0).fate == Fate::kCrashed);
  auto last = tester.time({{"mode", 0}}, 1);
  REQUIRE_FALSE(static_cast<bool>(last));
  CHECK(take_error_facts(last.takeError()).message.find("before their first answer") != std::string::npos);
  HelperTester talker(shell());
  auto nonsense = talker.time({{"mode", 9}}, 1);
  REQUIRE_FALSE(static_cast<bool>(nonsense));
  CHECK(take_error_facts(nonsense.takeError()).status == Status::kCorrupt);
  options.program = "/nonexistent/helper";
  HelperTester missing(options);
  auto none = missing.verify({});
  REQUIRE_FALSE(static_cast<bool>(none));
  CHECK(take_error_facts(none.takeError()).status == Status::kIo);
}
