#include "autotune/tune_buckets.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "llvm/ADT/STLExtras.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "tests/catch.h"

using namespace tilewright;

namespace {

// Time of config {"tile": t} at a size, made up by the test; below zero: it does not run there.
using Model = std::function<double(std::int64_t tile, const Dims& dims)>;

ConfigOverrides tile(std::int64_t t) { return {{"tile", t}}; }

class MadeUpTuner : public BucketTuner {
 public:
  MadeUpTuner(std::vector<Symbol> symbols, Model model) : symbols_(std::move(symbols)), model_(std::move(model)) {
    auto graph = parse_description(R"j({"name": "g", "inputs": {"x": {"dtype": "f32", "shape": [4, 4]}},
      "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})j");
    if (!graph) FAIL(take_error_facts(graph.takeError()).message);
    graph_ = std::move(*graph);
  }
  llvm::Expected<TuneResult> tune(const Dims& dims, llvm::ArrayRef<BucketSplit> splits, llvm::ArrayRef<ConfigOverrides> hints) override {
    tuned.push_back(dims);
    hints_of_last.assign(hints.begin(), hints.end());
    CHECK(bucket_of(symbols_, dims, splits).contains(dims));
    return search(dims, {tile(1), tile(2), tile(3)});
  }
  llvm::Expected<TuneResult> compare(const Dims& dims, llvm::ArrayRef<ConfigOverrides> candidates) override {
    compared.push_back(dims);
    TuneResult result = search(dims, candidates);
    if (lost_when_comparing) result.lost = "device lost";
    return result;
  }
  llvm::Error keep(const TunedBucket& bucket) override {
    kept.push_back(bucket.bucket);
    return llvm::Error::success();
  }
  bool interrupted() const override { return tuned.size() >= most_tunings; }

  std::vector<Dims> tuned, compared;
  std::vector<Bucket> kept;
  std::vector<ConfigOverrides> hints_of_last;
  std::size_t most_tunings = 1000;
  double spread = 0.001;
  bool lost_when_comparing = false;

 private:
  TuneResult search(const Dims& dims, llvm::ArrayRef<ConfigOverrides> configs) {
    const Verifier verifier(graph_, {});
    TuneResult result;
    double best_us = 0;
    for (const ConfigOverrides& config : configs) {
      Candidate candidate;
      candidate.config = config;
      const double us = model_(config.at("tile"), dims);
      candidate.fate = us > 0 ? Fate::kMeasured : Fate::kCrashed;
      candidate.reason = us > 0 ? "" : "crashed by the model";
      if (us > 0) candidate.samples_us = {us * (1 - spread), us, us * (1 + spread)};
      result.candidates.push_back(candidate);
      if (!(us > 0) || (result.winner && us >= best_us)) continue;
      best_us = us;
      VerificationReport report;
      report.config = config;
      for (const VerifyCase& c : verifier.cases()) report.cases.push_back({c.name, true, 0, ""});
      auto verified = verifier.accept(config, report);
      if (!verified) FAIL(take_error_facts(verified.takeError()).message);
      result.winner = std::move(*verified);
    }
    return result;
  }
  std::vector<Symbol> symbols_;
  Model model_;
  Graph graph_;
};

const std::vector<Symbol> kSymbols{{"N", 128, 1, 4096}};

std::vector<TunedBucket> run(MadeUpTuner& tuner, std::vector<BucketSplit>& splits, const std::vector<Symbol>& symbols = kSymbols,
                             std::vector<bool> fixed = {false}, const Dims& at = {128}) {
  const llvm::SmallVector<bool, 4> flags(fixed.begin(), fixed.end());
  auto done = tune_buckets({bucket_of(symbols, at, splits)}, splits, flags, at, 0.01, tuner);
  if (!done) FAIL(take_error_facts(done.takeError()).message);
  return std::move(*done);
}

}  // namespace

TEST_CASE("tune buckets: a winner that holds over the bucket leaves it whole, and its regret is measured at two sizes", "[autotune]") {
  // Tile 1 is the best at 128 and 1.5 % slower than tile 2 at 65: within twice the band.
  MadeUpTuner tuner(kSymbols, [](std::int64_t t, const Dims& dims) {
    return t == 1 ? 10.15 : t == 2 ? (dims[0] < 70 ? 10.0 : 11.0) : 30.0;
  });
  std::vector<BucketSplit> splits;
  const std::vector<TunedBucket> done = run(tuner, splits);
  REQUIRE(done.size() == 1);
  CHECK(splits.empty());
  CHECK(tuner.tuned == std::vector<Dims>{{128}});
  CHECK(tuner.compared == std::vector<Dims>{{65}, {91}});
  REQUIRE(done[0].transfers.size() == 2);
  CHECK(done[0].transfers[0].regret() == Approx(0.015));
  CHECK(done[0].transfers[0].best == tile(2));
  CHECK(done[0].transfers[1].regret() == Approx(0));
  CHECK(tuner.kept == std::vector<Bucket>{{{65}, {128}}});
}

TEST_CASE("tune buckets: a regret above twice the tie band splits the bucket, and both halves have winners of their own", "[autotune]") {
  MadeUpTuner tuner(kSymbols, [](std::int64_t t, const Dims& dims) { return t == (dims[0] <= 91 ? 2 : 1) ? 10.0 : 12.0; });
  std::vector<BucketSplit> splits;
  const std::vector<TunedBucket> done = run(tuner, splits);
  REQUIRE(done.size() == 2);
  REQUIRE(splits.size() == 1);
  CHECK(splits[0].at == 91);
  CHECK(done[0].bucket == Bucket{{65}, {91}});
  CHECK(done[0].result.winner->config() == tile(2));
  CHECK(done[1].bucket == Bucket{{92}, {128}});
  CHECK(done[1].result.winner->config() == tile(1));
  // The upper half has the old representative, which is not tuned again; the lower half's search starts from the best found there.
  CHECK(tuner.tuned == std::vector<Dims>{{128}, {91}});
  CHECK(llvm::is_contained(tuner.hints_of_last, tile(2)));
  for (const TunedBucket& tuned : done) {
    REQUIRE(tuned.splits.size() == 1);
    CHECK(bucket_of(kSymbols, tuned.bucket.low, tuned.splits) == tuned.bucket);
  }
  // A second tuning knows the splits.
  const std::vector<TunedBucket> again = run(tuner, splits);
  REQUIRE(again.size() == 1);
  CHECK(again[0].bucket == Bucket{{92}, {128}});
  CHECK(splits.size() == 1);
}

TEST_CASE("tune buckets: noise alone splits nothing", "[autotune]") {
  MadeUpTuner tuner(kSymbols, [](std::int64_t t, const Dims& dims) { return t == (dims[0] <= 91 ? 2 : 1) ? 10.0 : 10.3; });
  std::vector<BucketSplit> splits;
  tuner.spread = 0.05;  // the intervals of 10.0 and 10.3 overlap
  CHECK(run(tuner, splits).size() == 1);
  tuner.spread = 0.001;
  CHECK(run(tuner, splits).size() == 2);
}

TEST_CASE("tune buckets: a winner that does not run at another size has no bound on its regret; splitting ends", "[autotune]") {
  MadeUpTuner tuner(kSymbols, [](std::int64_t t, const Dims& dims) {
    if (t == 1) return dims[0] == 128 ? 5.0 : -1.0;
    return 10.0;
  });
  std::vector<BucketSplit> splits;
  const std::vector<TunedBucket> done = run(tuner, splits);
  CHECK(done.size() == 3);  // 65..91, 92..108, 109..128: what is narrower is left as it is
  CHECK(done.back().bucket == Bucket{{109}, {128}});
  CHECK(std::isinf(done.back().transfers.back().regret()));
  CHECK(done.back().transfers.back().failure == "crashed by the model");
}

TEST_CASE("tune buckets: dimensions that are given keep their value and are never cut", "[autotune]") {
  const std::vector<Symbol> symbols{{"N", 100, 1, 4096}, {"M", 8, 1, 64}};
  MadeUpTuner tuner(symbols, [](std::int64_t t, const Dims& dims) { return t == (dims[1] <= 6 ? 2 : 1) ? 10.0 : 12.0; });
  std::vector<BucketSplit> splits;
  const std::vector<TunedBucket> done = run(tuner, splits, symbols, {true, false}, {100, 8});
  CHECK(tuner.tuned.front() == Dims{100, 8});
  for (const Dims& dims : tuner.compared) CHECK(dims[0] == 100);
  REQUIRE(splits.size() == 1);
  CHECK(splits[0].dimension == 1);
  CHECK(done.size() == 2);

  MadeUpTuner fixed(symbols, [](std::int64_t t, const Dims&) { return static_cast<double>(t); });
  splits.clear();
  CHECK(run(fixed, splits, symbols, {true, true}, {100, 7}).size() == 1);
  CHECK(fixed.compared.empty());
  CHECK(fixed.tuned == std::vector<Dims>{{100, 7}});
}

TEST_CASE("tune buckets: after a lost device nothing more is begun, and the bucket in hand is kept", "[autotune]") {
  MadeUpTuner tuner(kSymbols, [](std::int64_t t, const Dims& dims) { return t == (dims[0] <= 91 ? 2 : 1) ? 10.0 : 12.0; });
  tuner.lost_when_comparing = true;
  std::vector<BucketSplit> splits;
  const llvm::SmallVector<bool, 4> fixed{false};
  auto done = tune_buckets({Bucket{{65}, {128}}, Bucket{{129}, {256}}}, splits, fixed, {128}, 0.01, tuner);
  REQUIRE(static_cast<bool>(done));
  REQUIRE(done->size() == 1);
  CHECK((*done)[0].result.lost == "device lost");
  CHECK((*done)[0].transfers.empty());
  CHECK(tuner.compared.size() == 1);
  CHECK(splits.empty());
}

TEST_CASE("tune buckets: an interruption keeps what was found", "[autotune]") {
  MadeUpTuner tuner(kSymbols, [](std::int64_t, const Dims&) { return 10.0; });
  tuner.most_tunings = 1;
  std::vector<BucketSplit> splits;
  const llvm::SmallVector<bool, 4> fixed{false};
  auto done = tune_buckets({Bucket{{65}, {128}}, Bucket{{129}, {256}}}, splits, fixed, {128}, 0.01, tuner);
  REQUIRE(static_cast<bool>(done));
  REQUIRE(done->size() == 1);
  CHECK((*done)[0].transfers.empty());
  CHECK(tuner.kept.size() == 1);
}
