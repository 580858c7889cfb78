// Pieces of a report's page that are text: style sheet, tables, and what a reader should know before trusting a tuning.
#pragma once

#include <string>

#include "autotune/report_view.h"

namespace tilewright {

// The style sheet, for bright and dark surroundings.
llvm::StringRef report_style();
// A head of columns.
std::string table_heads(llvm::ArrayRef<llvm::StringRef> names);
// Statements on how far the tuning can be trusted, good ones and doubtful ones, as a list.
std::string trust_list(const ReportView& view);
// Figures of the winner, the default and the floor.
std::string rates_table(const ReportView& view);
// Candidates by what became of them, and the reasons; every candidate that was not timed is named.
std::string fates_table(const ReportView& view);
// Every candidate with its parameters, times, error and resources.
std::string candidates_table(const ReportView& view);
// Cases on which the winner was compared with the reference.
std::string verification_table(const ReportView& view);
// Device, versions and everything else the record says of how it was made.
std::string environment_table(const ReportView& view);

}  // namespace tilewright
