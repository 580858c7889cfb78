// Tunes buckets at their representatives, measures what the winner costs at other sizes, and splits a bucket where that is too much.
#pragma once

#include <optional>
#include <vector>

#include "autotune/buckets.h"
#include "autotune/search.h"

namespace tilewright {

// The winner of a bucket at another of its sizes, beside the best that a short search found there.
struct Transfer {
  Dims dims;
  ConfigOverrides best;
  Interval winner_us, best_us;  // winner_us.median == 0: the winner did not run there
  std::string failure;          // why it did not
  // Time lost by using the winner, as a share of the best time; infinite where it did not run.
  double regret() const;
  // Whether regret() is above twice the tie band and the intervals of both are apart: what noise alone makes is no reason to split.
  bool is_excessive(double tie_band) const;
};

struct TunedBucket {
  Bucket bucket;
  std::vector<BucketSplit> splits;  // that lead to it
  TuneResult result;                // at bucket.representative()
  std::vector<Transfer> transfers;  // also to sizes that a split then gave to another bucket
};

// What tune_buckets needs done. Errors end it.
class BucketTuner {
 public:
  virtual ~BucketTuner() = default;
  // A whole search at `dims`; `hints` are tried after the default. Its winner is kept at once, for an end that comes early.
  virtual llvm::Expected<TuneResult> tune(const Dims& dims, llvm::ArrayRef<BucketSplit> splits, llvm::ArrayRef<ConfigOverrides> hints) = 0;
  // A short one that tries the default and `candidates` alone.
  virtual llvm::Expected<TuneResult> compare(const Dims& dims, llvm::ArrayRef<ConfigOverrides> candidates) = 0;
  // A bucket is finished.
  virtual llvm::Error keep(const TunedBucket& tuned) = 0;
  virtual bool interrupted() const { return false; }
};

// The sizes of a bucket at which its winner is compared: low end and geometric middle of the dimensions that are not fixed.
std::vector<Dims> transfer_sizes(const Bucket& bucket, llvm::ArrayRef<bool> fixed, llvm::ArrayRef<std::int64_t> representative);

// The winner of `result` and its closest rivals, the fastest first.
std::vector<ConfigOverrides> finalists(const TuneResult& result, std::size_t most);

// Tunes each of `buckets`; after one whose device was lost none is begun. `splits` are those known before and get the new ones. A dimension
// that is fixed has the one value at[i] in all.
llvm::Expected<std::vector<TunedBucket>> tune_buckets(std::vector<Bucket> buckets, std::vector<BucketSplit>& splits,
                                                      llvm::ArrayRef<bool> fixed, const Dims& at, double tie_band, BucketTuner& tuner);

}  // namespace tilewright
