#include "autotune/tune_buckets.h"

#include <limits>

#include "llvm/ADT/STLExtras.h"

namespace tilewright {
namespace {

constexpr std::size_t kCompared = 8;  // configs that are timed at other sizes of a bucket

// Who was timed for `config`: itself, or the candidate with the same kernels.
const Candidate* timed_for(const TuneResult& result, const ConfigOverrides& config) {
  const Candidate* candidate = find_candidate(result.candidates, config);
  if (candidate == nullptr || candidate->fate != Fate::kDuplicate) return candidate;
  const auto same =
      llvm::find_if(result.candidates, [&](const Candidate& c) { return c.fate != Fate::kDuplicate && c.keys == candidate->keys; });
  return same == result.candidates.end() ? candidate : &*same;
}

// nullopt: the comparison ended before it said anything of the winner.
std::optional<Transfer> transfer_of(const Dims& dims, const ConfigOverrides& winner, const TuneResult& there) {
  if (!there.winner) return std::nullopt;
  const Candidate* candidate = timed_for(there, winner);
  const Candidate* best = find_candidate(there.candidates, there.winner->config());
  if (candidate == nullptr || best == nullptr) return std::nullopt;
  Transfer transfer{dims, best->config, {}, median_interval(best->samples_us), candidate->reason};
  if (candidate->fate == Fate::kMeasured) transfer.winner_us = median_interval(candidate->samples_us);
  return transfer;
}

// One bucket and what became of it so far.
struct Work {
  Bucket bucket;
  std::vector<ConfigOverrides> hints;
  // Of the bucket that this is the upper half of: the same representative.
  std::optional<TuneResult> result;
  std::vector<Transfer> transfers;
};

}  // namespace

double Transfer::regret() const {
  if (!(winner_us.median > 0)) return std::numeric_limits<double>::infinity();
  return winner_us.median / best_us.median - 1;
}

bool Transfer::is_excessive(double tie_band) const {
  return regret() > 2 * tie_band && (!(winner_us.median > 0) || winner_us.low > best_us.high);
}

std::vector<Dims> transfer_sizes(const Bucket& bucket, llvm::ArrayRef<bool> fixed, llvm::ArrayRef<std::int64_t> representative) {
  std::vector<Dims> sizes;
  for (Dims dims : {bucket.low, geometric_middle(bucket)}) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (fixed[i]) dims[i] = representative[i];
    }
    if (llvm::ArrayRef<std::int64_t>(dims) != representative && !llvm::is_contained(sizes, dims)) sizes.push_back(std::move(dims));
  }
  return sizes;
}

std::vector<ConfigOverrides> finalists(const TuneResult& result, std::size_t most) {
  std::vector<const Candidate*> timed;
  for (const Candidate& candidate : result.candidates) {
    if (candidate.fate == Fate::kMeasured && !candidate.samples_us.empty()) timed.push_back(&candidate);
  }
  llvm::stable_sort(timed, [](const Candidate* a, const Candidate* b) {
    return median_interval(a->samples_us).median < median_interval(b->samples_us).median;
  });
  std::vector<ConfigOverrides> configs;
  if (result.winner) configs.push_back(result.winner->config());
  for (const Candidate* candidate : timed) {
    if (configs.size() >= most) break;
    if (!llvm::is_contained(configs, candidate->config)) configs.push_back(candidate->config);
  }
  return configs;
}

llvm::Expected<std::vector<TunedBucket>> tune_buckets(std::vector<Bucket> buckets, std::vector<BucketSplit>& splits,
                                                      llvm::ArrayRef<bool> fixed, const Dims& at, double tie_band, BucketTuner& tuner) {
  std::vector<Work> waiting;  // the next is the last
  for (Bucket& bucket : llvm::reverse(buckets)) waiting.push_back({std::move(bucket), {}, {}, {}});
  std::vector<TunedBucket> done;
  bool lost = false;  // the device: nothing more is begun
  while (!waiting.empty()) {
    Work work = std::move(waiting.back());
    waiting.pop_back();
    if ((lost || tuner.interrupted()) && !work.result) continue;
    Dims dims = work.bucket.representative();
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (fixed[i]) dims[i] = at[i];
    }
    if (!work.result) {
      auto result = tuner.tune(dims, splits, work.hints);
      if (!result) return result.takeError();
      work.result = std::move(*result);
    }
    TunedBucket tuned{std::move(work.bucket), {}, std::move(*work.result), std::move(work.transfers)};
    lost |= !tuned.result.lost.empty();
    bool excessive = false;
    const std::vector<ConfigOverrides> compared = finalists(tuned.result, kCompared);
    std::vector<ConfigOverrides> hints;
    for (const Dims& size : transfer_sizes(tuned.bucket, fixed, dims)) {
      if (lost || !tuned.result.winner || tuner.interrupted()) break;
      auto there = tuner.compare(size, compared);
      if (!there) return there.takeError();
      if (!there->lost.empty()) {
        lost = true;
        tuned.result.lost = there->lost;
        break;
      }
      auto transfer = transfer_of(size, tuned.result.winner->config(), *there);
      if (!transfer) continue;
      excessive |= transfer->is_excessive(tie_band);
      hints.push_back(transfer->best);
      tuned.transfers.push_back(std::move(*transfer));
    }
    std::optional<BucketSplit> split;
    if (excessive) split = halve(tuned.bucket, fixed);
    if (split) {
      splits.push_back(*split);
      waiting.push_back({split->upper(), {}, std::move(tuned.result), std::move(tuned.transfers)});
      waiting.push_back({split->lower(), std::move(hints), {}, {}});
      continue;
    }
    for (const BucketSplit& known : splits) {
      if (known.bucket.contains(tuned.bucket.low) && known.bucket.contains(tuned.bucket.high)) tuned.splits.push_back(known);
    }
    if (llvm::Error error = tuner.keep(tuned)) return error;
    done.push_back(std::move(tuned));
  }
  return done;
}

}  // namespace tilewright
