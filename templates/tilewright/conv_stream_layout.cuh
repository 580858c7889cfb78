// tilewright/conv_stream_layout.cuh
// How conv_stream.cuh lays out shared memory, which taps a lane holds, and which planes a tile reads.
#pragma once

#include "tilewright/conv_layout.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace conv_detail {

// A tap of the kernel, of one input channel.
struct StreamTap {
  int channel, y, x;
  bool exists;
};

// The depth of the product is shared out over the 4 lanes that hold a pixel: a lane has the same number of entries as each other, an entry
// is one tap of one input channel. Taps along x of one row (channel, y) go to one lane, which reads a run of words for two pixels; rows
// that do not make up a group of 4 are dealt out tap by tap.
template <ConvConfig kConfig>
struct StreamLayout {
  using L = Layout<kConfig>;
  static constexpr int kSlotColumns = kConfig.n_tiles * 8;
  static constexpr int kN = L::kKernelZ * kSlotColumns;
  static constexpr int kRows = kConfig.channels * L::kKernelY;
  static constexpr int kGroups = kRows / 4;
  static constexpr int kSingles = kRows % 4 * L::kKernelX;
  static constexpr int kSingleTurns = ceil_div(kSingles, 4);
  static constexpr int kEntries = kGroups * L::kKernelX + kSingleTurns;
  static constexpr int kSteps = ceil_div(kEntries, 2);
  // Lane t has channels t, t + 4, ...: one pointer serves all its rows. Else one for each.
  static constexpr bool kChannelsInLanes = kConfig.channels % 4 == 0;
  static constexpr int kRowPointers = kGroups == 0 || kChannelsInLanes ? 1 : kGroups;
  static constexpr int kSinglePointers = kSingleTurns > 0 ? kSingleTurns : 1;
  static constexpr int kWindow = (L::kKernelX - 1) * kConfig.dilation[L::kX] + kConfig.stride[L::kX] + 1;

  // Columns of a staged row: 16-byte pieces of x stay whole, so the row begins up to 3 columns before its first tap.
  static constexpr int kPadLeft = ceil_div(kConfig.pad_before[L::kX], 4) * 4;
  static constexpr int kShift = kPadLeft - kConfig.pad_before[L::kX];
  static constexpr int kColumns = kShift + (kConfig.tile_x - 1) * kConfig.stride[L::kX] + (L::kKernelX - 1) * kConfig.dilation[L::kX] + 1;
  static constexpr int kPatchY = (kConfig.tile_y - 1) * kConfig.stride[L::kY] + (L::kKernelY - 1) * kConfig.dilation[L::kY] + 1;
  static constexpr bool kPairs = kShift % 2 == 0 && kConfig.row_pitch % 2 == 0 && kConfig.channel_pitch % 2 == 0;
  static constexpr int kInX = kConfig.in_size[L::kX];
  // One tile covers the whole of x's rows: nothing to clip.
  static constexpr bool kWholeRows = kInX > 0 && kConfig.out_size[L::kX] > 0 && kConfig.out_size[L::kX] <= kConfig.tile_x;
  static constexpr int kWholeColumns = min_of(kInX, kColumns - kPadLeft);
  static constexpr int kCopyWords = kInX == 0 ? 1 : kInX % 4 == 0 ? 4 : kInX % 2 == 0 ? 2 : 1;
  static constexpr int kCopiesAhead = kConfig.stages / 2;

  // Shared memory in words: ring (each slot ends with zeros), weights, barriers.
  static constexpr int kZeroWord = kConfig.channels * kConfig.channel_pitch;
  static constexpr int kSlotWords = kZeroWord + 4;
  static constexpr int kWeightWord = kConfig.stages * kSlotWords;
  static constexpr int kStepWords = kN * 8;
  static constexpr int kRotationWords = kSteps * kStepWords;
  static constexpr int kBarrierWord = kWeightWord + L::kKernelZ * kRotationWords;
  static constexpr int kSharedBytes = (kBarrierWord + kConfig.stages * 4) * 4;

  __host__ __device__ static constexpr int row_channel(int row) { return kChannelsInLanes ? row % kConfig.channels : row / L::kKernelY; }
  __host__ __device__ static constexpr int row_y(int row) { return kChannelsInLanes ? row / kConfig.channels : row % L::kKernelY; }
  // Words from a pixel's first tap to row `row`.
  __host__ __device__ static constexpr int row_words(int row) {
    return row_channel(row) * kConfig.channel_pitch + row_y(row) * kConfig.dilation[L::kY] * kConfig.row_pitch;
  }
  // ... from lane t's first row to that of group g, the same for all lanes when channels lie in lanes.
  __host__ __device__ static constexpr int group_words(int group) { return row_words(group * 4); }
  // Whether word i of a window is a tap of either pixel.
  __host__ __device__ static constexpr bool needs(int i) {
    for (int k = 0; k < L::kKernelX; ++k) {
      const int at = k * kConfig.dilation[L::kX];
      if (at == i || at + kConfig.stride[L::kX] == i) return true;
    }
    return false;
  }
  __host__ __device__ static constexpr int tap_words(const StreamTap& tap) {
    return tap.channel * kConfig.channel_pitch + tap.y * kConfig.dilation[L::kY] * kConfig.row_pitch + tap.x * kConfig.dilation[L::kX];
  }

  static_assert(kConfig.groups == 1 && kConfig.m_tiles == 1 && kConfig.warps % 4 == 0, "conv_stream: one group, whole warpgroups");
  static_assert(kConfig.stride[L::kZ] == 1 && kConfig.dilation[L::kZ] == 1, "conv_stream: planes in a row");
  static_assert(kConfig.stages % L::kKernelZ == 0 && kConfig.stages >= 2, "conv_stream: the ring holds whole rounds of planes");
  static_assert(kConfig.tile_x == 32 && kConfig.tile_y == kConfig.warps / 2, "conv_stream: rows of 32 pixels, two a warpgroup");
  static_assert(kConfig.channel_pitch >= kPatchY * kConfig.row_pitch, "conv_stream: channels overlap");
  static_assert(kConfig.row_pitch >= kColumns && kConfig.row_pitch % 4 == 0 && kConfig.channel_pitch % 4 == 0,
                "conv_stream: pitches too small, or no multiples of 16 bytes");
};

template <ConvConfig kConfig>
__host__ __device__ __forceinline__ constexpr StreamTap stream_tap(int entry, int lane) {
  using L = Layout<kConfig>;
  using S = StreamLayout<kConfig>;
  constexpr int kInRows = S::kGroups * L::kKernelX;
  if (entry < kInRows) {
    const int row = entry / L::kKernelX * 4 + lane;
    return {S::row_channel(row), S::row_y(row), entry % L::kKernelX, true};
  }
  const int single = (entry - kInRows) * 4 + lane;
  if (single >= S::kSingles) return {0, 0, 0, false};
  const int row = S::kGroups * 4 + single / L::kKernelX;
  return {S::row_channel(row), S::row_y(row), single % L::kKernelX, true};
}

// Planes of x that a tile reads: `count`, a multiple of the kernel's, from first_in on; plane p completes output plane first_out + p.
// Planes outside x are zeros, and what is complete before the tile's first output plane is not looked at.
struct StreamPlanes {
  int count, first_in, first_out;
};

template <ConvConfig kConfig>
__host__ __device__ __forceinline__ constexpr StreamPlanes stream_planes(int z, int z_end) {
  using L = Layout<kConfig>;
  const int wanted = z_end - z + L::kKernelZ - 1;
  const int count = ceil_div(wanted, L::kKernelZ) * L::kKernelZ;
  const int first_out = z_end - count;
  return {count, first_out + L::kKernelZ - 1 - kConfig.pad_before[L::kZ], first_out};
}

template <ConvConfig kConfig>
__device__ __forceinline__ u32 stream_tiles(const ConvArgs& args) {
  using L = Layout<kConfig>;
  const auto size = [&](int d) { return kConfig.out_size[d] > 0 ? kConfig.out_size[d] : static_cast<int>(args.out_size[d]); };
  const int planes = L::kReduces ? 1 : ceil_div(size(L::kZ), kConfig.planes_per_block);
  return static_cast<u32>(args.batch) *
         static_cast<u32>(planes * ceil_div(size(L::kY), kConfig.tile_y) * ceil_div(size(L::kX), kConfig.tile_x));
}

}  // namespace conv_detail

// Dynamic shared memory of a block.
template <ConvConfig kConfig>
__host__ __device__ constexpr int conv_stream_shared_bytes() {
  return conv_detail::StreamLayout<kConfig>::kSharedBytes;
}

}  // namespace tw
