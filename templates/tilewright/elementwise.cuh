// tilewright/elementwise.cuh
// out[i] = f(operands at i) for i in [0, elements), linear row-major. The hooks own operands, broadcasting, dtypes, f and the store:
// `template <int V> void apply(Index i) const` does all of it for elements i..i+V-1.
// A block owns block_threads * vector_elems * vectors_per_thread adjacent elements; each thread's vectors lie one block width apart, so
// that every access of a warp is contiguous and vectors_per_thread of them are in flight. No accumulation.
// Nothing but the config is baked in. Any sm_80 or newer. A misaligned operand takes the scalar path of the same kernel; the elements
// behind the last whole vector are applied one by one.
#pragma once

#include "tilewright/types.cuh"

namespace tw {

struct ElementwiseConfig {
  int block_threads = 256;     // threads of a block, a multiple of 32
  int vector_elems = 1;        // V: elements of one apply; 1 = scalar accesses only
  int vectors_per_thread = 1;  // applies of a thread, independent of each other
};

struct ElementwiseArgs {
  i64 elements;      // output elements
  u32 misalignment;  // OR of all operand addresses & 15; 0 lets vectors be used
};

namespace elementwise_detail {

// `count` elements from `base` on, V at a time. Whole chunks carry no bounds checks, so that all loads can be issued ahead of the stores.
template <ElementwiseConfig kConfig, int V, typename Hooks>
__device__ __forceinline__ void apply_chunk(const ElementwiseArgs& args, const Hooks& hooks, i64 base) {
  using Index = typename Hooks::Index;
  constexpr int kThreads = kConfig.block_threads;
  constexpr int kUnroll = kConfig.vectors_per_thread * (kConfig.vector_elems / V);
  constexpr i64 kChunk = i64{kThreads} * V * kUnroll;
  const int thread = static_cast<int>(threadIdx.x);
  const Index first = static_cast<Index>(base) + thread * V;
  if (base + kChunk <= args.elements) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) hooks.template apply<V>(first + u * kThreads * V);
    return;
  }
  const int left = static_cast<int>(args.elements - base);  // in (0, kChunk)
#pragma unroll 1
  for (int u = 0; u < kUnroll; ++u) {
    const int offset = (u * kThreads + thread) * V;
    if (offset + V <= left) {
      hooks.template apply<V>(static_cast<Index>(base) + offset);
    } else if (V > 1) {
#pragma unroll 1
      for (int e = offset; e < left; ++e) hooks.template apply<1>(static_cast<Index>(base) + e);
    }
  }
}

}  // namespace elementwise_detail

// Grid: ceil(elements / (block_threads * vector_elems * vectors_per_thread)) blocks.
template <ElementwiseConfig kConfig, typename Hooks>
__device__ __forceinline__ void elementwise(const ElementwiseArgs& args, const Hooks& hooks) {
  static_assert(kConfig.block_threads >= 32 && kConfig.block_threads <= 1024 && kConfig.block_threads % 32 == 0,
                "elementwise: block_threads must be a multiple of 32 in [32, 1024]");
  static_assert(kConfig.vector_elems >= 1 && (kConfig.vector_elems & (kConfig.vector_elems - 1)) == 0,
                "elementwise: vector_elems must be a power of two");
  static_assert(kConfig.vectors_per_thread >= 1, "elementwise: vectors_per_thread must be positive");
  constexpr int kVector = kConfig.vector_elems;
  constexpr i64 kChunk = i64{kConfig.block_threads} * kVector * kConfig.vectors_per_thread;
  const i64 base = static_cast<i64>(blockIdx.x) * kChunk;
  if (base >= args.elements) return;
  if (kVector > 1 && args.misalignment == 0) {
    elementwise_detail::apply_chunk<kConfig, kVector>(args, hooks, base);
  } else {
    elementwise_detail::apply_chunk<kConfig, 1>(args, hooks, base);
  }
}

}  // namespace tw
