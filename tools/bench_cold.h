// bench --cold: how long a process takes from a description to a launched kernel, with an empty and with a filled store.
#pragma once

#include <string>
#include <vector>

#include "tools/cli.h"

namespace tilewright::cli {

struct ColdOptions {
  std::string file;
  std::vector<std::string> dims;
  std::string target;  // "" = the device's, sm_90a without one
  int device = 0;
  unsigned repeats = 5;  // fresh processes per store state; medians are reported
};

// Runs the children and gives their medians by stage, as text or JSON.
llvm::Expected<Output> bench_cold(const ColdOptions& options, bool json);

// One child: goes the whole way once with the store in `directory` and prints its stages as JSON.
llvm::Expected<Output> bench_cold_child(const ColdOptions& options, const std::string& directory);

}  // namespace tilewright::cli
