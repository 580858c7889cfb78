// tilewright/reduce.cuh
// y[kept] = sum, mean, min or max over the reduced dimensions of x, whose dimensions are eight in turn: sizes = {k0, r0, .., k3, r3}
// (k kept, r reduced, row-major, r3 innermost; unused ones are 1). Any reduction over any axes collapses to this form when its dimensions
// alternate no more than that. o numbers the outputs in the order of k0 .. k3, r what is summed up for each in the order of r0 .. r3.
//
// team_threads threads share an output. Column mode (r3 baked as 1): adjacent threads have adjacent outputs, vector_elems each, so that
// reads run along k3. Row mode: adjacent threads of a team read adjacent elements of r3.
// With splits > 1 that many blocks share a tile of outputs, each taking a part of r; the others pass their results as self-validating words
// to the last one, which merges them in a fixed order. Blocks of a tile are neighbours, and only the last waits.
// Workspace: u64 words, zero before the first launch, left zero: sizeof(Value) / 4 * tiles * splits * outputs of a tile.
// Accumulation: f32 with compensated sums over groups of `unroll` vectors, or the integer type itself. No element gives the identity, mean
// NaN. Baked in: the config, sizes unless 0. Any sm_80 or newer.
#pragma once

#include "tilewright/index.cuh"
#include "tilewright/math.cuh"
#include "tilewright/memory.cuh"
#include "tilewright/monoid.cuh"
#include "tilewright/ptx.cuh"
#include "tilewright/types.cuh"

namespace tw {

struct ReduceConfig {
  Monoid monoid = Monoid::kSum;
  int block_threads = 256;  // T, a multiple of 32
  int team_threads = 256;   // L, threads that share an output; divides T; row mode: a power of two up to 32, or a multiple of 32
  int vector_elems = 1;     // V, elements of a vector access
  int unroll = 4;           // U, vectors of a thread in flight
  int splits = 1;           // S, blocks that share a tile of outputs
  i64 sizes[8] = {0, 0, 0, 0, 0, 0, 0, 0};  // k0, r0, k1, r1, k2, r2, k3, r3; 0 = in the args
};

struct ReduceArgs {
  u64* workspace;    // used when splits > 1
  i64 sizes[8];      // k0, r0, k1, r1, k2, r2, k3, r3
  u32 misalignment;  // OR of all operand addresses & 15; 0 lets vectors be used
};

namespace reduce_detail {

template <ReduceConfig kConfig, typename Index>
struct Shape {
  Index k0, r0, k1, r1, k2, r2, k3, r3;

  __device__ __forceinline__ explicit Shape(const ReduceArgs& args)
      : k0(size<0>(args)),
        r0(size<1>(args)),
        k1(size<2>(args)),
        r1(size<3>(args)),
        k2(size<4>(args)),
        r2(size<5>(args)),
        k3(size<6>(args)),
        r3(size<7>(args)) {}

  template <int kDim>
  static __device__ __forceinline__ Index size(const ReduceArgs& args) {
    return static_cast<Index>(kConfig.sizes[kDim] > 0 ? kConfig.sizes[kDim] : args.sizes[kDim]);
  }

  __device__ __forceinline__ Index outputs() const { return k0 * k1 * k2 * k3; }
  __device__ __forceinline__ Index reduced() const { return r0 * r1 * r2 * r3; }

  // Index of x for output o and r = 0.
  __device__ __forceinline__ Index output_offset(Index o) const {
    const Split<Index> third = split(o, k3);
    const Split<Index> second = split(third.quotient, k2);
    const Split<Index> first = split(second.quotient, k1);
    const Index outer = (first.quotient * r0 * k1 + first.remainder) * r1 * k2 + second.remainder;
    return (outer * r2 * k3 + third.remainder) * r3;
  }

  // What r adds to it.
  __device__ __forceinline__ Index reduced_offset(Index r) const {
    const Split<Index> third = split(r, r3);
    const Split<Index> second = split(third.quotient, r2);
    const Split<Index> first = split(second.quotient, r1);
    const Index outer = (first.quotient * k1 * r1 + first.remainder) * k2 * r2 + second.remainder;
    return outer * k3 * r3 + third.remainder;
  }
};

// A thread's part: kOut outputs from o on, and of what is reduced the vectors `member`, `member + L`, ... of the block's range.
template <ReduceConfig kConfig, int V, typename Hooks>
struct Worker {
  using Index = typename Hooks::Index;
  using Value = typename Hooks::Value;
  using Ops = MonoidOf<kConfig.monoid, Value>;
  static constexpr bool kColumn = kConfig.sizes[7] == 1;
  static constexpr int kTeam = kConfig.team_threads;
  static constexpr int kTeams = kConfig.block_threads / kTeam;
  static constexpr int kOut = kColumn ? V : 1;   // outputs of a thread
  static constexpr int kStep = kColumn ? 1 : V;  // reduced elements of a load
  static constexpr int kUnroll = kConfig.unroll;
  static constexpr int kSlots = kTeams * (kColumn ? kConfig.vector_elems : 1);  // outputs of a tile
  static constexpr int kRounds = kSlots / (kTeams * kOut);  // passes of a block over its tile: 1, or V when reads are scalar
  static constexpr int kWords = static_cast<int>(sizeof(Value) / 4);

  const Hooks& hooks;
  const Shape<kConfig, Index> shape;
  int member, team;

  __device__ __forceinline__ Worker(const ReduceArgs& args, const Hooks& h) : hooks(h), shape(args) {
    const int thread = static_cast<int>(threadIdx.x);
    member = kColumn ? thread / kTeams : thread % kTeam;
    team = kColumn ? thread % kTeams : thread / kTeam;
  }

  // Merges the elements r of [begin, end) that are this thread's; the outputs are o..o+kOut-1, and all exist.
  __device__ __forceinline__ void accumulate(Index o, Index begin, Index end, Value (&total)[kOut]) const {
    Running<kConfig.monoid, Value> running[kOut];
    const Index base = shape.output_offset(o);
    constexpr int kStride = kTeam * kStep;
    for (i64 at = static_cast<i64>(begin) + member * kStep; at < end; at += i64{kStride} * kUnroll) {
      Value v[kUnroll][V];
      const bool whole = at + i64{kStride} * (kUnroll - 1) < end;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        splat_vector<V>(Ops::identity(), v[u]);
        const i64 r = at + u * kStride;
        if (whole || r < end) hooks.template load<V>(base + shape.reduced_offset(static_cast<Index>(r)), v[u]);
      }
      if constexpr (kColumn) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          Value column[kUnroll];
#pragma unroll
          for (int u = 0; u < kUnroll; ++u) column[u] = v[u][e];
          running[e].add(merge_values<Ops>(column));
        }
      } else {
        Value all[kUnroll * V];
#pragma unroll
        for (int i = 0; i < kUnroll * V; ++i) all[i] = v[i / V][i % V];
        running[0].add(merge_values<Ops>(all));
      }
    }
#pragma unroll
    for (int e = 0; e < kOut; ++e) total[e] = running[e].result();
  }

  // Merges over the team; its member 0 gets the result. `shared` holds kOut values per thread and nobody uses it when this begins.
  __device__ __forceinline__ void merge(Value (&total)[kOut], Value* shared) const {
    if constexpr (!kColumn) {
      total[0] = merge_team<Ops, kTeam>(total[0], shared);
    } else if constexpr (kTeam > 1) {
#pragma unroll
      for (int e = 0; e < kOut; ++e) shared[(member * kOut + e) * kTeams + team] = total[e];
#pragma unroll
      for (int half = kTeam / 2; half > 0; half /= 2) {
        __syncthreads();
        if (member < half) {
#pragma unroll
          for (int e = 0; e < kOut; ++e) {
            total[e] = Ops::merge(total[e], shared[((member + half) * kOut + e) * kTeams + team]);
            shared[(member * kOut + e) * kTeams + team] = total[e];
          }
        }
      }
    }
  }

  __device__ __forceinline__ void store(Index o, const Value (&total)[kOut]) const {
    Value result[kOut];
#pragma unroll
    for (int e = 0; e < kOut; ++e) result[e] = Ops::finish(total[e], static_cast<i64>(shape.reduced()));
    hooks.template store<kOut>(o, result);
  }
};

// Passes `state` to the block that will take it, as 64-bit words {32 bits of payload, 1} that say by themselves that they are there.
template <typename State>
__device__ __forceinline__ void publish_state(u64* slot, State state) {
  static_assert(sizeof(State) % 4 == 0, "reduce: a state consists of 32-bit words");
  struct Words {
    u32 word[sizeof(State) / 4];
  };
  const Words words = __builtin_bit_cast(Words, state);
#pragma unroll
  for (int w = 0; w < static_cast<int>(sizeof(State) / 4); ++w) {
    ptx::st_relaxed_gpu_global_u64(slot + w, u64{1} << 32 | words.word[w]);
  }
}

// Waits for the state of a slot and leaves the slot zero.
template <typename State>
__device__ __forceinline__ State take_state(u64* slot) {
  constexpr int kWords = static_cast<int>(sizeof(State) / 4);
  struct Words {
    u32 word[kWords];
  };
  u64 raw[kWords];
  bool complete = false;
  while (!complete) {
    complete = true;
#pragma unroll
    for (int w = 0; w < kWords; ++w) raw[w] = ptx::ld_relaxed_gpu_global_u64(slot + w);
#pragma unroll
    for (int w = 0; w < kWords; ++w) complete = complete && raw[w] >> 32 != 0;
  }
  Words words;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    words.word[w] = static_cast<u32>(raw[w]);
    ptx::st_relaxed_gpu_global_u64(slot + w, 0);
  }
  return __builtin_bit_cast(State, words);
}

// A block's part of its tile: `split` of S equal ranges of r, whole vectors each.
template <ReduceConfig kConfig, int V, typename Hooks>
__device__ __forceinline__ void run(const ReduceArgs& args, const Hooks& hooks) {
  using Work = Worker<kConfig, V, Hooks>;
  using Index = typename Hooks::Index;
  using Value = typename Hooks::Value;
  using Ops = typename Work::Ops;
  constexpr int kSplits = kConfig.splits;
  __shared__ Value shared[kConfig.block_threads * Work::kOut];
  const Work work(args, hooks);
  const i64 tile = static_cast<i64>(blockIdx.x) / kSplits;
  const int split = static_cast<int>(static_cast<i64>(blockIdx.x) - tile * kSplits);
  const i64 reduced = static_cast<i64>(work.shape.reduced());
  constexpr i64 kGrain = i64{Work::kTeam} * kConfig.vector_elems;
  const i64 range = kSplits == 1 ? reduced : (reduced + kSplits * kGrain - 1) / (kSplits * kGrain) * kGrain;
  const i64 begin = range * split < reduced ? range * split : reduced;
  const i64 end = reduced - begin < range ? reduced : begin + range;
#pragma unroll 1
  for (int round = 0; round < Work::kRounds; ++round) {
    const int slot = (round * Work::kTeams + work.team) * Work::kOut;  // of the tile, of the thread's first output
    const i64 o = tile * Work::kSlots + slot;
    const bool active = o < static_cast<i64>(work.shape.outputs());
    Value total[Work::kOut];
    splat_vector<Work::kOut>(Ops::identity(), total);
    if (active) work.accumulate(static_cast<Index>(o), static_cast<Index>(begin), static_cast<Index>(end), total);
    if (Work::kRounds > 1 && round > 0) __syncthreads();  // shared is in use by the round before
    work.merge(total, shared);
    if constexpr (kSplits > 1) {
      u64* const words = args.workspace + (tile * kSplits * Work::kSlots + slot) * Work::kWords;
      constexpr i64 kNext = i64{Work::kSlots} * Work::kWords;  // words of a split
      if (split != kSplits - 1) {
        if (work.member == 0 && active) {
#pragma unroll
          for (int e = 0; e < Work::kOut; ++e) publish_state(words + split * kNext + e * Work::kWords, total[e]);
        }
        continue;
      }
      if (work.member != 0) splat_vector<Work::kOut>(Ops::identity(), total);
      if (active) {
        for (int other = work.member; other < kSplits - 1; other += Work::kTeam) {
#pragma unroll
          for (int e = 0; e < Work::kOut; ++e) {
            total[e] = Ops::merge(total[e], take_state<Value>(words + other * kNext + e * Work::kWords));
          }
        }
      }
      __syncthreads();
      work.merge(total, shared);
    }
    if (work.member == 0 && active) work.store(static_cast<Index>(o), total);
  }
}

}  // namespace reduce_detail

// Grid: splits * ceil(outputs / P) blocks, P = (block_threads / team_threads) * (column mode: vector_elems, row mode: 1).
template <ReduceConfig kConfig, typename Hooks>
__device__ __forceinline__ void reduce(const ReduceArgs& args, const Hooks& hooks) {
  constexpr bool kColumn = kConfig.sizes[7] == 1;
  constexpr int kTeam = kConfig.team_threads;
  constexpr bool kPowerOfTwo = kTeam >= 1 && (kTeam & (kTeam - 1)) == 0;
  static_assert(kConfig.block_threads >= 32 && kConfig.block_threads <= 1024 && kConfig.block_threads % 32 == 0,
                "reduce: block_threads must be a multiple of 32 in [32, 1024]");
  static_assert(kConfig.block_threads % kTeam == 0 && (kColumn ? kPowerOfTwo : kTeam % 32 == 0 || (kPowerOfTwo && kTeam < 32)),
                "reduce: team_threads must be a power of two (row mode: or a multiple of 32) that divides block_threads");
  static_assert(kConfig.vector_elems >= 1 && (kConfig.vector_elems & (kConfig.vector_elems - 1)) == 0,
                "reduce: vector_elems must be a power of two");
  static_assert(kConfig.unroll >= 1 && kConfig.unroll * kConfig.vector_elems <= 64, "reduce: at most 64 elements in flight a thread");
  static_assert(kConfig.splits >= 1, "reduce: splits must be positive");
  constexpr int kVector = kConfig.vector_elems;
  constexpr int kInner = kColumn ? 6 : 7;
  const i64 inner = kConfig.sizes[kInner] > 0 ? kConfig.sizes[kInner] : args.sizes[kInner];
  if (kVector > 1 && args.misalignment == 0 && inner % kVector == 0) {
    reduce_detail::run<kConfig, kVector>(args, hooks);
  } else {
    reduce_detail::run<kConfig, 1>(args, hooks);
  }
}

}  // namespace tw
