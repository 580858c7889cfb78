// What `tilewright tune` was asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright::cli {

struct TuneCommand {
  std::vector<std::string> files, dims;
  std::string budget = "60s";
  std::string targets;
  std::string on = "gpu";
  std::string policy = "cold";
  std::string report;
  std::string devices = "0";  // "0,1" or "all"
  int device = 0;             // of one helper
  std::uint64_t seed = 1;
  double noise = 0.01;
  unsigned jobs = 0;
  double time_limit_s = 10;
  bool no_fuse = false, resume = false, exhaustive = false, json = false;
};

struct Budget {
  double seconds = 60;
  std::size_t candidates = 0;  // 0: as many as the time allows
};

// "60", "60s", "2m" or "100c". Error kInvalidArgument for anything else, zero and negative numbers among it.
llvm::Expected<Budget> parse_budget(llvm::StringRef text);

}  // namespace tilewright::cli
