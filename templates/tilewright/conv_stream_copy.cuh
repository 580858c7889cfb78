// tilewright/conv_stream_copy.cuh
// How planes of x come to the ring of conv_stream.cuh: one warp copies them, piece by piece, some planes ahead of those that multiply.
#pragma once

#include "tilewright/conv_layout.cuh"
#include "tilewright/conv_stage.cuh"
#include "tilewright/conv_stream_layout.cuh"
#include "tilewright/ptx_async.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace conv_detail {

// One piece of a plane: kWords words of a row. What lies outside x becomes zero, but for columns that no piece covers and that are zero
// from the start.
template <ConvConfig kConfig, int kWords, typename Index>
struct PlanePieces {
  using L = Layout<kConfig>;
  using S = StreamLayout<kConfig>;
  static constexpr int kFirst = S::kWholeRows ? S::kPadLeft : 0;  // column
  static constexpr int kOfRow = ceil_div(S::kWholeRows ? S::kWholeColumns : S::kColumns, kWords);
  static constexpr int kCount = kConfig.channels * S::kPatchY * kOfRow;
  static constexpr int kOfLane = ceil_div(kCount, 32);
  static constexpr bool kHeld = kOfLane <= 12;  // in registers, as they are the same for all planes
  struct Piece {
    Index from;  // words from the tile's corner in its plane of x
    int to;      // ... of the slot
    u32 bytes;   // inside x; the rest of the piece becomes zero
  };
  Piece piece[kHeld ? kOfLane : 1];

  static __device__ __forceinline__ Piece find(const Tile<Index>& tile, int i) {
    const int row = i / kOfRow, column = kFirst + i % kOfRow * kWords;
    const int channel = row / S::kPatchY, patch_y = row % S::kPatchY;
    const int y = tile.first[1] * kConfig.stride[L::kY] - kConfig.pad_before[L::kY] + patch_y;
    const int x = tile.first[2] * kConfig.stride[L::kX] - S::kPadLeft + column;
    const int words = S::kWholeRows ? kWords : min_of(kWords, tile.in[2] - x);
    const bool inside = y >= 0 && y < tile.in[1] && x >= 0 && words > 0;
    const Index from = channel * tile.x_channel + static_cast<Index>(y) * tile.x_step[1] + x;
    return {inside ? from : 0, channel * kConfig.channel_pitch + patch_y * kConfig.row_pitch + column,
            inside ? static_cast<u32>(words) * 4 : 0};
  }

  __device__ __forceinline__ void locate(const Tile<Index>& tile) {
    if constexpr (kHeld) {
#pragma unroll
      for (int k = 0; k < kOfLane; ++k) piece[k] = find(tile, k * 32 + static_cast<int>(threadIdx.x & 31));
    }
  }

  __device__ __forceinline__ void copy(const float* x, const Tile<Index>& tile, int z, u32* slot) const {
    const bool inside = z >= 0 && z < tile.in[0];
    const float* const plane = inside ? x + (tile.x_base + static_cast<Index>(z) * tile.x_step[0]) : x;
    const auto copy_piece = [&](const Piece& p) {
      const u32 bytes = inside ? p.bytes : 0;
      if constexpr (kWords == 4) {
        ptx::cp_async_cg(slot + p.to, plane + p.from, bytes);
      } else {
        ptx::cp_async_ca<kWords * 4>(slot + p.to, plane + p.from, bytes);
      }
    };
    const int lane = static_cast<int>(threadIdx.x & 31);
    if constexpr (kHeld) {
#pragma unroll
      for (int k = 0; k < kOfLane; ++k) {
        if (kCount % 32 == 0 || k + 1 < kOfLane || k * 32 + lane < kCount) copy_piece(piece[k]);
      }
    } else {
#pragma unroll 4
      for (int i = lane; i < kCount; i += 32) copy_piece(find(tile, i));
    }
  }
};

// What the copying warp and the others tell each other: `full`: a plane has arrived; `empty`: everybody has read it.
template <ConvConfig kConfig>
struct StreamShared {
  using S = StreamLayout<kConfig>;
  u32* words;

  __device__ __forceinline__ u32* slot(int stage) const { return words + stage * S::kSlotWords; }
  __device__ __forceinline__ u32* weights() const { return words + S::kWeightWord; }
  __device__ __forceinline__ u64* full() const { return reinterpret_cast<u64*>(words + S::kBarrierWord); }
  __device__ __forceinline__ u64* empty() const { return full() + kConfig.stages; }
};

__device__ __forceinline__ void wait_phase(u64* barrier, u32 parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

// The copying warp: all planes of all the block's tiles, and one more that is not looked at, so that reading ahead needs no condition.
template <ConvConfig kConfig, int kWords, typename Index>
__device__ __forceinline__ void copy_planes(const ConvArgs& args, const float* x, const StreamShared<kConfig>& shared, u32 tiles) {
  using S = StreamLayout<kConfig>;
  constexpr int kAhead = S::kCopiesAhead;
  int stage = 0, arrived = 0, count = 0;
  u32 parity = 1;
  PlanePieces<kConfig, kWords, Index> pieces;
  const auto announce = [&] {
    ptx::mbarrier_arrive(shared.full() + arrived);
    arrived = arrived + 1 == kConfig.stages ? 0 : arrived + 1;
  };
  const auto next_plane = [&](const Tile<Index>& tile, int z) {
    wait_phase(shared.empty() + stage, parity);
    pieces.copy(x, tile, z, shared.slot(stage));
    ptx::cp_async_commit_group();
    if (++count > kAhead) {
      ptx::cp_async_wait_group<kAhead>();
      announce();
    }
    if (++stage == kConfig.stages) {
      stage = 0;
      parity ^= 1;
    }
  };
#pragma unroll 1
  for (u32 i = blockIdx.x; i < tiles; i += gridDim.x) {
    const auto tile = locate_tile<kConfig, Index>(args, i);
    const StreamPlanes planes = stream_planes<kConfig>(tile.first[0], tile.z_end);
    const bool last = i + gridDim.x >= tiles;
    pieces.locate(tile);
#pragma unroll 1
    for (int p = 0; p < planes.count + (last ? 1 : 0); ++p) next_plane(tile, p < planes.count ? planes.first_in + p : -1);
  }
  ptx::cp_async_wait_all();
#pragma unroll 1
  for (int n = min_of(count, kAhead); n > 0; --n) announce();
}

}  // namespace conv_detail
}  // namespace tw
