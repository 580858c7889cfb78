// One tuning as the pictures and tables of a report need it.
#pragma once

#include "autotune/report.h"

namespace tilewright {

// A verified candidate with at least one time.
struct TimedCandidate {
  const Candidate* candidate = nullptr;
  std::vector<double> samples;  // finite and above zero
  Interval time;
  std::size_t rank = 1;  // 1: the fastest median
  bool winner = false, fallback = false;
};

struct ReportView {
  const ReportProblem* source = nullptr;  // outlives the view
  std::vector<TimedCandidate> timed;      // the fastest first, equals by config
  std::vector<const Candidate*> untimed;  // by fate, reason and config
  std::vector<std::string> varying;       // parameters of which the candidates have more than one value, by name
  Floor floor;
  const TimedCandidate* winner() const;    // null: there is none
  const TimedCandidate* fallback() const;  // null: not timed
};
ReportView view_of(const ReportProblem& problem);

// "12.3 us", "4.56 ms", "1.20 s", "850 ns" from microseconds.
std::string duration_text(double us);
// "4.80 TB/s", "66.9 TFLOP/s": a rate a second with the prefix that suits it.
std::string rate_text(double per_s, llvm::StringRef unit);
// {"block_threads 128", "line 1"}: parameters of a config, by name; those in which it differs from `base` where one is given.
std::vector<std::string> config_words(const ConfigOverrides& config, const ConfigOverrides* base = nullptr);
// One line: config_words() with commas, "the same" where nothing differs.
std::string config_line(const ConfigOverrides& config, const ConfigOverrides* base = nullptr);
// "12.3 us [12.1, 12.6]"
std::string interval_text(const Interval& time);

// "1.2e-07", "0", "not finite"
std::string error_text(double normwise);

// The unit that suits a time, for axes and tables in one unit.
struct TimeUnit {
  double us = 1;  // microseconds in one
  llvm::StringRef name = "us";
};
TimeUnit time_unit(double us);

}  // namespace tilewright
