#include "autotune/buckets.h"

#include "autotune/records.h"
#include "llvm/ADT/STLExtras.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "runtime/random.h"
#include "tests/catch.h"

using namespace tilewright;

namespace {

Symbol symbol(const char* name, std::int64_t min, std::int64_t max) { return {name, min, min, max}; }

std::vector<Bucket> all_buckets(llvm::ArrayRef<Symbol> symbols, const Bucket& range, llvm::ArrayRef<BucketSplit> splits = {}) {
  auto buckets = buckets_in(symbols, range, splits, 10000);
  if (!buckets) FAIL(take_error_facts(buckets.takeError()).message);
  return std::move(*buckets);
}

std::int64_t draw(std::uint64_t& state, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(splitmix64(state) % static_cast<std::uint64_t>(high - low + 1));
}

}  // namespace

TEST_CASE("buckets: sizes with the same next power of two share one, cut to the range of the dimension", "[autotune]") {
  const std::vector<Symbol> symbols{symbol("N", 0, 100)};
  CHECK(bucket_of(symbols, {0}) == Bucket{{0}, {1}});
  CHECK(bucket_of(symbols, {1}) == Bucket{{0}, {1}});
  CHECK(bucket_of(symbols, {2}) == Bucket{{2}, {2}});
  CHECK(bucket_of(symbols, {3}) == Bucket{{3}, {4}});
  CHECK(bucket_of(symbols, {64}) == Bucket{{33}, {64}});
  CHECK(bucket_of(symbols, {65}) == Bucket{{65}, {100}});
  CHECK(bucket_of(symbols, {1000}) == Bucket{{65}, {100}});
  CHECK(bucket_of({symbol("N", 70, 1000)}, {100}) == Bucket{{70}, {128}});
  CHECK(bucket_of({}, {}) == Bucket{});
}

TEST_CASE("buckets: a range gives each bucket that it meets once, ascending, and too many are refused", "[autotune]") {
  const std::vector<Symbol> symbols{symbol("N", 1, 4096), symbol("M", 1, 64)};
  const std::vector<Bucket> found = all_buckets(symbols, {{64, 3}, {300, 5}});
  REQUIRE(found.size() == 8);  // N: 33..64, 65..128, 129..256, 257..512; M: 3..4, 5..8
  CHECK(found[0] == Bucket{{33, 3}, {64, 4}});
  CHECK(found[1] == Bucket{{33, 5}, {64, 8}});
  CHECK(found[7] == Bucket{{257, 5}, {512, 8}});
  const std::vector<BucketSplit> splits{{found[7], 0, 362}};
  CHECK(all_buckets(symbols, {{64, 3}, {300, 5}}, splits).size() == 8);  // the upper half is above 300
  CHECK(all_buckets(symbols, {{64, 3}, {400, 5}}, splits).size() == 9);
  auto many = buckets_in(symbols, {{1, 1}, {4096, 64}}, {}, 10);
  REQUIRE_FALSE(static_cast<bool>(many));
  CHECK(take_error_facts(many.takeError()).status == Status::kInvalidArgument);
  CHECK(all_buckets({}, Bucket{}).size() == 1);
}

TEST_CASE("buckets: halving cuts the widest free dimension at its geometric middle, and stops where little is left", "[autotune]") {
  const auto split = halve({{65, 3}, {128, 4}}, {false, false});
  REQUIRE(split.has_value());
  CHECK(split->dimension == 0);
  CHECK(split->at == 91);
  CHECK(split->lower() == Bucket{{65, 3}, {91, 4}});
  CHECK(split->upper() == Bucket{{92, 3}, {128, 4}});
  const auto other = halve({{65, 3}, {128, 4}}, {true, false});
  REQUIRE(other.has_value());
  CHECK(other->dimension == 1);
  CHECK(other->at == 3);
  CHECK_FALSE(halve({{110, 1}, {128, 1}}, {false, false}).has_value());
  CHECK_FALSE(halve({{65, 3}, {128, 4}}, {true, true}).has_value());
}

TEST_CASE("buckets: tuning and dispatch agree on every size, whatever was split", "[autotune]") {
  std::uint64_t state = 7;
  for (int round = 0; round < 300; ++round) {
    std::vector<Symbol> symbols;
    for (std::int64_t i = draw(state, 1, 3); i > 0; --i) {
      const std::int64_t min = draw(state, 0, 70);
      symbols.push_back(symbol("D", min, min + draw(state, 0, 900)));
    }
    const llvm::SmallVector<bool, 4> fixed(symbols.size(), false);
    auto random_dims = [&] {
      Dims dims;
      for (const Symbol& s : symbols) dims.push_back(draw(state, s.min, s.max));
      return dims;
    };
    // Splits as tuning makes them: of buckets that bucket_of gave.
    std::vector<BucketSplit> splits;
    for (int i = 0; i < 12; ++i) {
      if (auto split = halve(bucket_of(symbols, random_dims(), splits), fixed)) splits.push_back(*split);
    }
    std::vector<BucketSplit> shuffled(splits.rbegin(), splits.rend());
    for (int i = 0; i < 40; ++i) {
      const Dims dims = random_dims();
      const Bucket bucket = bucket_of(symbols, dims, splits);
      REQUIRE(bucket.contains(dims));
      // The size that is tuned for this bucket is dispatched to it, as is every other size in it; the order of the records is nothing to
      // it.
      CHECK(bucket_of(symbols, bucket.representative(), splits) == bucket);
      CHECK(bucket_of(symbols, bucket.low, splits) == bucket);
      CHECK(bucket_of(symbols, geometric_middle(bucket), splits) == bucket);
      CHECK(bucket_of(symbols, dims, shuffled) == bucket);
      // The splits a record of this bucket carries are enough to find it.
      CHECK(bucket_of(symbols, dims, splits_on_the_way(symbols, dims, splits)) == bucket);
      const Bucket range{dims, bucket.high};
      const std::vector<Bucket> found = all_buckets(symbols, range, splits);
      CHECK(llvm::is_contained(found, bucket));
    }
    // Buckets of a range do not overlap and leave nothing out.
    Bucket range{random_dims(), random_dims()};
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (range.low[i] > range.high[i]) std::swap(range.low[i], range.high[i]);
    }
    const std::vector<Bucket> found = all_buckets(symbols, range, splits);
    for (int i = 0; i < 20; ++i) {
      Dims dims;
      for (std::size_t d = 0; d < symbols.size(); ++d) dims.push_back(draw(state, range.low[d], range.high[d]));
      CHECK(llvm::count_if(found, [&](const Bucket& bucket) { return bucket.contains(dims); }) == 1);
    }
  }
}

TEST_CASE("buckets: a record made by tuning for a bucket serves every size of it by a lookup", "[autotune]") {
  auto graph = parse_description(R"j({"name": "g", "dims": {"N": {"default": 100, "min": 1, "max": 4096}},
    "inputs": {"x": {"dtype": "f32", "shape": ["N", 40]}},
    "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})j");
  REQUIRE(static_cast<bool>(graph));
  const std::vector<BucketSplit> splits{{Bucket{{65}, {128}}, 0, 91}, {Bucket{{65}, {91}}, 0, 76}};
  for (std::int64_t n : {1, 65, 76, 77, 91, 92, 128, 129, 4096}) {
    const RecordProblem problem = record_problem(*graph, {n}, "d", Target{}, "cold", true, splits);
    CHECK(problem.bucket == bucket_of(graph->symbols(), {n}, splits));
    CHECK(problem.bucket == bucket_of(graph->symbols(), {n}, problem.splits));
  }
}
