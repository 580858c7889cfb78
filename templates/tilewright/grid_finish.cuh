// tilewright/grid_finish.cuh
// One value of the whole grid in one launch, in a fixed order: every block has a state, and thread 0 of the last block gets their merge.
//
// A block passes its state on as one 64-bit word that is not 0 (Ops::pack and unpack): the word says by itself that it is there, so that
// neither a fence nor an atomic operation stands at the end of a block (one counter costs cross entropy over 32768 rows 25 us of 130 on an
// H200, words 2 to 3). Groups of 256 blocks: the last block of a group collects the group before its own, which has nearly always finished
// by then. The last block of the grid collects what is left and then the groups. Who has read a word sets it back to zero.
//
// Workspace: u64 words, zero before the first launch, left zero: finish_words(blocks). Never shared by launches that may overlap; after
// a launch that did not complete it must be zeroed again. A block waits only for blocks of lower index, and at most one block in 256 waits,
// so that no order of dispatch can fill the device with waiting blocks as long as it holds more than blocks / 256 of them, and none at all
// when lower indices are dispatched first. Any sm_80 or newer.
#pragma once

#include "tilewright/monoid.cuh"
#include "tilewright/ptx.cuh"
#include "tilewright/types.cuh"

namespace tw {

inline constexpr i64 kFinishGroup = 256;  // blocks of a group

__host__ __device__ constexpr i64 finish_words(i64 blocks) { return blocks + (blocks + kFinishGroup - 1) / kFinishGroup; }

// Waits for a slot's word and leaves the slot zero.
__device__ __forceinline__ u64 take_word(u64* slot) {
  u64 word;
  do {
    word = ptx::ld_relaxed_gpu_global_u64(slot);
  } while (word == 0);
  ptx::st_relaxed_gpu_global_u64(slot, 0);
  return word;
}

// Merges `count` slots from `slots` on over the kThreads threads of the block; every thread gets the result.
template <typename Ops, int kThreads>
__device__ __forceinline__ typename Ops::State collect_states(u64* slots, i64 count, typename Ops::State* shared) {
  using State = typename Ops::State;
  State total = Ops::identity();
#pragma unroll 1
  for (i64 i = static_cast<i64>(threadIdx.x); i < count; i += kThreads) {
    total = Ops::merge(total, Ops::unpack(take_word(slots + i)));
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
  const i64 block = static_cast<i64>(blockIdx.x);
  const i64 blocks = static_cast<i64>(gridDim.x);
  result = mine;
  if (blocks == 1) return threadIdx.x == 0;
  const bool last = block == blocks - 1;
  if (threadIdx.x == 0) ptx::st_relaxed_gpu_global_u64(workspace + block, Ops::pack(mine));
  if (!last && block % kFinishGroup != kFinishGroup - 1) return false;
  u64* const group_slots = workspace + blocks;
  const i64 group = block / kFinishGroup;
  // 0: the group before, 1: the last group, 2: the groups. One copy of the code for all three.
#pragma unroll 1
  for (int step = group > 0 ? 0 : 1; step < (last ? 3 : 1); ++step) {
    const i64 first = step == 0 ? (group - 1) * kFinishGroup : group * kFinishGroup;
    u64* const slots = step == 2 ? group_slots : workspace + first;
    const State part = collect_states<Ops, kThreads>(slots, step == 0 ? kFinishGroup : step == 1 ? blocks - first : group, shared);
    if (step == 0) {
      if (threadIdx.x == 0) ptx::st_relaxed_gpu_global_u64(group_slots + (group - 1), Ops::pack(part));
    } else {
      result = step == 1 ? part : Ops::merge(part, result);
    }
  }
  return last && threadIdx.x == 0;
}

}  // namespace tw
