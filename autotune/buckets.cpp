#include "autotune/buckets.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr double kNarrow = 1.25;  // a range of less than this ratio is not cut again: two winners seldom differ over it

// The values of one dimension that have the same next power of two.
struct Range {
  std::int64_t low = 0, high = 0;
};
Range power_range(const Symbol& symbol, std::int64_t value) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  const auto inside = static_cast<std::uint64_t>(std::clamp(std::clamp(value, symbol.min, symbol.max), std::int64_t{1}, kLargest));
  const auto power = static_cast<std::int64_t>(std::bit_ceil(inside));
  return {power == 1 ? symbol.min : std::max(symbol.min, power / 2 + 1), std::min(power, symbol.max)};
}

const BucketSplit* split_of(const Bucket& bucket, llvm::ArrayRef<BucketSplit> splits) {
  const auto* found = llvm::find_if(splits, [&](const BucketSplit& split) { return split.bucket == bucket; });
  return found == splits.end() ? nullptr : found;
}

Bucket power_bucket(llvm::ArrayRef<Symbol> symbols, llvm::ArrayRef<std::int64_t> dims) {
  Bucket bucket;
  for (auto [symbol, value] : llvm::zip_equal(symbols, dims)) {
    const Range range = power_range(symbol, value);
    bucket.low.push_back(range.low);
    bucket.high.push_back(range.high);
  }
  return bucket;
}

// Walks from the bucket of powers of two to the last; `visit` gets every split on the way.
template <typename Visit>
Bucket descend(llvm::ArrayRef<Symbol> symbols, llvm::ArrayRef<std::int64_t> dims, llvm::ArrayRef<BucketSplit> splits, Visit visit) {
  Bucket bucket = power_bucket(symbols, dims);
  while (const BucketSplit* split = split_of(bucket, splits)) {
    visit(*split);
    bucket = dims[split->dimension] <= split->at ? split->lower() : split->upper();
  }
  return bucket;
}

bool meets(const Bucket& a, const Bucket& b) {
  for (std::size_t i = 0; i < a.low.size(); ++i) {
    if (a.high[i] < b.low[i] || b.high[i] < a.low[i]) return false;
  }
  return true;
}

void add_last_buckets(const Bucket& bucket, const Bucket& range, llvm::ArrayRef<BucketSplit> splits, std::vector<Bucket>& out) {
  if (!meets(bucket, range)) return;
  const BucketSplit* split = split_of(bucket, splits);
  if (split == nullptr) return out.push_back(bucket);
  add_last_buckets(split->lower(), range, splits, out);
  add_last_buckets(split->upper(), range, splits, out);
}

double ratio(std::int64_t low, std::int64_t high) {
  return static_cast<double>(high) / static_cast<double>(std::max<std::int64_t>(low, 1));
}

std::int64_t middle(std::int64_t low, std::int64_t high) {
  const double root = std::sqrt(static_cast<double>(low) * static_cast<double>(high));
  return std::clamp(static_cast<std::int64_t>(root), low, high);
}

}  // namespace

bool Bucket::contains(llvm::ArrayRef<std::int64_t> dims) const {
  if (dims.size() != low.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < low[i] || dims[i] > high[i]) return false;
  }
  return true;
}

Bucket BucketSplit::lower() const {
  Bucket half = bucket;
  half.high[dimension] = at;
  return half;
}

Bucket BucketSplit::upper() const {
  Bucket half = bucket;
  half.low[dimension] = at + 1;
  return half;
}

Bucket bucket_of(llvm::ArrayRef<Symbol> symbols, llvm::ArrayRef<std::int64_t> dims, llvm::ArrayRef<BucketSplit> splits) {
  return descend(symbols, dims, splits, [](const BucketSplit&) {});
}

std::vector<BucketSplit> splits_on_the_way(llvm::ArrayRef<Symbol> symbols, llvm::ArrayRef<std::int64_t> dims,
                                           llvm::ArrayRef<BucketSplit> splits) {
  std::vector<BucketSplit> way;
  descend(symbols, dims, splits, [&](const BucketSplit& split) { way.push_back(split); });
  return way;
}

llvm::Expected<std::vector<Bucket>> buckets_in(llvm::ArrayRef<Symbol> symbols, const Bucket& range, llvm::ArrayRef<BucketSplit> splits,
                                               std::size_t most) {
  std::vector<Bucket> found;
  Dims at = range.low;
  while (true) {
    const Bucket bucket = power_bucket(symbols, at);
    add_last_buckets(bucket, range, splits, found);
    if (found.size() > most)
      return make_error(Status::kInvalidArgument, "the ranges of the named dimensions make more than {} buckets", most);
    // The next bucket along the last dimension that has one; those after it start again.
    std::size_t i = at.size();
    while (i > 0 && bucket.high[i - 1] >= range.high[i - 1]) {
      at[i - 1] = range.low[i - 1];
      --i;
    }
    if (i == 0) return found;
    at[i - 1] = bucket.high[i - 1] + 1;
  }
}

Dims geometric_middle(const Bucket& bucket) {
  Dims dims;
  for (auto [low, high] : llvm::zip_equal(bucket.low, bucket.high)) dims.push_back(middle(low, high));
  return dims;
}

std::optional<BucketSplit> halve(const Bucket& bucket, llvm::ArrayRef<bool> fixed) {
  std::optional<BucketSplit> split;
  double widest = kNarrow;
  for (std::size_t i = 0; i < bucket.low.size(); ++i) {
    const std::int64_t low = bucket.low[i], high = bucket.high[i];
    if (fixed[i] || low == high || ratio(low, high) < widest || (split && ratio(low, high) == widest)) continue;
    widest = ratio(low, high);
    split = BucketSplit{bucket, i, std::min(middle(low, high), high - 1)};
  }
  return split;
}

llvm::json::Object bucket_json(const Bucket& bucket) {
  return llvm::json::Object{{"low", llvm::json::Array(llvm::ArrayRef<std::int64_t>(bucket.low))},
                            {"high", llvm::json::Array(llvm::ArrayRef<std::int64_t>(bucket.high))}};
}

llvm::Expected<Dims> parse_dims(const llvm::json::Array* array) {
  if (array == nullptr) return make_error(Status::kCorrupt, "record: dims are missing");
  Dims dims;
  for (const llvm::json::Value& value : *array) {
    const auto number = value.getAsInteger();
    if (!number) return make_error(Status::kCorrupt, "record: a dimension is no integer");
    dims.push_back(*number);
  }
  return dims;
}

llvm::Expected<Bucket> parse_bucket(const llvm::json::Value* json) {
  const llvm::json::Object* object = json != nullptr ? json->getAsObject() : nullptr;
  if (object == nullptr) return make_error(Status::kCorrupt, "record: a bucket is missing");
  auto low = parse_dims(object->getArray("low"));
  if (!low) return low.takeError();
  auto high = parse_dims(object->getArray("high"));
  if (!high) return high.takeError();
  if (low->size() != high->size()) return make_error(Status::kCorrupt, "record: the ends of a bucket have not the same dimensions");
  return Bucket{std::move(*low), std::move(*high)};
}

llvm::json::Object split_json(const BucketSplit& split) {
  return llvm::json::Object{
      {"bucket", bucket_json(split.bucket)}, {"dimension", static_cast<std::int64_t>(split.dimension)}, {"at", split.at}};
}

llvm::Expected<BucketSplit> parse_split(const llvm::json::Value& json) {
  const llvm::json::Object* object = json.getAsObject();
  if (object == nullptr) return make_error(Status::kCorrupt, "record: a split is no object");
  auto bucket = parse_bucket(object->get("bucket"));
  if (!bucket) return bucket.takeError();
  const std::int64_t dimension = object->getInteger("dimension").value_or(-1);
  const auto at = object->getInteger("at");
  const auto index = static_cast<std::size_t>(dimension);
  // One that does not cut its bucket would make the way down endless.
  if (dimension < 0 || index >= bucket->low.size() || !at || *at < bucket->low[index] || *at >= bucket->high[index])
    return make_error(Status::kCorrupt, "record: a split does not cut its bucket");
  return BucketSplit{std::move(*bucket), index, *at};
}

}  // namespace tilewright
