// Bad conditions by made-up samples and readings: what is thrown away, what is kept, what is said.
#include "autotune/conditions.h"

#include <deque>

#include "runtime/error.h"
#include "tests/catch.h"

using namespace tilewright;

namespace {

DeviceReading at(unsigned mhz, std::uint64_t events = 0) {
  DeviceReading reading;
  reading.sm_mhz = mhz;
  reading.clock_events = events;
  return reading;
}

TimedSamples quiet(double us = 10, unsigned mhz = 1980) { return {{us, us * 1.002, us * 0.999}, {}, {at(mhz), at(mhz), at(mhz)}}; }
TimedSamples spread(double us = 10) { return {{us, us * 1.6, us * 1.1}, {}, {at(1980), at(1980), at(1980)}}; }

// Answers what was scripted, then quiet samples.
class Scripted : public CandidateTester {
 public:
  llvm::Expected<Trial> verify(const ConfigOverrides&) override { return Trial{}; }
  llvm::Expected<Trial> time(const ConfigOverrides&, unsigned) override {
    ++asked;
    Trial trial;
    trial.timed = script.empty() ? quiet() : script.front();
    if (!script.empty()) script.pop_front();
    return trial;
  }
  std::deque<TimedSamples> script;
  int asked = 0;
};

struct Bench {
  Bench()
      : tester(inner, {.wait = [this](double seconds) { waited_s += seconds; },
                       .may_repeat = [this](double) { return time_left; },
                       .say = [this](const std::string& text) { said.push_back(text); }}) {}
  Trial time(std::int64_t config = 0) {
    auto trial = tester.time({{"c", config}}, 3);
    if (!trial) FAIL(take_error_facts(trial.takeError()).message);
    return std::move(*trial);
  }
  std::int64_t count(llvm::StringRef what, llvm::StringRef trouble) const {
    const llvm::json::Object json = tester.json();
    return json.getObject(what)->getInteger(trouble).value_or(0);
  }
  Scripted inner;
  double waited_s = 0;
  bool time_left = true;
  std::vector<std::string> said;
  SteadyTester tester;
};

}  // namespace

TEST_CASE("conditions: heat, a failing supply and hardware slowdown are throttling; the power cap and idleness are not", "[autotune]") {
  for (ClockEvent event : {kHwSlowdown, kSwThermalSlowdown, kHwThermalSlowdown, kHwPowerBrake})
    CHECK(is_throttled({at(1980), at(1980, event)}));
  for (ClockEvent event : {kSwPowerCap, kGpuIdle, kApplicationClocks, kSyncBoost}) CHECK_FALSE(is_throttled({at(1980, event)}));
  CHECK_FALSE(is_throttled({}));
  CHECK_FALSE(is_throttled({DeviceReading{}}));
}

TEST_CASE("conditions: a clock is slow against the same candidate's other clocks, three of them at least", "[autotune]") {
  const std::vector<double> earlier{1980, 1980, 1965, 1980};
  CHECK(is_slow_clock({at(1980), at(1905)}, earlier));
  CHECK_FALSE(is_slow_clock({at(1935)}, earlier));
  CHECK_FALSE(is_slow_clock({at(1200)}, {1980, 1980}));
  CHECK_FALSE(is_slow_clock({DeviceReading{}}, earlier));
  CHECK_FALSE(is_slow_clock({at(1410)}, {1425, 1400, 1410}));  // power-capped all the time
}

TEST_CASE("conditions: a spread is judged by what is usual, by certainty, and sooner with others on the device", "[autotune]") {
  CHECK(relative_spread({10, 12, 11}) == Approx(2.0 / 11));
  CHECK(relative_spread({10, 20}) == 0);
  CHECK_FALSE(is_spread_busy(0.2, {}, false));
  CHECK(is_spread_busy(0.2, {}, true));
  CHECK(is_spread_busy(0.3, {}, false));
  const std::vector<double> noisy(8, 0.06);
  CHECK_FALSE(is_spread_busy(0.4, noisy, false));
  CHECK(is_spread_busy(0.5, noisy, false));
  CHECK(is_spread_busy(1.1, std::vector<double>(8, 0.5), false));
}

TEST_CASE("conditions: a round is busy when many of it are slow, not when one is", "[autotune]") {
  CHECK(judge_round({1, 1.3, 1, 1.01, 0.99}, {}, false) == Round::kQuiet);
  CHECK(judge_round({1, 1.3, 1, 1.2, 0.99}, {}, false) == Round::kBusy);
  CHECK(judge_round({1, 1.3, 1, 1.2, 1, 1, 1, 1}, {}, false) == Round::kQuiet);
  CHECK(judge_round({0.6, 0.7, 1}, {}, false) == Round::kEarlierBusy);
  CHECK(judge_round({1.07, 1.08}, {}, false) == Round::kQuiet);
  CHECK(judge_round({1.07, 1.08}, {}, true) == Round::kBusy);
  CHECK(judge_round({1.2, 1.2}, std::vector<double>(10, 0.05), false) == Round::kQuiet);
  CHECK(judge_round({1.3}, {}, false) == Round::kQuiet);
  CHECK(judge_round({}, {}, false) == Round::kQuiet);
}

TEST_CASE("conditions: throttled samples are thrown away and taken again, and it is said once", "[autotune]") {
  Bench bench;
  TimedSamples hot = quiet(14, 1400);
  hot.during[1].clock_events = kHwThermalSlowdown;
  bench.inner.script = {hot, hot, quiet(10)};
  CHECK(bench.time().timed.us[0] == 10);
  CHECK(bench.inner.asked == 3);
  CHECK(bench.waited_s == Approx(1.5));
  CHECK(bench.count("repeated", "throttled") == 2);
  CHECK(bench.count("kept", "throttled") == 0);
  REQUIRE(bench.said.size() == 1);
  CHECK(bench.said[0].find("hw_thermal_slowdown") != std::string::npos);
  // What was thrown away is not in the figures.
  const llvm::json::Object json = bench.tester.json();
  CHECK(json.getObject("sm_mhz")->getNumber("low") == 1980.0);
  CHECK(json.getString("clock_events") == llvm::StringRef("none"));
}

TEST_CASE("conditions: a clock below the candidate's own is repeated; another candidate may run at another clock", "[autotune]") {
  Bench bench;
  bench.inner.script = {quiet(10, 1980), quiet(20, 1500), quiet(11, 1800), quiet(10, 1980)};
  CHECK(bench.time(1).timed.us[0] == 10);
  CHECK(bench.time(2).timed.us[0] == 20);
  CHECK(bench.time(1).timed.us[0] == 10);
  CHECK(bench.inner.asked == 4);
  CHECK(bench.count("repeated", "slow_clock") == 1);
  CHECK(bench.said.empty());
}

TEST_CASE("conditions: what does not end is kept with a note, and repeating is given up", "[autotune]") {
  Bench bench;
  TimedSamples hot = quiet(14, 1400);
  for (DeviceReading& reading : hot.during) reading.clock_events = kSwThermalSlowdown;
  bench.inner.script.assign(100, hot);
  for (int i = 0; i < 10; ++i) CHECK(bench.time(i).timed.us[0] == 14);
  // Three sets of four tries, then one try each.
  CHECK(bench.inner.asked == 3 * 4 + 7);
  CHECK(bench.count("kept", "throttled") == 10);
  CHECK(bench.count("repeated", "throttled") == 9);
  CHECK_FALSE(bench.tester.busy());
  CHECK(bench.said.size() == 1);
  CHECK(bench.tester.json().getString("clock_events") == llvm::StringRef("sw_thermal_slowdown"));
  // When it ends after all, repeating is of use again.
  bench.inner.script = {quiet(), hot, quiet()};
  bench.time(50);
  CHECK(bench.time(51).timed.us[0] == 10);
}

TEST_CASE("conditions: wide spreads are other work: waited for, and what does not end ends the search", "[autotune]") {
  Bench bench;
  bench.inner.script = {spread(), spread(), quiet()};
  CHECK(bench.time().timed.us[0] == 10);
  CHECK_FALSE(bench.tester.busy());
  CHECK(bench.count("repeated", "busy") == 2);
  REQUIRE(bench.said.size() == 1);
  CHECK(bench.said[0].find("no other process is known") != std::string::npos);
  bench.inner.script.assign(100, spread());
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(bench.tester.busy());
    bench.time(i);
  }
  CHECK(bench.tester.busy());
  CHECK(bench.count("kept", "busy") == 3);
  CHECK(bench.said.size() == 1);
}

TEST_CASE("conditions: other processes are named and counted", "[autotune]") {
  Bench bench;
  TimedSamples shared = spread();
  shared.before = DeviceReading{};
  shared.before->processes = std::vector<unsigned>{7, 8};
  bench.inner.script = {shared};
  bench.time();
  REQUIRE(bench.said.size() == 1);
  CHECK(bench.said[0].find("2 other compute processes") != std::string::npos);
  CHECK(bench.tester.json().getInteger("other_processes") == 2);
}

TEST_CASE("conditions: without time nothing is repeated; without readings nothing but the spread counts", "[autotune]") {
  Bench bench;
  bench.time_left = false;
  bench.inner.script = {spread()};
  bench.time();
  CHECK(bench.inner.asked == 1);
  CHECK(bench.waited_s == 0);
  CHECK(bench.count("kept", "busy") == 1);
  Bench blind;
  blind.inner.script = {{{10, 10, 10}, {}, {}}};
  blind.time();
  CHECK(blind.inner.asked == 1);
  const llvm::json::Object json = blind.tester.json();
  CHECK(json.get("sm_mhz") == nullptr);
  CHECK(json.get("clock_events") == nullptr);
}

TEST_CASE("conditions: busy rounds are waited for, three times in a row", "[autotune]") {
  Bench bench;
  CHECK(bench.tester.end_round({1, 1, 1.01}) == Round::kQuiet);
  for (int i = 0; i < 3; ++i) {
    CHECK(bench.tester.end_round({1.5, 1.6, 1}) == Round::kBusy);
    CHECK_FALSE(bench.tester.busy());
  }
  CHECK(bench.waited_s == Approx(1 + 2 + 4));
  CHECK(bench.tester.end_round({1, 1, 1}) == Round::kQuiet);
  for (int i = 0; i < 4; ++i) CHECK(bench.tester.end_round({1.5, 1.6, 1}) == Round::kBusy);
  CHECK(bench.tester.busy());
  CHECK(bench.count("repeated", "busy") == 7);
  CHECK(bench.said.size() == 1);
}
