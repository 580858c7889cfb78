// One config under test: what is known of it, what became of it and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/space.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace tilewright {

enum class Fate : std::uint8_t {
  kWaiting,        // not looked at yet
  kRefused,        // the lowering does not take it
  kCompileFailed,  // the compiler does not take it, or took too long
  kPruned,         // what the compiler made cannot run well
  kDuplicate,      // the same kernels as another candidate
  kWrong,          // differs from the reference, or from itself
  kCrashed,        // ended the helper it ran in, or a launch of it failed
  kTimedOut,       // did not end
  kMeasured,       // verified and timed
};
llvm::StringRef fate_name(Fate fate);  // "refused", "compile_failed", ...

// What the compiler made of all kernels of a candidate: the most of each, so that fewer is better.
struct Resources {
  std::int64_t registers = 0;     // a thread
  std::int64_t local_bytes = 0;   // a thread: spills and arrays in local memory
  std::int64_t shared_bytes = 0;  // a block, static and dynamic
  std::int64_t block_threads = 0;
  std::int64_t blocks_per_sm = 0;  // the fewest of any kernel
};

struct Candidate {
  ConfigOverrides config;
  Fate fate = Fate::kWaiting;
  std::string reason;             // of any fate but kMeasured
  std::vector<std::string> keys;  // of its kernels, in order
  Resources resources;            // zero until compiled
  double predicted_us = 0;        // by the cost model, which only orders
  double compile_ms = 0;
  std::vector<double> samples_us;  // one a round
  double normwise_error = 0;       // the largest over all verified cases
  std::string name() const { return config_text(config); }
};

// Median of the samples and a 95 % confidence interval of it from order statistics; with fewer than six samples the interval is from the
// least to the largest.
struct Interval {
  double low = 0, median = 0, high = 0;
};
Interval median_interval(llvm::ArrayRef<double> samples);

// Medians within this share of the fastest count as equally fast, unless a search is told otherwise.
inline constexpr double kTieBand = 0.01;

// True when `a` comes before `b` among equally fast candidates: fewer bytes of local memory, shared memory, registers, threads; then by
// config.
bool prefers(const Candidate& a, const Candidate& b);

// The candidate of a config, nullptr without one.
const Candidate* find_candidate(llvm::ArrayRef<Candidate> candidates, const ConfigOverrides& config);

llvm::json::Object candidate_json(const Candidate& candidate);
// Error kCorrupt: not what candidate_json writes.
llvm::Expected<Candidate> parse_candidate(const llvm::json::Value& json);

llvm::json::Object config_json(const ConfigOverrides& config);
// Error kCorrupt: not an object of integers.
llvm::Expected<ConfigOverrides> parse_config_json(const llvm::json::Value* json);

}  // namespace tilewright
