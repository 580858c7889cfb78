// The pictures of a report. Each is a function of the view alone and "" where there is nothing to draw.
#pragma once

#include <string>

#include "autotune/report_view.h"

namespace tilewright {

// Every timed candidate by rank: median, 95 % interval and range of the samples; winner, default and floor marked.
std::string times_chart(const ReportView& view, double width);
// The fastest twelve and the default on one magnified axis: every sample, interval, tie band, and how the config differs from the winner's.
std::string finalists_chart(const ReportView& view, double width);
// One panel a parameter that varies: its values against time.
std::string parameter_panels(const ReportView& view);
// Operations a second against operations a byte, below what memory and arithmetic allow. Needs bytes, flops and both rates.
std::string roofline_chart(const ReportView& view, double width);

}  // namespace tilewright
