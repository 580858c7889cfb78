// Made-up tunings for tests of the report: ordinary ones, large ones, and what goes wrong.
#pragma once

#include <string>

#include "autotune/report.h"

namespace tilewright_tests {

// `count` candidates over eleven parameters; every tenth or so fails, in every way there is. The first is the default. Seeded.
tilewright::ReportProblem many_candidates(std::size_t count);
// A default that wins, being alone.
tilewright::ReportProblem one_candidate();
// Every candidate failed; no winner.
tilewright::ReportProblem all_failed();
// No candidate at all, no environment.
tilewright::ReportProblem nothing_tried();
// Names, reasons and environment full of markup, quotes, control characters and broken UTF-8; times and errors that are not finite.
tilewright::ReportProblem hostile();
// Two candidates, the winner at the default's very time, the floor just below: labels want the same place.
tilewright::ReportProblem crowded_labels();

// A fast and a slow candidate of a problem with that many operations a byte.
tilewright::ReportProblem with_intensity(double flops_per_byte);

}  // namespace tilewright_tests
