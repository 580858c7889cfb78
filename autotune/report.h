// What tunings found, as one HTML page that needs nothing else: no script, no request.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/prune.h"
#include "autotune/records.h"
#include "ops/cost.h"

namespace tilewright {

// What bounds a problem's time from below, as records keep it in their environment under "floor".
struct Floor {
  double bytes = 0, flops = 0;              // of the whole graph, every operand crossing memory once; 0: not recorded
  double bytes_per_s = 0, flops_per_s = 0;  // of the device: memory, and f32 without tensor cores; 0: not known
  double us() const;                        // bytes at the memory's bandwidth; 0: not known
};
llvm::json::Object floor_json(const Cost& cost, const DeviceRates& rates);
// Zero where the environment does not say, or says something that is no positive number.
Floor parse_floor(const llvm::json::Object& environment);

// One tuning: a record, or one that found nothing and is told all the same.
struct ReportProblem {
  RecordProblem problem;
  std::optional<ConfigOverrides> winner;
  ConfigOverrides fallback;  // what lowering chooses by itself
  std::vector<Candidate> candidates;
  std::optional<VerificationReport> verification;  // of the winner
  llvm::json::Object environment;
  std::string space, build;
};
ReportProblem report_problem(const TuningRecord& record);

// The page, in UTF-8. The same problems and notes give the same bytes; every text in them is escaped. `notes`: what the reader should know
// of the page as a whole, as files that were ignored.
std::string report_html(llvm::ArrayRef<ReportProblem> problems, llvm::ArrayRef<std::string> notes = {});

}  // namespace tilewright
