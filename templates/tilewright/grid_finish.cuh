// tilewright/grid_finish.cuh
// One value of the whole grid in one launch, in a fixed order: every block has a state, and thread 0 of the last block gets their merge.
//
// A block passes its state on as 64-bit words {32 bits of payload, 1}: each word says by itself that it is there, so that neither a fence
// nor an atomic operation stands at the end of a block (one counter costs cross entropy over 32768 rows 25 us of 130 on an H200, words 2 to
// 3). Groups of 256 blocks: the last block of a group collects the group before its own, which has nearly always finished by then. The last
// block of the grid collects what is left and then the groups. Who has read a word sets it back to zero.
//
// Workspace: u64 words, zero before the first launch, left zero: workspace_words(blocks). Never shared by launches that may overlap; after
// a launch that did not complete it must be zeroed again. A block waits only for blocks of lower index, and at most one block in 256 waits,
// so that no order of dispatch can fill the device with waiting blocks as long as it holds more than blocks / 256 of them, and none at all
// when lower indices are dispatched first. Any sm_80 or newer.
#pragma once

#include "tilewright/monoid.cuh"
#include "tilewright/ptx.cuh"
#include "tilewright/types.cuh"

namespace tw {

// Passes `state` to the block that will take it. Slots are sizeof(State) / 4 words apart.
template <typename State>
__device__ __forceinline__ void publish_state(u64* slot, State state) {
  static_assert(sizeof(State) % 4 == 0, "grid_finish: a state consists of 32-bit words");
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

inline constexpr i64 kFinishGroup = 256;  // blocks of a group

template <typename State>
__device__ __forceinline__ constexpr i64 workspace_words(i64 blocks) {
  return static_cast<i64>(sizeof(State) / 4) * (blocks + (blocks + kFinishGroup - 1) / kFinishGroup);
}

// Merges `count` slots from `slots` on over the kThreads threads of the block; every thread gets the result.
template <typename Ops, int kThreads>
__device__ __forceinline__ typename Ops::State collect_states(u64* slots, i64 count, typename Ops::State* shared) {
  using State = typename Ops::State;
  State total = Ops::identity();
  for (i64 i = static_cast<i64>(threadIdx.x); i < count; i += kThreads) {
    total = Ops::merge(total, take_state<State>(slots + i * static_cast<i64>(sizeof(State) / 4)));
  }
  __syncthreads();  // whoever still reads `shared` from before
  return merge_team<Ops, kThreads>(total, shared);
}

// All threads of a one-dimensional grid of blocks of kThreads threads call this once, thread 0 with the state of its block. True in
// thread 0 of the last block alone, which has `result`. `shared`: a state per warp; others may
// still be reading it.
template <typename Ops, int kThreads>
__device__ __forceinline__ bool grid_finish(u64* workspace, typename Ops::State mine, typename Ops::State* shared,
                                            typename Ops::State& result) {
  using State = typename Ops::State;
  constexpr i64 kWords = static_cast<i64>(sizeof(State) / 4);
  const i64 block = static_cast<i64>(blockIdx.x);
  const i64 blocks = static_cast<i64>(gridDim.x);
  result = mine;
  if (blocks == 1) return threadIdx.x == 0;
  const bool last = block == blocks - 1;
  if (threadIdx.x == 0) publish_state(workspace + block * kWords, mine);
  if (!last && block % kFinishGroup != kFinishGroup - 1) return false;
  u64* const group_slots = workspace + blocks * kWords;
  const i64 group = block / kFinishGroup;
  // 0: the group before, 1: the last group, 2: the groups. One copy of the code for all three.
#pragma unroll 1
  for (int step = group > 0 ? 0 : 1; step < (last ? 3 : 1); ++step) {
    const i64 first = step == 0 ? (group - 1) * kFinishGroup : group * kFinishGroup;
    u64* const slots = step == 2 ? group_slots : workspace + first * kWords;
    const State part = collect_states<Ops, kThreads>(slots, step == 0 ? kFinishGroup : step == 1 ? blocks - first : group, shared);
    if (step == 0) {
      if (threadIdx.x == 0) publish_state(group_slots + (group - 1) * kWords, part);
    } else {
      result = step == 1 ? part : Ops::merge(part, result);
    }
  }
  return last && threadIdx.x == 0;
}

}  // namespace tw
