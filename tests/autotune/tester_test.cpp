#include "autotune/tester.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/scratch.h"

using namespace tilewright;

namespace {

// A helper in shell: answers the config's "mode": 0 well, 1 crashes, 2 hangs, 3 ends, 4 talks nonsense.
const char* const kScript = R"sh(echo '{"ready":true}'; while read -r line; do case "$line" in
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
  CHECK(trial_of(tester, 0).timed.us == std::vector<double>{1.5, 2.5});
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

TEST_CASE("helper: one that cannot begin is tried again, then the machine lacks something", "[autotune]") {
  HelperOptions options = shell();
  options.pause_s = 0.001;
  options.arguments = {"-c", "exit 3"};
  HelperTester tester(options);
  auto trial = tester.time({{"mode", 0}}, 1);
  REQUIRE_FALSE(static_cast<bool>(trial));
  const ErrorFacts ended = take_error_facts(trial.takeError());
  CHECK(ended.status == Status::kMissing);
  CHECK(ended.message.find("exit status 3") != std::string::npos);
  CHECK(tester.starts() == 3);
  options.arguments = {"-c", R"sh(echo '{"error":"CUDA_ERROR_DEVICE_UNAVAILABLE"}'; cat)sh"};
  HelperTester refused(options);
  auto none = refused.verify({});
  REQUIRE_FALSE(static_cast<bool>(none));
  CHECK(take_error_facts(none.takeError()).message.find("CUDA_ERROR_DEVICE_UNAVAILABLE") != std::string::npos);
  options.arguments = {"-c", "sleep 100"};
  options.start_limit_s = 0.05;
  options.most_failed_starts = 1;
  HelperTester silent(options);
  auto late = silent.verify({});
  REQUIRE_FALSE(static_cast<bool>(late));
  CHECK(take_error_facts(late.takeError()).status == Status::kMissing);
}

TEST_CASE("helper: one that cannot begin once is no loss", "[autotune]") {
  const tests::ScratchDirectory scratch;
  HelperOptions options = shell();
  options.pause_s = 0.001;
  options.arguments = {"-c", fmt::format("if mkdir {} 2>/dev/null; then exit 1; fi; {}", scratch.path("second"), kScript)};
  HelperTester tester(options);
  CHECK(trial_of(tester, 0).fate == Fate::kMeasured);
  CHECK(tester.starts() == 2);
}

TEST_CASE("helper: after a crash a fresh one must begin before the candidate is blamed", "[autotune]") {
  const tests::ScratchDirectory scratch;
  HelperOptions options = shell();
  options.pause_s = 0.001;
  // The first helper works; the device is lost when its candidate crashes.
  options.arguments = {"-c", fmt::format("if ! mkdir {} 2>/dev/null; then echo '{{\"error\":\"no device\"}}'; exit; fi; {}",
                                         scratch.path("first"), kScript)};
  HelperTester tester(options);
  CHECK(trial_of(tester, 0).fate == Fate::kMeasured);
  auto lost = tester.time({{"mode", 1}}, 1);
  REQUIRE_FALSE(static_cast<bool>(lost));
  const ErrorFacts facts = take_error_facts(lost.takeError());
  CHECK(facts.status == Status::kMissing);
  CHECK(facts.message.find("no device") != std::string::npos);
  CHECK(facts.message.find("signal 11") != std::string::npos);
}

TEST_CASE("helper: nonsense and a program that is not there end the search", "[autotune]") {
  HelperOptions options = shell();
  HelperTester talker(options);
  auto nonsense = talker.time({{"mode", 9}}, 1);
  REQUIRE_FALSE(static_cast<bool>(nonsense));
  CHECK(take_error_facts(nonsense.takeError()).status == Status::kCorrupt);
  options.arguments = {"-c", "echo hello; cat"};
  HelperTester stranger(options);
  auto greeted = stranger.verify({});
  REQUIRE_FALSE(static_cast<bool>(greeted));
  CHECK(take_error_facts(greeted.takeError()).status == Status::kCorrupt);
  options.program = "/nonexistent/helper";
  HelperTester missing(options);
  auto none = missing.verify({});
  REQUIRE_FALSE(static_cast<bool>(none));
  CHECK(take_error_facts(none.takeError()).status == Status::kIo);
}

TEST_CASE("helper: what the device said travels with the samples", "[autotune]") {
  // A helper in this process, over a pipe: what serve_tester writes is what HelperTester reads.
  class Reading : public CandidateTester {
    llvm::Expected<Trial> verify(const ConfigOverrides&) override { return Trial{}; }
    llvm::Expected<Trial> time(const ConfigOverrides&, unsigned samples) override {
      Trial trial;
      trial.timed.us.assign(samples, 2.5);
      trial.timed.before = DeviceReading{};
      trial.timed.before->processes = std::vector<unsigned>{41};
      trial.timed.before->busy_percent = 7;
      DeviceReading during;
      during.sm_mhz = 1980, during.memory_mhz = 3201, during.temperature_c = 60, during.power_w = 650.5, during.power_limit_w = 700;
      during.clock_events = kSwPowerCap;
      trial.timed.during = {during, DeviceReading{}};
      return trial;
    }
  } inner;
  const tests::ScratchDirectory scratch;
  const std::string requests = scratch.write("in", R"j({"do": "time", "config": {}, "samples": 2})j"
                                                   "\n");
  const int in = ::open(requests.c_str(), O_RDONLY), out = ::open(scratch.path("out").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(in >= 0);
  REQUIRE(out >= 0);
  CHECK_FALSE(static_cast<bool>(serve_tester(inner, in, out)));
  ::close(in);
  ::close(out);
  HelperOptions options;
  options.program = "/bin/cat";
  options.arguments = {scratch.path("out"), "-"};
  HelperTester tester(options);
  const Trial trial = trial_of(tester, 0);
  REQUIRE(trial.timed.before.has_value());
  CHECK(trial.timed.before->processes == std::vector<unsigned>{41});
  CHECK(trial.timed.before->busy_percent == 7u);
  REQUIRE(trial.timed.during.size() == 2);
  const DeviceReading& during = trial.timed.during[0];
  CHECK(during.sm_mhz == 1980u);
  CHECK(during.memory_mhz == 3201u);
  CHECK(during.temperature_c == 60u);
  CHECK(during.power_w == 650.5);
  CHECK(during.power_limit_w == 700.0);
  CHECK(during.clock_events == std::uint64_t{kSwPowerCap});
  CHECK_FALSE(trial.timed.during[1].sm_mhz.has_value());
}
