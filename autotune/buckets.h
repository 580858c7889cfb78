// Ranges of the named dimensions that share a config. Tuning and dispatch put a size into its bucket by one function, bucket_of().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "runtime/size_expr.h"

namespace tilewright {

// Values of the named dimensions, by symbol index.
using Dims = llvm::SmallVector<std::int64_t, 4>;

// All sizes with low[i] <= value <= high[i] in every dimension i.
struct Bucket {
  Dims low, high;
  // The size it is tuned at: its upper end, where most time is spent.
  const Dims& representative() const { return high; }
  bool contains(llvm::ArrayRef<std::int64_t> dims) const;
  friend bool operator==(const Bucket& a, const Bucket& b) { return a.low == b.low && a.high == b.high; }
};

// A bucket in two: sizes whose value in one dimension is at most `at`, and those above.
struct BucketSplit {
  Bucket bucket;
  std::size_t dimension = 0;
  std::int64_t at = 0;  // low <= at < high
  Bucket lower() const;
  Bucket upper() const;
};

// The bucket of a size. Without splits each value shares it with those that have the same next power of two, within the dimension's
// range; splits apply from there, the first of several of the same bucket. Values outside their range count as its nearer end.
Bucket bucket_of(llvm::ArrayRef<Symbol> symbols, llvm::ArrayRef<std::int64_t> dims, llvm::ArrayRef<BucketSplit> splits = {});

// Every bucket with a size in `range`, ascending. Error kInvalidArgument for more than `most`.
llvm::Expected<std::vector<Bucket>> buckets_in(llvm::ArrayRef<Symbol> symbols, const Bucket& range, llvm::ArrayRef<BucketSplit> splits,
                                               std::size_t most);

// The splits that lead to the bucket of `dims`, outermost first.
std::vector<BucketSplit> splits_on_the_way(llvm::ArrayRef<Symbol> symbols, llvm::ArrayRef<std::int64_t> dims,
                                           llvm::ArrayRef<BucketSplit> splits);

// sqrt(low * high) of each dimension, rounded down.
Dims geometric_middle(const Bucket& bucket);

// Cuts the dimension whose ends are furthest apart, of those with fixed[i] == false, at its geometric middle. nullopt: every such dimension
// has ends within a quarter of each other, or a single value.
std::optional<BucketSplit> halve(const Bucket& bucket, llvm::ArrayRef<bool> fixed);

// {"low": [65], "high": [128]}
llvm::json::Object bucket_json(const Bucket& bucket);
llvm::Expected<Bucket> parse_bucket(const llvm::json::Value* json);  // error kCorrupt
llvm::json::Object split_json(const BucketSplit& split);
llvm::Expected<BucketSplit> parse_split(const llvm::json::Value& json);  // error kCorrupt
llvm::Expected<Dims> parse_dims(const llvm::json::Array* array);         // error kCorrupt

}  // namespace tilewright
