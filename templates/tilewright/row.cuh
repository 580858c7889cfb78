// tilewright/row.cuh
// Work on rows of contiguous elements, x[row, col] at row * cols + col:
//   softmax        y[r,c] = exp(x[r,c] - max_c x) / sum_c exp(x[r,c] - max_c x)
//   reduce         y[r] = sum, mean, min or max over c
//   cross entropy  loss[r] = (1 - e) * (lse - x[r,t]) + e * (lse - mean_c x[r,c]), lse = log sum_c exp x[r,c], t = target(r), e = label
//   smoothing;
//                  0 for t = ignore_index, NaN for any other t outside [0, cols); then nothing, the sum, or the mean over the rows
//                  that are not ignored (NaN when there is none), in the same launch and in a fixed order (grid_finish.cuh)
// row_threads threads own a row. They hold it in registers when row_threads * vector_elems * vectors_per_thread >= cols, so that memory is
// read once; a longer row streams through in chunks of that size, softmax reads it twice, with the maximum kept online.
// NaN anywhere makes a row's results NaN; so does +infinity in softmax and cross entropy, and a row of nothing but -infinity.
// Accumulation: f32 with compensated sums over chunks, or the integer type itself. Baked in: the config, cols unless 0. Any sm_80 or newer.
#pragma once

#include "tilewright/grid_finish.cuh"
#include "tilewright/math.cuh"
#include "tilewright/memory.cuh"
#include "tilewright/monoid.cuh"
#include "tilewright/row_team.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace row_detail {

using MaxOps = MonoidOf<Monoid::kMax, float>;
using SumOps = MonoidOf<Monoid::kSum, float>;

// Maximum, and sum of exp(x - maximum).
struct SoftmaxState {
  float max;
  float sum;
};

// Loss summed over rows, and how many rows that is.
struct LossState {
  float sum;
  u32 count;
};
struct LossOps {
  using State = LossState;
  static __device__ __forceinline__ LossState identity() { return {0.0f, 0}; }
  static __device__ __forceinline__ LossState merge(LossState a, LossState b) { return {a.sum + b.sum, a.count + b.count}; }
  static __device__ __forceinline__ u64 pack(LossState s) { return u64{s.count + 1} << 32 | __builtin_bit_cast(u32, s.sum); }
  static __device__ __forceinline__ LossState unpack(u64 word) {
    return {__builtin_bit_cast(float, static_cast<u32>(word)), static_cast<u32>(word >> 32) - 1};
  }
};

// What is subtracted before exp: keeps -infinity - -infinity out of rows or parts of rows without any finite element.
__device__ __forceinline__ float reference_of(float max) { return max == -kInfinity ? 0.0f : max; }

template <int kElems>
__device__ __forceinline__ void exp_all(float (&v)[kElems], float max) {
  const float reference = reference_of(max);
#pragma unroll
  for (int i = 0; i < kElems; ++i) v[i] = exp_fast(v[i] - reference);
}

// Combines states whose maximum is the same all over a warp (or a smaller team): sums over lanes, then over the team's warps.
template <typename Team>
__device__ __forceinline__ SoftmaxState merge_softmax(SoftmaxState state, SoftmaxState* shared) {
  constexpr int kLanes = Team::kThreads < 32 ? Team::kThreads : 32;
  state.sum = merge_lanes<SumOps, kLanes>(state.sum);
  if constexpr (Team::kThreads > 32) {
    constexpr int kWarps = Team::kThreads / 32;
    constexpr int kPeers = bit_ceil(kWarps);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) shared[warp] = state;
    __syncthreads();
    const int peer = lane % kPeers;
    SoftmaxState other{-kInfinity, 0.0f};
    if (kPeers == kWarps || peer < kWarps) other = shared[warp / kWarps * kWarps + peer];
    state.max = merge_lanes<MaxOps, kPeers>(other.max);
    state.sum = merge_lanes<SumOps, kPeers>(other.sum * exp_fast(other.max - reference_of(state.max)));
  }
  return state;
}

// State of a row in registers; leaves exp(x - held_max) in v, where held_max is the maximum of the warp's part of the row.
template <typename Team, int kElems>
__device__ __forceinline__ SoftmaxState softmax_held(float (&v)[kElems], float& held_max, SoftmaxState* shared) {
  constexpr int kLanes = Team::kThreads < 32 ? Team::kThreads : 32;
  held_max = merge_lanes<MaxOps, kLanes>(merge_values<MaxOps>(v));
  exp_all(v, held_max);
  return merge_softmax<Team>({held_max, merge_values<SumOps>(v)}, shared);
}

// State of a row that streams through; `linear` gets the thread's part of the plain sum when kLinear.
template <bool kLinear, typename Team>
__device__ __forceinline__ SoftmaxState softmax_streamed(const Team& team, float& linear, SoftmaxState* shared) {
  using Index = typename Team::Index;
  constexpr int kLanes = Team::kThreads < 32 ? Team::kThreads : 32;
  float max = -kInfinity;
  RunningSum sum, plain;
#pragma unroll 1
  for (i64 first = 0; first < team.cols; first += Team::kSpan) {
    float v[Team::kElems];
    team.load(static_cast<Index>(first), v, -kInfinity);
    if constexpr (kLinear) plain.add(team.sum_inside(static_cast<Index>(first), v));
    const float next = max_nan(max, merge_values<MaxOps>(v));
    exp_all(v, next);
    sum.scale(exp_fast(max - reference_of(next)));
    sum.add(merge_values<SumOps>(v));
    max = next;
  }
  linear = plain.result();
  const float warp_max = merge_lanes<MaxOps, kLanes>(max);
  return merge_softmax<Team>({warp_max, sum.result() * exp_fast(max - reference_of(warp_max))}, shared);
}

template <bool kHeld, typename Team>
__device__ __forceinline__ void softmax(const Team& team) {
  using Index = typename Team::Index;
  __shared__ SoftmaxState shared[Team::kWarps];
  float v[Team::kElems];
  if constexpr (kHeld) {
    float held_max;
    team.load(0, v, -kInfinity);
    const SoftmaxState state = softmax_held<Team>(v, held_max, shared);
    team.store_scaled(0, v, div_count(exp_fast(held_max - reference_of(state.max)), state.sum));
  } else {
    float unused;
    const SoftmaxState state = softmax_streamed<false>(team, unused, shared);
    const float factor = div_count(1.0f, state.sum);
    // Backwards: the end of the row is what the caches still have.
#pragma unroll 1
    for (i64 first = (static_cast<i64>(team.cols) - 1) / Team::kSpan * Team::kSpan; first >= 0; first -= Team::kSpan) {
      team.load(static_cast<Index>(first), v, -kInfinity);
      exp_all(v, state.max);
      team.store_scaled(static_cast<Index>(first), v, factor);
    }
  }
}

template <Monoid kMonoid, bool kHeld, typename Team>
__device__ __forceinline__ void reduce(const Team& team) {
  using Index = typename Team::Index;
  using Value = typename Team::Value;
  using Ops = MonoidOf<kMonoid, Value>;
  __shared__ Value shared[Team::kWarps];
  Value v[Team::kElems];
  Value total;
  if constexpr (kHeld) {
    team.load(0, v, Ops::identity());
    total = merge_values<Ops>(v);
  } else {
    Running<kMonoid, Value> running;
#pragma unroll 1
    for (i64 first = 0; first < team.cols; first += Team::kSpan) {
      team.load(static_cast<Index>(first), v, Ops::identity());
      running.add(merge_values<Ops>(v));
    }
    total = running.result();
  }
  total = merge_team<Ops, Team::kThreads>(total, shared);
  if (team.lane != 0 || !team.active) return;
  const Value result[1] = {Ops::finish(total, static_cast<i64>(team.cols))};
  team.hooks.template store<1>(static_cast<Index>(team.row), result);
}

template <LossReduction kLoss>
__device__ __forceinline__ float finish_loss(LossState total) {
  return kLoss == LossReduction::kMean ? div_count(total.sum, static_cast<float>(total.count)) : total.sum;
}

// x[r, t], or 0 when t lies outside the row. To be called after the row's loads have been issued: one access waits for another here.
template <typename Team>
__device__ __forceinline__ float pick_target(const Team& team, i64& target) {
  using Index = typename Team::Index;
  target = team.hooks.target(static_cast<Index>(team.row));
  float picked[1] = {0.0f};
  if (target >= 0 && target < static_cast<i64>(team.cols)) team.hooks.template load<1>(team.base + static_cast<Index>(target), picked);
  return picked[0];
}

// Loss of the team's row in its lane 0; other lanes get nothing.
template <RowConfig kConfig, bool kHeld, typename Team>
__device__ __forceinline__ LossState row_loss(const Team& team, const RowArgs& args) {
  using Index = typename Team::Index;
  __shared__ SoftmaxState shared[Team::kWarps];
  __shared__ float shared_linear[Team::kWarps];
  const bool owner = team.lane == 0 && team.active;
  i64 target = -1;
  float picked = 0.0f;
  float linear = 0.0f;
  SoftmaxState state;
  if constexpr (kHeld) {
    float v[Team::kElems];
    float held_max;
    team.load(0, v, -kInfinity);
    if (owner) picked = pick_target(team, target);
    if constexpr (kConfig.label_smoothing) linear = team.sum_inside(0, v);
    state = softmax_held<Team>(v, held_max, shared);
  } else {
    if (owner) picked = pick_target(team, target);
    state = softmax_streamed<kConfig.label_smoothing>(team, linear, shared);
  }
  if constexpr (kConfig.label_smoothing) linear = merge_team<SumOps, Team::kThreads>(linear, shared_linear);
  if (!owner || target == args.ignore_index) return {0.0f, 0};
  if (target < 0 || target >= static_cast<i64>(team.cols)) return {kNan, 1};
  const float log_sum = logf(state.sum);
  float loss = log_sum + (state.max - picked);
  if constexpr (kConfig.label_smoothing) {
    const float uniform = log_sum + (state.max - div_count(linear, static_cast<float>(team.cols)));
    // Not for 0, which times an infinite loss would be NaN.
    if (args.label_smoothing != 0.0f) loss = (1.0f - args.label_smoothing) * loss + args.label_smoothing * uniform;
  }
  return {loss, 1};
}

// The loss of all rows from those of the block's rows.
template <RowConfig kConfig, typename Hooks>
__device__ __forceinline__ void finish_cross_entropy(const RowArgs& args, const Hooks& hooks, LossState loss) {
  __shared__ LossState shared[kConfig.block_threads / 32];
  if constexpr (kConfig.row_threads < kConfig.block_threads) loss = merge_team<LossOps, kConfig.block_threads>(loss, shared);
  LossState total;
  if (!grid_finish<LossOps, kConfig.block_threads>(args.workspace, loss, shared, total)) return;
  const float result[1] = {finish_loss<kConfig.loss>(total)};
  hooks.template store<1>(0, result);
}

// What with_team calls, one per kind.
struct SoftmaxWork {
  template <bool kHeld, typename Team>
  __device__ __forceinline__ void run(const Team& team) {
    softmax<kHeld>(team);
  }
};

template <Monoid kMonoid>
struct ReduceWork {
  template <bool kHeld, typename Team>
  __device__ __forceinline__ void run(const Team& team) {
    reduce<kMonoid, kHeld>(team);
  }
};

template <RowConfig kConfig>
struct LossWork {
  const RowArgs& args;
  LossState loss;

  template <bool kHeld, typename Team>
  __device__ __forceinline__ void run(const Team& team) {
    loss = row_loss<kConfig, kHeld>(team, args);
    if constexpr (kConfig.loss == LossReduction::kNone) {
      const float result[1] = {loss.sum};
      if (team.lane == 0 && team.active) team.hooks.template store<1>(static_cast<typename Team::Index>(team.row), result);
    }
  }
};

}  // namespace row_detail

// Grid: ceil(rows / (block_threads / row_threads)) blocks; cross entropy with kSum or kMean at least one.
template <RowConfig kConfig, typename Hooks>
__device__ __forceinline__ void row(const RowArgs& args, const Hooks& hooks) {
  constexpr int kLanes = kConfig.row_threads;
  static_assert(kConfig.block_threads >= 32 && kConfig.block_threads <= 1024 && kConfig.block_threads % 32 == 0,
                "row: block_threads must be a multiple of 32 in [32, 1024]");
  static_assert(kLanes >= 1 && kConfig.block_threads % kLanes == 0 && (kLanes % 32 == 0 || (kLanes < 32 && (kLanes & (kLanes - 1)) == 0)),
                "row: row_threads must be a power of two up to 32, or a multiple of 32, and divide block_threads");
  static_assert(kConfig.vector_elems >= 1 && (kConfig.vector_elems & (kConfig.vector_elems - 1)) == 0,
                "row: vector_elems must be a power of two");
  static_assert(kConfig.vectors_per_thread >= 1 && kConfig.vectors_per_thread * kConfig.vector_elems <= 64,
                "row: a thread holds at most 64 elements");
  if (args.rows == 0) {
    if constexpr (kConfig.kind == RowKind::kCrossEntropy && kConfig.loss != LossReduction::kNone) {
      const float result[1] = {kConfig.loss == LossReduction::kMean ? kNan : 0.0f};
      if (threadIdx.x == 0) hooks.template store<1>(0, result);
    }
    return;
  }
  if constexpr (kConfig.kind == RowKind::kSoftmax) {
    row_detail::SoftmaxWork work;
    row_detail::with_team<kConfig>(args, hooks, work);
  } else if constexpr (kConfig.kind == RowKind::kReduce) {
    row_detail::ReduceWork<kConfig.monoid> work;
    row_detail::with_team<kConfig>(args, hooks, work);
  } else {
    row_detail::LossWork<kConfig> work{args, {}};
    row_detail::with_team<kConfig>(args, hooks, work);
    if constexpr (kConfig.loss != LossReduction::kNone) row_detail::finish_cross_entropy<kConfig>(args, hooks, work.loss);
  }
}

}  // namespace tw
