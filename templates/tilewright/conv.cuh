// tilewright/conv.cuh
// conv[n,o,p] = bias[o] + sum over c, k of w[o,c,k] * x[n, g*C/G + c, p*stride + k*dilation - pad],   g = o / (O/G), p and k over D, H, W;
// then map_conv, a reduction over one of the output's spatial dimensions, map_reduced, softmax over channels, store: each if asked for.
// Implicit matrix product on mma.sync (m16n8k8 tf32, m16n8k16 f16 and bf16) or f32 multiply-add; accumulation f32.
// A block owns one image and group, a tile of pixels in two spatial dimensions, 8 * n_tiles output channels, and walks planes of the third
// (the reduced one, all of it, else planes_per_block). A warp owns m_tiles * 16 pixels and all the block's channels, so that the reduction
// stays in registers and the softmax within 4 lanes. Input planes go through a ring in shared memory, each loaded once; when not all
// channels fit, each plane is summed over chunks of channels, staged with their weights in two buffers.
// tf32x3: a step whose operands two tf32 parts cannot represent (infinite, NaN, near the ends of f32's range) is computed in f32 instead.
// Baked in: C/G, O/G, G, kernel, stride, dilation, padding before; sizes of x and of the output where the config gives them.
// sm_80 or newer.
#pragma once

#include "tilewright/conv_epilogue.cuh"
#include "tilewright/conv_layout.cuh"
#include "tilewright/conv_multiply.cuh"
#include "tilewright/conv_stage.cuh"
#include "tilewright/shared.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace conv_detail {

// Shared memory as the phases see it.
template <ConvConfig kConfig>
struct Shared {
  using L = Layout<kConfig>;
  u32* words;

  __device__ __forceinline__ u32* weights(int buffer) const { return words + buffer * L::kWeightWords; }
  // For a window that begins in `slot`.
  __device__ __forceinline__ u32* table(int slot) const { return words + L::kTableWord + (L::kTablePerSlot ? slot * L::kTableWords : 0); }
  __device__ __forceinline__ StageFlags& flags(int set) const { return reinterpret_cast<StageFlags*>(words + L::kFlagWord)[set]; }
  __device__ __forceinline__ StageFlags& weight_flags(int buffer) const { return flags((L::kSingle ? L::kSlots : 2) + buffer); }
  __device__ __forceinline__ u32* plane(int slot) const { return words + L::kRingWord + slot * L::kPlaneWords; }
};

template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void multiply_staged(Accumulators<kConfig>& acc, const Gather<kConfig>& gather, const Shared<kConfig>& shared,
                                                int buffer, int slot) {
  using L = Layout<kConfig>;
  const u32 slot_bytes = L::kTablePerSlot ? 0 : static_cast<u32>(slot * L::kPlaneWords) * 4;
  if constexpr (L::kIeee) {
    multiply_ieee<kConfig>(acc, gather, shared.plane(0), shared.table(slot), shared.weights(buffer), slot_bytes);
  } else {
    multiply_tensor<kConfig, typename Hooks::Operand>(acc, gather, shared.plane(0), shared.table(slot), shared.weights(buffer), slot_bytes);
  }
}

// All channels fit: weights are staged once, planes stream through the ring.
template <ConvConfig kConfig, typename Hooks>
struct Streaming {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;
  // Planes the next output plane adds to the ring: with a stride beyond the kernel's span some are never looked at.
  static constexpr int kNewPlanes = min_of(kConfig.stride[L::kZ], L::kSpan);
  // With prefetch the loop over output planes also loads the first window, in turns that multiply nothing: loading is there once.
  static constexpr int kFirstTurns = kConfig.prefetch && !L::kOnePlane ? L::kSpan : 0;
  using Prefetched = PlanePart<kConfig, Hooks, kConfig.prefetch ? L::kPositions : 1, kConfig.prefetch ? L::kChunkWords : 1>;

  const Hooks& hooks;
  const Tile<Index>& tile;
  const Shared<kConfig>& shared;

  // Plane p of the block's planes: where it lies in x, and its slot.
  __device__ __forceinline__ int plane_z(int p) const { return tile.first[0] * kConfig.stride[L::kZ] - kConfig.pad_before[L::kZ] + p; }

  __device__ __forceinline__ void stage(int p, int slot) const {
    Magnitudes seen;
    stage_plane<kConfig>(hooks, tile, shared.plane(slot), plane_z(p), 0, seen);
    if constexpr (L::kSplit) seen.raise(shared.flags(slot), static_cast<u32>(p) + 1);
  }

  // Whether the window of planes from p on, its first in `slot`, is beyond tf32 parts.
  __device__ __forceinline__ bool needs_f32(int p, int slot) const {
    bool huge = shared.weight_flags(0).huge != 0, tiny = false, normal = false;
    const bool tiny_weights = shared.weight_flags(0).tiny != 0 && shared.weight_flags(0).normal == 0;
#pragma unroll
    for (int k = 0; k < L::kSpan; k += kConfig.dilation[L::kZ]) {
      const int at = slot + k < L::kSlots ? slot + k : slot + k - L::kSlots;
      const StageFlags flags = shared.flags(at);
      const u32 epoch = static_cast<u32>(p + k) + 1;
      huge |= flags.huge == epoch;
      tiny |= flags.tiny == epoch;
      normal |= flags.normal == epoch;
    }
    return huge || tiny_weights || (tiny && !normal);
  }

  __device__ __forceinline__ void run(Accumulators<kConfig>& folded, const Gather<kConfig>& gather) const {
    StartValues<kConfig, Hooks> start_values;
    start_values.load(hooks, tile);
    if constexpr (kFirstTurns == 0) {
#pragma unroll 1
      for (int p = 0; p < L::kSpan; ++p) stage(p, p);
    }
    Magnitudes seen;
    stage_weights<kConfig>(hooks, tile, shared.weights(0), shared.table(0), true, 0, seen);
    if constexpr (L::kSplit) seen.raise(shared.weight_flags(0), 1);
    __syncthreads();
    int p = -kFirstTurns;
    int slot = kFirstTurns > 0 ? L::kSlots - kFirstTurns : 0;  // of the window's first plane, plane p
#pragma unroll 1
    for (int z = tile.first[0] - kFirstTurns; z < tile.z_end; ++z) {
      // The slots behind the window are free: nobody reads them until the barrier.
      const bool more = !L::kOnePlane && z + 1 < tile.z_end;
      const int last = p + kConfig.stride[L::kZ] + L::kSpan - 1;  // last plane of the next window
      int to = slot + kConfig.stride[L::kZ] + L::kSpan - 1;
      if (to >= L::kSlots) to -= L::kSlots;
      Prefetched next;
      if constexpr (kConfig.prefetch) {
        if (more) next.fetch(hooks, tile, plane_z(last), 0, 0, 0);
      } else if constexpr (!L::kOnePlane) {
        if (more) {
          for (int back = kNewPlanes - 1; back >= 0; --back) stage(last - back, to - back < 0 ? to - back + L::kSlots : to - back);
        }
      }
      if (kFirstTurns == 0 || p >= 0) {
        Accumulators<kConfig> acc;
        start_values.start(acc);
        bool f32 = false;
        if constexpr (L::kSplit) f32 = needs_f32(p, slot);
        if (f32) {
          if constexpr (L::kSplit) multiply_unstaged<kConfig>(acc, hooks, tile, z, 0, kConfig.channels);
        } else {
          multiply_staged<kConfig, Hooks>(acc, gather, shared, 0, slot);
        }
        finish_plane<kConfig>(acc, folded, hooks, tile, z);
      }
      if constexpr (kConfig.prefetch) {
        if (more) {
          Magnitudes next_seen;
          next.store(tile, shared.plane(to), 0, 0, next_seen);
          if constexpr (L::kSplit) next_seen.raise(shared.flags(to), static_cast<u32>(last) + 1);
        }
      }
      if (more) __syncthreads();
      p += kConfig.stride[L::kZ];
      slot += kConfig.stride[L::kZ];
      if (slot >= L::kSlots) slot -= L::kSlots;
    }
  }
};

// Channels come in chunks, each staged with its weights in one of two buffers while the other is multiplied.
template <ConvConfig kConfig, typename Hooks>
struct Chunked {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;

  const Hooks& hooks;
  const Tile<Index>& tile;
  const Shared<kConfig>& shared;

  __device__ __forceinline__ void stage(int z, int chunk, int buffer, u32 epoch) const {
    const int channel = chunk * kConfig.chunk_channels;
    Magnitudes seen;
#pragma unroll 1
    for (int k = 0; k < L::kKernelZ; ++k) {
      const int in_z = z * kConfig.stride[L::kZ] - kConfig.pad_before[L::kZ] + k * kConfig.dilation[L::kZ];
      stage_plane<kConfig>(hooks, tile, shared.plane(buffer * L::kKernelZ + k), in_z, channel, seen);
    }
    Magnitudes seen_weights;
    stage_weights<kConfig>(hooks, tile, shared.weights(buffer), shared.table(0), epoch == 1, channel, seen_weights);
    if constexpr (L::kSplit) {
      seen.raise(shared.flags(buffer), epoch);
      seen_weights.raise(shared.weight_flags(buffer), epoch);
    }
  }

  __device__ __forceinline__ bool needs_f32(int buffer, u32 epoch) const {
    const StageFlags x = shared.flags(buffer), w = shared.weight_flags(buffer);
    return x.huge == epoch || w.huge == epoch || (x.tiny == epoch && x.normal != epoch) || (w.tiny == epoch && w.normal != epoch);
  }

  __device__ __forceinline__ void run(Accumulators<kConfig>& folded, const Gather<kConfig>& gather) const {
    StartValues<kConfig, Hooks> start_values;
    start_values.load(hooks, tile);
    Accumulators<kConfig> acc;
    start_values.start(acc);
    stage(tile.first[0], 0, 0, 1);
    __syncthreads();
    int chunk = 0, buffer = 0;
    u32 epoch = 1;
#pragma unroll 1
    for (int z = tile.first[0]; z < tile.z_end;) {
      const bool last_chunk = chunk + 1 == L::kChunks;
      const int next_z = last_chunk ? z + 1 : z, next_chunk = last_chunk ? 0 : chunk + 1;
      if (next_z < tile.z_end) stage(next_z, next_chunk, buffer ^ 1, epoch + 1);
      bool f32 = false;
      if constexpr (L::kSplit) f32 = needs_f32(buffer, epoch);
      if (f32) {
        if constexpr (L::kSplit) {
          const int channel = chunk * kConfig.chunk_channels;
          multiply_unstaged<kConfig>(acc, hooks, tile, z, channel, min_of(channel + kConfig.chunk_channels, kConfig.channels));
        }
      } else {
        multiply_staged<kConfig, Hooks>(acc, gather, shared, buffer, buffer * L::kKernelZ);
      }
      if (last_chunk) {
        finish_plane<kConfig>(acc, folded, hooks, tile, z);
        start_values.start(acc);
      }
      __syncthreads();
      z = next_z;
      chunk = next_chunk;
      buffer ^= 1;
      ++epoch;
    }
  }
};

}  // namespace conv_detail

// Grid: batch * groups * ceil(out_channels / (8 n_tiles)) * planes * ceil(out_y / tile_y) * ceil(out_x / tile_x) blocks, planes = 1 with a
// reduction, else ceil(out_z / planes_per_block). Block: 32 * warps threads. Dynamic shared memory: conv_shared_bytes<kConfig>().
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void conv(const ConvArgs& args, const Hooks& hooks) {
  using namespace conv_detail;
  using L = Layout<kConfig>;
  const Shared<kConfig> shared{dynamic_shared_words()};
  const auto tile = locate_tile<kConfig, typename Hooks::Index>(args, blockIdx.x);
  if constexpr (L::kSplit) {
    for (int i = static_cast<int>(threadIdx.x); i < L::kFlagSets * 4; i += L::kThreads) shared.words[L::kFlagWord + i] = 0;
    __syncthreads();
  }
  if constexpr (L::kZeroWords > 0) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < L::kZeroWords; i += L::kThreads) shared.plane(0)[L::kTailOffset + i] = 0;
  }
  Gather<kConfig> gather;
  gather.init();
  Accumulators<kConfig> folded;
  clear<kConfig>(folded, fold_identity<kConfig>());
  if constexpr (L::kSingle) {
    Streaming<kConfig, Hooks>{hooks, tile, shared}.run(folded, gather);
  } else {
    Chunked<kConfig, Hooks>{hooks, tile, shared}.run(folded, gather);
  }
  if constexpr (L::kReduces) {
    finish_reduced<kConfig>(folded, hooks, tile, reinterpret_cast<float*>(shared.words));
  }
}

}  // namespace tw
