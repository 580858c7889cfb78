// tilewright/monoid.cuh
// What reductions sum up: sum, min and max over a compute type (mean is a sum divided at the end), and how threads of a warp and warps of
// a block combine their parts. Every order is fixed by the thread numbers, so the bits are the same on every run. Any sm_80 or newer.
#pragma once

#include "tilewright/math.cuh"
#include "tilewright/types.cuh"

namespace tw {

enum class Monoid { kSum, kMean, kMin, kMax };

template <Monoid kMonoid, typename Value>
struct MonoidOf {
  using State = Value;
  static __device__ __forceinline__ Value identity() {
    if constexpr (kMonoid == Monoid::kMin) return highest<Value>();
    if constexpr (kMonoid == Monoid::kMax) return lowest<Value>();
    return Value(0);
  }
  static __device__ __forceinline__ Value merge(Value a, Value b) {
    if constexpr (kMonoid == Monoid::kMin) return min_int(a, b);
    if constexpr (kMonoid == Monoid::kMax) return max_int(a, b);
    return add_int(a, b);
  }
  // The result of `count` elements.
  static __device__ __forceinline__ Value finish(Value total, i64 count) {
    if constexpr (kMonoid == Monoid::kMean) return div_int(total, static_cast<Value>(count));
    return total;
  }
};
template <Monoid kMonoid>
struct MonoidOf<kMonoid, float> {
  using State = float;
  static __device__ __forceinline__ float identity() {
    if constexpr (kMonoid == Monoid::kMin) return kInfinity;
    if constexpr (kMonoid == Monoid::kMax) return -kInfinity;
    return 0.0f;
  }
  static __device__ __forceinline__ float merge(float a, float b) {
    if constexpr (kMonoid == Monoid::kMin) return min_nan(a, b);
    if constexpr (kMonoid == Monoid::kMax) return max_nan(a, b);
    return a + b;
  }
  static __device__ __forceinline__ float finish(float total, i64 count) {
    if constexpr (kMonoid == Monoid::kMean) return div_count(total, static_cast<float>(count));
    return total;
  }
};

// A running total over many blocks of a few elements.
template <Monoid kMonoid, typename Value>
struct Running {
  using Ops = MonoidOf<kMonoid, Value>;
  Value total = Ops::identity();
  __device__ __forceinline__ void add(Value value) { total = Ops::merge(total, value); }
  __device__ __forceinline__ Value result() const { return total; }
};

// Sums of floats keep what each rounding lost, so that their error does not grow with the length. An infinite or NaN total stays so.
struct RunningSum {
  float total = 0.0f;
  float lost = 0.0f;
  __device__ __forceinline__ void add(float value) {
    const float next = total + value;
    const float added = next - total;
    lost += (total - (next - added)) + (value - added);
    total = next;
  }
  __device__ __forceinline__ void scale(float factor) {
    total *= factor;
    lost *= factor;
  }
  __device__ __forceinline__ float result() const {
    const float exact = total + lost;
    return exact == exact ? exact : total;  // `lost` is NaN once the total is infinite
  }
};
template <>
struct Running<Monoid::kSum, float> : RunningSum {};
template <>
struct Running<Monoid::kMean, float> : RunningSum {};

// Merges kCount values in a fixed order, in four independent chains.
template <typename Ops, int kCount>
__device__ __forceinline__ typename Ops::State merge_values(const typename Ops::State (&v)[kCount]) {
  constexpr int kChains = kCount < 4 ? kCount : 4;
  typename Ops::State chain[kChains];
#pragma unroll
  for (int i = 0; i < kCount; ++i) chain[i % kChains] = i < kChains ? v[i] : Ops::merge(chain[i % kChains], v[i]);
  typename Ops::State total = chain[0];
#pragma unroll
  for (int i = 1; i < kChains; ++i) total = Ops::merge(total, chain[i]);
  return total;
}

// The value that lane ^ offset of the warp holds; all 32 lanes take part. State: plain data in whole 32-bit words.
template <typename State>
__device__ __forceinline__ State shuffle_xor(State state, int offset) {
  static_assert(sizeof(State) % 4 == 0, "monoid: a state consists of 32-bit words");
  struct Words {
    u32 word[sizeof(State) / 4];
  };
  Words words = __builtin_bit_cast(Words, state);
#pragma unroll
  for (int w = 0; w < static_cast<int>(sizeof(State) / 4); ++w) words.word[w] = __shfl_xor_sync(0xffffffffu, words.word[w], offset);
  return __builtin_bit_cast(State, words);
}

// Merges over the kLanes (a power of two) adjacent lanes that share lane / kLanes; every one of them gets the result. All lanes take part.
template <typename Ops, int kLanes>
__device__ __forceinline__ typename Ops::State merge_lanes(typename Ops::State state) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) state = Ops::merge(state, shuffle_xor(state, offset));
  return state;
}

__host__ __device__ constexpr int bit_ceil(int value) {
  int power = 1;
  while (power < value) power *= 2;
  return power;
}

// The combined state of kThreads threads that share a row: adjacent lanes of a warp, or whole adjacent warps. Every thread gets it. With
// kThreads > 32 all threads of the block take part (one barrier), and `shared` holds a state per warp of the block, not in use by
// anybody when the first thread comes here.
template <typename Ops, int kThreads>
__device__ __forceinline__ typename Ops::State merge_team(typename Ops::State state, typename Ops::State* shared) {
  if constexpr (kThreads <= 32) {
    return merge_lanes<Ops, kThreads>(state);
  } else {
    constexpr int kWarps = kThreads / 32;
    constexpr int kLanes = bit_ceil(kWarps);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    state = merge_lanes<Ops, 32>(state);
    if (lane == 0) shared[warp] = state;
    __syncthreads();
    const int peer = lane % kLanes;
    const typename Ops::State other = peer < kWarps ? shared[warp / kWarps * kWarps + peer] : Ops::identity();
    return merge_lanes<Ops, kLanes>(other);
  }
}

}  // namespace tw
