// Under which conditions samples were taken (clocks, temperature, power, other work on the device), and what becomes of samples taken under
// bad ones: they are thrown away and taken again. Nothing here changes the device.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autotune/tester.h"

namespace tilewright {

enum class Trouble : std::uint8_t {
  kNone,
  kThrottled,  // the hardware or its driver lowered the clocks for heat or a failing supply
  kSlowClock,  // the multiprocessors' clock is below what this candidate's other samples had
  kBusy,       // times spread as they do when other work shares the device
};
inline constexpr std::size_t kTroubles = 4;
llvm::StringRef trouble_name(Trouble trouble);  // "throttled", "slow_clock", "busy"; "" for kNone

// Events that are there at one moment and gone at the next, for reasons that are not the candidate's. The power cap is not among them: a
// heavy kernel runs at it by nature, on every run, and then its clock must only be the same in all of its samples.
inline constexpr std::uint64_t kThrottleEvents = kHwSlowdown | kSwThermalSlowdown | kHwThermalSlowdown | kHwPowerBrake;
bool is_throttled(llvm::ArrayRef<DeviceReading> readings);

// The slowest clock of `readings` is more than 3 % below the median of `earlier_mhz`, the clocks of the same candidate's earlier samples.
// False with fewer than three of those or without clocks.
bool is_slow_clock(llvm::ArrayRef<DeviceReading> readings, llvm::ArrayRef<double> earlier_mhz);

// (largest - least) / median; 0 for fewer than three samples.
double relative_spread(llvm::ArrayRef<double> samples);

// A set of samples spreads far more than is usual here: above a quarter and above eight times the median of `usual`, the spreads of other
// candidates' sets; or, whatever is usual, by its whole median. `others`: other processes are known to be on the device, then half
// suffices.
bool is_spread_busy(double spread, llvm::ArrayRef<double> usual, bool others);

enum class Round : std::uint8_t {
  kQuiet,
  kBusy,         // many of the round's samples are far above their candidates' earlier ones
  kEarlierBusy,  // far below: the earlier ones were taken while the device was busy
};
// `ratios`: of each candidate, its sample of the round over the median of its earlier ones. Far is a tenth, and five times the median of
// `usual`, the distances from 1 in earlier rounds; many is a third, at least two. `others` as above.
Round judge_round(llvm::ArrayRef<double> ratios, llvm::ArrayRef<double> usual, bool others);

// What all readings of a tuning say together.
class ConditionsLog {
 public:
  void add(const DeviceReading& reading);         // taken while a candidate ran
  void add_others(const DeviceReading& reading);  // whose processes are those of others
  bool others() const { return others_ > 0; }
  std::size_t other_count() const { return others_; }
  // {"sm_mhz": {"low", "median", "high"}, "memory_mhz", "temperature_c", "power_w", "power_limit_w", "clock_events", "other_processes"},
  // each where it was said.
  llvm::json::Object json() const;

 private:
  std::map<std::string, std::vector<double>> values_;
  std::uint64_t events_ = 0;
  bool said_events_ = false, said_processes_ = false;
  std::size_t others_ = 0;
};

struct SteadyOptions {
  unsigned most_repeats = 3;                           // of one set of samples, or of one round
  unsigned most_in_a_row = 3;                          // sets kept in spite of trouble before repeating is given up as of no use
  std::function<void(double seconds)> wait = {};       // empty: sleeps
  std::function<bool(double wait_s)> may_repeat = {};  // false: there is no time left for it
  std::function<void(const std::string&)> say = {};    // once for each kind of trouble
};

// A tester whose samples are taken again, a few times, when they were taken under bad conditions. What could not be helped is kept and
// counted.
class SteadyTester : public CandidateTester {
 public:
  // `inner` must outlive it.
  SteadyTester(CandidateTester& inner, SteadyOptions options);
  llvm::Expected<Trial> verify(const ConfigOverrides& config) override { return inner_.verify(config); }
  llvm::Expected<Trial> time(const ConfigOverrides& config, unsigned samples) override;

  // The verdict on a round of one sample a candidate (ratios as judge_round's). kBusy: the caller throws the round away and repeats it,
  // until busy() says that it is of no use; the wait has passed on return.
  Round end_round(llvm::ArrayRef<double> ratios);
  // Other work did not end: repeating was given up.
  bool busy() const { return busy_; }
  // ConditionsLog::json(), and "repeated" and "kept": how often for which trouble.
  llvm::json::Object json() const;

 private:
  struct Counts {
    std::array<std::int64_t, kTroubles> of{};
    llvm::json::Object json() const;
  };
  Trouble judge(const ConfigOverrides& config, const TimedSamples& timed) const;
  void keep(const ConfigOverrides& config, const TimedSamples& timed);
  void say(Trouble trouble, std::uint64_t events);
  // After a while that grows with the attempts; false at once where there is no time for it.
  bool wait(Trouble trouble, unsigned attempt) const;

  CandidateTester& inner_;
  SteadyOptions options_;
  ConditionsLog log_;
  std::map<ConfigOverrides, std::vector<double>> clocks_;  // of accepted samples, MHz
  std::vector<double> spreads_;                            // of accepted sets
  std::vector<double> deviations_;                         // of accepted rounds
  Counts repeated_, kept_;
  unsigned in_a_row_ = 0;     // sets kept in spite of trouble
  unsigned busy_rounds_ = 0;  // in a row
  std::array<bool, kTroubles> said_{};
  bool busy_ = false;
};

}  // namespace tilewright
