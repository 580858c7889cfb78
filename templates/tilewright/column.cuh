// tilewright/column.cuh
// Softmax over an axis that is not innermost: with x viewed as [outer, axis, inner],
//   y[p,a,q] = exp(x[p,a,q] - max_a x[p,a,q]) / sum_a exp(x[p,a,q] - max_a x[p,a,q]).
// A column is one (p, q). A thread owns vector_elems adjacent columns, or shares them with the axis_threads - 1 other threads of its block
// that have the same columns (each takes every axis_threads-th entry); adjacent threads have adjacent columns. Entries stay in registers
// when `held` of them per thread cover the axis, and x is read once; otherwise a first pass keeps a running maximum and sum, and a second
// one reads x again. Accumulation f32, combined in a fixed order.
// A column with a NaN or +infinity, or with nothing but -infinity, is all NaN.
// Baked in: axis and inner where the config has them. Any sm_80 or newer.
#pragma once

#include "tilewright/index.cuh"
#include "tilewright/math.cuh"
#include "tilewright/types.cuh"

namespace tw {

struct ColumnConfig {
  int block_threads = 256;  // T, a multiple of 32
  int axis_threads = 1;     // threads that share a column, a power of two that divides block_threads
  int vector_elems = 1;     // V: adjacent columns of a thread
  int held = 0;             // axis entries a thread keeps in registers; 0 = two passes over x
  int unroll = 4;           // entries loaded at once by the two passes
  i64 axis = 0;             // entries of a column; 0 = in the args
  i64 inner = 0;            // columns side by side; 0 = in the args
};

struct ColumnArgs {
  i64 outer;
  i64 axis;
  i64 inner;
  u32 misalignment;  // OR of all operand addresses & 15; 0 lets vectors be used
};

namespace column_detail {

// Maximum or sum of `values` over the threads that share a column; every thread gets it. `shared` holds vector_elems * block_threads
// floats.
template <ColumnConfig kConfig, bool kMaximum, int V>
__device__ __forceinline__ void combine(float (&values)[V], float* shared) {
  constexpr int kAcross = kConfig.block_threads / kConfig.axis_threads;
  if constexpr (kConfig.axis_threads > 1) {
    const int slot = static_cast<int>(threadIdx.x);
    const int lane = slot / kAcross;
#pragma unroll
    for (int v = 0; v < V; ++v) shared[v * kConfig.block_threads + slot] = values[v];
#pragma unroll 1
    for (int half = kConfig.axis_threads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane < half) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          float* mine = shared + v * kConfig.block_threads + slot;
          const float other = mine[half * kAcross];
          *mine = kMaximum ? max_nan(*mine, other) : *mine + other;
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) values[v] = shared[v * kConfig.block_threads + slot % kAcross];
    __syncthreads();  // the slots may be written again
  }
}

// exp(x - shift) must not see -infinity minus itself before the whole column is known.
__device__ __forceinline__ float finite_shift(float maximum) { return maximum == -kInfinity ? 0.0f : maximum; }

// Softmax of V columns whose entries lie `stride` elements apart from `base` on; everything in registers.
template <ColumnConfig kConfig, int V, typename Hooks>
__device__ __forceinline__ void held_columns(const Hooks& hooks, typename Hooks::Index base, typename Hooks::Index stride, i64 axis,
                                             int lane, bool active, float* shared) {
  constexpr int kHeld = kConfig.held;
  float values[kHeld][V];
  float maximum[V], sum[V];
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int entry = h * kConfig.axis_threads + lane;
#pragma unroll
    for (int v = 0; v < V; ++v) values[h][v] = -kInfinity;
    if (active && entry < axis) hooks.template load<V>(base + entry * stride, values[h]);
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    maximum[v] = values[0][v];
#pragma unroll
    for (int h = 1; h < kHeld; ++h) maximum[v] = max_nan(maximum[v], values[h][v]);
  }
  combine<kConfig, true>(maximum, shared);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    sum[v] = 0.0f;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      values[h][v] = exp_fast(values[h][v] - maximum[v]);
      if (h * kConfig.axis_threads + lane < axis) sum[v] += values[h][v];
    }
  }
  combine<kConfig, false>(sum, shared);
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 1.0f / sum[v];
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int entry = h * kConfig.axis_threads + lane;
#pragma unroll
    for (int v = 0; v < V; ++v) values[h][v] *= sum[v];
    if (active && entry < axis) hooks.template store<V>(base + entry * stride, values[h]);
  }
}

// Takes kCount entries into the running maximum and sum of exponentials.
template <int kCount, int V>
__device__ __forceinline__ void absorb(const float (&values)[kCount][V], float (&maximum)[V], float (&sum)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float next = maximum[v];
#pragma unroll
    for (int u = 0; u < kCount; ++u) next = max_nan(next, values[u][v]);
    const float shift = finite_shift(next);
    float added = 0.0f;
#pragma unroll
    for (int u = 0; u < kCount; ++u) added += exp_fast(values[u][v] - shift);
    sum[v] = sum[v] * exp_fast(maximum[v] - shift) + added;
    maximum[v] = next;
  }
}

template <ColumnConfig kConfig, int V, typename Hooks>
__device__ __forceinline__ void streamed_columns(const Hooks& hooks, typename Hooks::Index base, typename Hooks::Index stride, i64 axis,
                                                 int lane, bool active, float* shared) {
  constexpr int kUnroll = kConfig.unroll;
  constexpr int kStep = kConfig.axis_threads;
  using Index = typename Hooks::Index;
  const i64 end = active ? axis : 0;
  float maximum[V], sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) maximum[v] = -kInfinity, sum[v] = 0.0f;
  i64 entry = lane;
#pragma unroll 1
  for (; entry + (kUnroll - 1) * kStep < end; entry += kUnroll * kStep) {
    float values[kUnroll][V];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) hooks.template load<V>(base + static_cast<Index>(entry + u * kStep) * stride, values[u]);
    absorb(values, maximum, sum);
  }
#pragma unroll 1
  for (; entry < end; entry += kStep) {
    float values[1][V];
    hooks.template load<V>(base + static_cast<Index>(entry) * stride, values[0]);
    absorb(values, maximum, sum);
  }
  float whole[V], inverse[V];
#pragma unroll
  for (int v = 0; v < V; ++v) whole[v] = maximum[v];
  combine<kConfig, true>(whole, shared);
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] *= exp_fast(maximum[v] - finite_shift(whole[v]));
  combine<kConfig, false>(sum, shared);
#pragma unroll
  for (int v = 0; v < V; ++v) inverse[v] = 1.0f / sum[v];
  entry = lane;
#pragma unroll 1
  for (; entry + (kUnroll - 1) * kStep < end; entry += kUnroll * kStep) {
    float values[kUnroll][V];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) hooks.template load<V>(base + static_cast<Index>(entry + u * kStep) * stride, values[u]);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int v = 0; v < V; ++v) values[u][v] = exp_fast(values[u][v] - whole[v]) * inverse[v];
      hooks.template store<V>(base + static_cast<Index>(entry + u * kStep) * stride, values[u]);
    }
  }
#pragma unroll 1
  for (; entry < end; entry += kStep) {
    float values[V];
    hooks.template load<V>(base + static_cast<Index>(entry) * stride, values);
#pragma unroll
    for (int v = 0; v < V; ++v) values[v] = exp_fast(values[v] - whole[v]) * inverse[v];
    hooks.template store<V>(base + static_cast<Index>(entry) * stride, values);
  }
}

template <ColumnConfig kConfig, int V, typename Hooks>
__device__ __forceinline__ void columns(const ColumnArgs& args, const Hooks& hooks, i64 column, float* shared) {
  using Index = typename Hooks::Index;
  const i64 axis = kConfig.axis > 0 ? kConfig.axis : args.axis;
  const i64 inner = kConfig.inner > 0 ? kConfig.inner : args.inner;
  const int lane = static_cast<int>(threadIdx.x) / (kConfig.block_threads / kConfig.axis_threads);
  const bool active = column < args.outer * inner;
  const Index at = active ? static_cast<Index>(column) : 0;
  const Split<Index> place = split(at, static_cast<Index>(inner));
  const Index base = place.quotient * static_cast<Index>(axis * inner) + place.remainder;
  if constexpr (kConfig.held > 0) {
    if (axis <= kConfig.held * kConfig.axis_threads) {
      held_columns<kConfig, V>(hooks, base, static_cast<Index>(inner), axis, lane, active, shared);
      return;
    }
  }
  streamed_columns<kConfig, V>(hooks, base, static_cast<Index>(inner), axis, lane, active, shared);
}

}  // namespace column_detail

// Grid: ceil(outer * inner / (block_threads / axis_threads * vector_elems)) blocks.
template <ColumnConfig kConfig, typename Hooks>
__device__ __forceinline__ void column_softmax(const ColumnArgs& args, const Hooks& hooks) {
  static_assert(kConfig.block_threads >= 32 && kConfig.block_threads % 32 == 0, "column: block_threads must be a multiple of 32");
  static_assert(kConfig.axis_threads >= 1 && (kConfig.axis_threads & (kConfig.axis_threads - 1)) == 0 &&
                    kConfig.block_threads % kConfig.axis_threads == 0,
                "column: axis_threads must be a power of two that divides block_threads");
  static_assert(kConfig.unroll >= 1 && kConfig.held >= 0 && kConfig.vector_elems >= 1, "column: unroll and vector_elems must be positive");
  constexpr int kV = kConfig.vector_elems;
  constexpr int kAcross = kConfig.block_threads / kConfig.axis_threads;
  constexpr int kShared = kConfig.axis_threads > 1 ? kV * kConfig.block_threads : 1;
  __shared__ float shared[kShared];
  const i64 inner = kConfig.inner > 0 ? kConfig.inner : args.inner;
  const i64 first = static_cast<i64>(blockIdx.x) * (kAcross * kV);
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  if (kV > 1 && args.misalignment == 0 && inner % kV == 0) {
    column_detail::columns<kConfig, kV>(args, hooks, first + across * kV, shared);
    return;
  }
#pragma unroll 1
  for (int v = 0; v < kV; ++v) column_detail::columns<kConfig, 1>(args, hooks, first + v * kAcross + across, shared);
}

}  // namespace tw
