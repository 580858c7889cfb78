#include "autotune/conditions.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr double kSlowClockShare = 0.03;
constexpr std::size_t kFewestClocks = 3;
// Noise of quiet devices: kernels of a few microseconds differ by several percent from sample to sample, larger ones by a fraction of one.
// Work of others that shares the device in slices of time costs tens of percent.
constexpr double kSetSpread = 0.25, kSetFactor = 8, kSetCertain = 1.0;
constexpr double kRoundDistance = 0.10, kRoundFactor = 5;
constexpr std::size_t kFewestUsual = 5;  // before what was seen says what is usual

double median_of(llvm::ArrayRef<double> values) { return median_interval(values).median; }

// `floor`, or `factor` times what is usual where that is more.
double limit_of(llvm::ArrayRef<double> usual, double floor, double factor, bool others) {
  const double seen = usual.size() >= kFewestUsual ? factor * median_of(usual) : 0;
  return std::max(floor, seen) * (others ? 0.5 : 1.0);
}

}  // namespace

llvm::StringRef trouble_name(Trouble trouble) {
  switch (trouble) {
    case Trouble::kNone:
      return "";
    case Trouble::kThrottled:
      return "throttled";
    case Trouble::kSlowClock:
      return "slow_clock";
    case Trouble::kBusy:
      return "busy";
  }
  return "";
}

bool is_throttled(llvm::ArrayRef<DeviceReading> readings) {
  return llvm::any_of(readings, [](const DeviceReading& r) { return (r.clock_events.value_or(0) & kThrottleEvents) != 0; });
}

bool is_slow_clock(llvm::ArrayRef<DeviceReading> readings, llvm::ArrayRef<double> earlier_mhz) {
  if (earlier_mhz.size() < kFewestClocks) return false;
  const double least = median_of(earlier_mhz) * (1 - kSlowClockShare);
  return llvm::any_of(readings, [&](const DeviceReading& r) { return r.sm_mhz && *r.sm_mhz < least; });
}

double relative_spread(llvm::ArrayRef<double> samples) {
  if (samples.size() < 3) return 0;
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  return (*most - *least) / median_of(samples);
}

bool is_spread_busy(double spread, llvm::ArrayRef<double> usual, bool others) {
  return spread > std::min(limit_of(usual, kSetSpread, kSetFactor, others), kSetCertain);
}

Round judge_round(llvm::ArrayRef<double> ratios, llvm::ArrayRef<double> usual, bool others) {
  const double limit = limit_of(usual, kRoundDistance, kRoundFactor, others);
  const std::size_t many = std::max<std::size_t>(2, (ratios.size() + 2) / 3);
  const auto above = static_cast<std::size_t>(llvm::count_if(ratios, [&](double r) { return r > 1 + limit; }));
  const auto below = static_cast<std::size_t>(llvm::count_if(ratios, [&](double r) { return 1 / r > 1 + limit; }));
  if (above >= many) return Round::kBusy;
  return below >= many ? Round::kEarlierBusy : Round::kQuiet;
}

void ConditionsLog::add(const DeviceReading& reading) {
  auto note = [&](const char* name, const auto& value) {
    if (value) values_[name].push_back(static_cast<double>(*value));
  };
  note("sm_mhz", reading.sm_mhz);
  note("memory_mhz", reading.memory_mhz);
  note("temperature_c", reading.temperature_c);
  note("power_w", reading.power_w);
  note("power_limit_w", reading.power_limit_w);
  if (reading.clock_events) {
    said_events_ = true;
    events_ |= *reading.clock_events;
  }
}

void ConditionsLog::add_others(const DeviceReading& reading) {
  if (!reading.processes) return;
  said_processes_ = true;
  others_ = std::max(others_, reading.processes->size());
}

llvm::json::Object ConditionsLog::json() const {
  llvm::json::Object json;
  for (const auto& [name, values] : values_) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    json[name] = llvm::json::Object{{"low", *low}, {"median", median_of(values)}, {"high", *high}};
  }
  if (said_events_) json["clock_events"] = clock_events_text(events_);
  if (said_processes_) json["other_processes"] = static_cast<std::int64_t>(others_);
  return json;
}

llvm::json::Object SteadyTester::Counts::json() const {
  llvm::json::Object json;
  for (Trouble trouble : {Trouble::kThrottled, Trouble::kSlowClock, Trouble::kBusy}) {
    if (const std::int64_t count = of[static_cast<std::size_t>(trouble)]; count > 0) json[trouble_name(trouble)] = count;
  }
  return json;
}

SteadyTester::SteadyTester(CandidateTester& inner, SteadyOptions options) : inner_(inner), options_(std::move(options)) {}

Trouble SteadyTester::judge(const ConfigOverrides& config, const TimedSamples& timed) const {
  if (is_throttled(timed.during)) return Trouble::kThrottled;
  if (const auto found = clocks_.find(config); found != clocks_.end() && is_slow_clock(timed.during, found->second))
    return Trouble::kSlowClock;
  return is_spread_busy(relative_spread(timed.us), spreads_, log_.others()) ? Trouble::kBusy : Trouble::kNone;
}

void SteadyTester::keep(const ConfigOverrides& config, const TimedSamples& timed) {
  for (const DeviceReading& reading : timed.during) {
    log_.add(reading);
    if (reading.sm_mhz) clocks_[config].push_back(*reading.sm_mhz);
  }
}

// Clocks come back at once; heat and other work take a while.
bool SteadyTester::wait(Trouble trouble, unsigned attempt) const {
  const double seconds = (trouble == Trouble::kSlowClock ? 0.02 : 0.5) * static_cast<double>(1u << attempt);
  if (options_.may_repeat && !options_.may_repeat(seconds)) return false;
  if (options_.wait) {
    options_.wait(seconds);
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  return true;
}

void SteadyTester::say(Trouble trouble, std::uint64_t events) {
  bool& said = said_[static_cast<std::size_t>(trouble)];
  if (said || !options_.say || trouble == Trouble::kSlowClock) return;
  said = true;
  if (trouble == Trouble::kThrottled) {
    options_.say(fmt::format("the GPU lowers its clocks ({}): samples are thrown away and taken again", clock_events_text(events)));
  } else {
    options_.say(fmt::format("the times spread as if other work shared the GPU ({}): samples are thrown away and taken again",
                             log_.others() ? fmt::format("{} other compute processes are on it", log_.other_count())
                                           : std::string("no other process is known")));
  }
}

llvm::Expected<Trial> SteadyTester::time(const ConfigOverrides& config, unsigned samples) {
  for (unsigned attempt = 0;; ++attempt) {
    auto trial = inner_.time(config, samples);
    if (!trial || trial->fate != Fate::kMeasured) return trial;
    if (trial->timed.before) log_.add_others(*trial->timed.before);
    const Trouble trouble = judge(config, trial->timed);
    if (trouble == Trouble::kNone) {
      in_a_row_ = 0;
      if (samples >= 3) spreads_.push_back(relative_spread(trial->timed.us));
      keep(config, trial->timed);
      return trial;
    }
    std::uint64_t events = 0;
    for (const DeviceReading& reading : trial->timed.during) events |= reading.clock_events.value_or(0) & kThrottleEvents;
    // One set of a short kernel may spread by itself now and then.
    if (trouble != Trouble::kBusy || attempt > 0 || log_.others()) say(trouble, events);
    if (attempt < options_.most_repeats && in_a_row_ < options_.most_in_a_row && wait(trouble, attempt)) {
      ++repeated_.of[static_cast<std::size_t>(trouble)];
      continue;
    }
    ++kept_.of[static_cast<std::size_t>(trouble)];
    if (++in_a_row_ >= options_.most_in_a_row && trouble == Trouble::kBusy) busy_ = true;
    keep(config, trial->timed);
    return trial;
  }
}

Round SteadyTester::end_round(llvm::ArrayRef<double> ratios) {
  const Round round = judge_round(ratios, deviations_, log_.others());
  if (round == Round::kQuiet) {
    busy_rounds_ = 0;
    for (double ratio : ratios) deviations_.push_back(std::abs(ratio - 1));
    return round;
  }
  say(Trouble::kBusy, 0);
  ++repeated_.of[static_cast<std::size_t>(Trouble::kBusy)];
  if (round == Round::kEarlierBusy) return round;
  if (++busy_rounds_ > options_.most_repeats) {
    busy_ = true;
  } else {
    wait(Trouble::kBusy, busy_rounds_);
  }
  return round;
}

llvm::json::Object SteadyTester::json() const {
  llvm::json::Object json = log_.json();
  json["repeated"] = repeated_.json();
  json["kept"] = kept_.json();
  return json;
}

}  // namespace tilewright
