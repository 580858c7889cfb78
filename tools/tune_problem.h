// Tunes one description on one place: its buckets, their records, what is told of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autotune/records.h"
#include "autotune/report.h"
#include "autotune/tester.h"
#include "autotune/tune_buckets.h"
#include "codegen/compile.h"
#include "tools/tune_display.h"
#include "tools/tune_jobs.h"
#include "tools/tune_place.h"

namespace tilewright::cli {

// What all tunings of one call share. References outlive them.
struct TuneSession {
  const TuneCommand& options;
  Budget budget;
  TuneDisplay& display;
  std::function<bool()> interrupted;
  unsigned compile_threads = 0;  // of one tuning; 0: one per core
};

// One bucket, or one size where the dimensions were given.
struct Tuned {
  TunedBucket tuned;
  Dims dims;  // it was tuned at
  bool whole_bucket = false;
  RecordProblem problem;
  ConfigOverrides fallback;
  std::string record_path;  // "": nothing was recorded
  ReportProblem report;
};

// `slot`: of the display. Errors of what cannot be tuned at all; that no candidate passed is no error.
llvm::Expected<std::vector<Tuned>> tune_problem(const TuneSession& session, const TuneJob& job, const Place& place, std::size_t slot);

// For people, and for programs.
std::string tuned_text(const TuneJob& job, const Tuned& tuned);
llvm::json::Object tuned_json(const TuneJob& job, const Tuned& tuned, const Place& place);

}  // namespace tilewright::cli
