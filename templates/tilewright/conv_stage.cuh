// tilewright/conv_stage.cuh
// How a convolution's block finds its tile, and how input planes and weights come to shared memory: read through the hooks, rounded or
// split once on the way, weights in the order in which a warp multiplies them.
#pragma once

#include "tilewright/conv_layout.cuh"
#include "tilewright/ptx.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace conv_detail {

// What a block owns; spatial arrays in the order of roles z, y, x.
template <typename Index>
struct Tile {
  int group;
  int out_channel;  // first of the block, within the group
  int first[3];     // output pixel of its corner
  int z_end;        // one past its last output plane
  int in[3];        // sizes of x
  int out[3];       // sizes of the convolution
  Index batch;
  Index x_base;     // of x[n, first channel of the group, 0, 0, 0]
  Index x_channel;  // elements between channels of x
  Index x_step[3];  // elements between neighbours in z, y, x
};

// Tile number `rest` of the grid.
template <ConvConfig kConfig, typename Index>
__device__ __forceinline__ Tile<Index> locate_tile(const ConvArgs& args, u32 rest) {
  using L = Layout<kConfig>;
  Tile<Index> tile;
  const int roles[3] = {L::kZ, L::kY, L::kX};
  int in[3];
#pragma unroll
  for (int d = 0; d < 3; ++d) in[d] = kConfig.in_size[d] > 0 ? kConfig.in_size[d] : static_cast<int>(args.in_size[d]);
  const Index step[3] = {static_cast<Index>(in[1]) * in[2], static_cast<Index>(in[2]), 1};
#pragma unroll
  for (int r = 0; r < 3; ++r) {
    const int d = roles[r];
    tile.in[r] = in[d];
    tile.out[r] = kConfig.out_size[d] > 0 ? kConfig.out_size[d] : static_cast<int>(args.out_size[d]);
    tile.x_step[r] = step[d];
  }
  // Neighbouring blocks are neighbours in x, then y: their halos meet in L2.
  const auto take = [&rest](int count) {
    const u32 quotient = rest / static_cast<u32>(count);
    const int part = static_cast<int>(rest - quotient * static_cast<u32>(count));
    rest = quotient;
    return part;
  };
  tile.first[2] = take(ceil_div(tile.out[2], kConfig.tile_x)) * kConfig.tile_x;
  tile.first[1] = take(ceil_div(tile.out[1], kConfig.tile_y)) * kConfig.tile_y;
  tile.first[0] = 0;
  tile.z_end = tile.out[0];
  if constexpr (!L::kReduces) {
    tile.first[0] = take(ceil_div(tile.out[0], kConfig.planes_per_block)) * kConfig.planes_per_block;
    tile.z_end = min_of(tile.first[0] + kConfig.planes_per_block, tile.out[0]);
  }
  tile.out_channel = take(ceil_div(kConfig.out_channels, kConfig.n_tiles * 8)) * kConfig.n_tiles * 8;
  tile.group = take(kConfig.groups);
  tile.batch = static_cast<Index>(rest);
  tile.x_channel = step[0] * in[0];
  tile.x_base = (tile.batch * kConfig.groups + tile.group) * kConfig.channels * tile.x_channel;
  return tile;
}

// Flags of one staged set: whether it holds, this time, something that splitting in two tf32 parts cannot represent. Each word names the
// last step that raised it, so that nobody has to clear them.
struct alignas(16) StageFlags {
  u32 huge;    // infinite, NaN, or rounded to infinity
  u32 tiny;    // so small that its low part underflows ...
  u32 normal;  // ... and something that does not
  u32 unused;
};

// Collects what a thread stages.
struct Magnitudes {
  static constexpr u32 kHuge = 0x7f7ff000u;  // rounds to infinity in tf32
  static constexpr u32 kNormal = 25u << 23;  // 2^-102: its low part still has 24 bits above the least normal number
  u32 greatest = 0;
  u32 least_minus_one = 0xffffffffu;  // over nonzero values

  __device__ __forceinline__ void add(u32 bits) {
    const u32 magnitude = bits & 0x7fffffffu;
    greatest = greatest > magnitude ? greatest : magnitude;
    least_minus_one = least_minus_one < magnitude - 1 ? least_minus_one : magnitude - 1;
  }
  __device__ __forceinline__ void raise(StageFlags& flags, u32 epoch) const {
    if (greatest >= kHuge) flags.huge = epoch;
    if (greatest >= kNormal) flags.normal = epoch;
    if (least_minus_one < kNormal - 1) flags.tiny = epoch;
  }
};

// The bits of one word's channels as they come from memory.
template <ConvConfig kConfig, typename Operand>
struct RawWord {
  Operand channel[Layout<kConfig>::kWordChannels];
};

// The nearest tf32 value, of two the even one; NaN stays NaN, values beyond the range become infinity. The same bits everywhere.
__device__ __forceinline__ u32 round_tf32(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  const u32 bits = __builtin_bit_cast(u32, value);
  const u32 rounded = (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
  return value == value ? rounded : 0x7fffffffu;
#else
  return ptx::cvt_rn_tf32_f32(value);
#endif
}

// Converts a word and writes its parts, `part_words` apart.
template <ConvConfig kConfig, typename Operand>
__device__ __forceinline__ void store_word(u32* to, int part_words, const RawWord<kConfig, Operand>& raw, Magnitudes& seen) {
  using L = Layout<kConfig>;
  if constexpr (L::kWordChannels == 2) {
    *to = static_cast<u32>(raw.channel[0].bits) | static_cast<u32>(raw.channel[1].bits) << 16;
  } else if constexpr (L::kIeee) {
    *to = __builtin_bit_cast(u32, raw.channel[0]);
  } else {
    const u32 high = round_tf32(raw.channel[0]);
    *to = high;
    if constexpr (L::kSplit) {
      to[part_words] = round_tf32(raw.channel[0] - __builtin_bit_cast(float, high));
      seen.add(__builtin_bit_cast(u32, raw.channel[0]));
    }
  }
}

// Where a thread's position number i lies: in a plane of x and in a staged one. Threads side by side have positions side by side.
template <ConvConfig kConfig, typename Index>
struct PatchPosition {
  using L = Layout<kConfig>;
  Index from;   // elements
  int to;       // words
  bool exists;  // the patch has that many positions
  bool inside;  // and x has this one: if not, it counts as zero

  __device__ __forceinline__ PatchPosition(const Tile<Index>& tile, int i) {
    const int e = i * L::kThreads + static_cast<int>(threadIdx.x);
    const int row = e / L::kPatchX, column = e - row * L::kPatchX;
    const int y = tile.first[1] * kConfig.stride[L::kY] - kConfig.pad_before[L::kY] + row;
    const int x = tile.first[2] * kConfig.stride[L::kX] - kConfig.pad_before[L::kX] + column;
    from = static_cast<Index>(y) * tile.x_step[1] + static_cast<Index>(x) * tile.x_step[2];
    to = row * kConfig.row_pitch + column;
    exists = (L::kPatch % L::kThreads == 0 && i < L::kPatch / L::kThreads) || e < L::kPatch;
    inside = exists && static_cast<u32>(y) < static_cast<u32>(tile.in[1]) && static_cast<u32>(x) < static_cast<u32>(tile.in[2]);
  }
};

// The words of kWords adjacent channel words at kPositions positions of a thread, on their way from plane z of x to a staged plane.
template <ConvConfig kConfig, typename Hooks, int kPositions, int kWords>
struct PlanePart {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;
  using Operand = typename Hooks::Operand;
  RawWord<kConfig, Operand> raw[kPositions][kWords];

  // Whether the chunk has channel word `word`: known at compile time when it has a whole number of parts.
  __device__ __forceinline__ static bool has_word(int word) { return L::kChunkWords % kWords == 0 || word < L::kChunkWords; }

  // From position `position` and channel word `word` on, counted from channel `channel`.
  __device__ __forceinline__ void fetch(const Hooks& hooks, const Tile<Index>& tile, int z, int channel, int position, int word) {
    const bool plane_inside = static_cast<u32>(z) < static_cast<u32>(tile.in[0]);
    const int first_channel = channel + word * L::kWordChannels;
    const Index base = tile.x_base + static_cast<Index>(first_channel) * tile.x_channel + static_cast<Index>(z) * tile.x_step[0];
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      const PatchPosition<kConfig, Index> at(tile, position + i);
      const Index own = base + at.from;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int c = 0; c < L::kWordChannels; ++c) {
          const int offset = w * L::kWordChannels + c;
          const bool all_exist = kConfig.channels % kConfig.chunk_channels == 0 && kConfig.chunk_channels % L::kWordChannels == 0;
          const bool channel_exists = all_exist || first_channel + offset < kConfig.channels;
          raw[i][w].channel[c] = hooks.load_x(own + static_cast<Index>(offset) * tile.x_channel,
                                              plane_inside && at.inside && has_word(word + w) && channel_exists);
        }
      }
    }
  }

  __device__ __forceinline__ void store(const Tile<Index>& tile, u32* plane, int position, int word, Magnitudes& seen) const {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      const PatchPosition<kConfig, Index> at(tile, position + i);
      if (!at.exists) continue;
      u32* const to = plane + word * kConfig.channel_pitch + at.to;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        if (has_word(word + w)) store_word<kConfig, Operand>(to + w * kConfig.channel_pitch, L::kRingWords, raw[i][w], seen);
      }
    }
  }
};

// One input plane to its slot at once.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void stage_plane(const Hooks& hooks, const Tile<typename Hooks::Index>& tile, u32* plane, int z, int channel,
                                            Magnitudes& seen) {
  using L = Layout<kConfig>;
  // So many loads in flight hide most of their latency without many registers.
  constexpr int kInFlight = L::kWordChannels == 2 ? 4 : 6;
  constexpr int kWords = min_of(L::kChunkWords, kInFlight);
  constexpr int kPositions = min_of(L::kPositions, kInFlight / kWords);
#pragma unroll 1
  for (int position = 0; position < L::kPositions; position += kPositions) {
#pragma unroll 1
    for (int word = 0; word < L::kChunkWords; word += kWords) {
      PlanePart<kConfig, Hooks, kPositions, kWords> part;
      part.fetch(hooks, tile, z, channel, position, word);
      part.store(tile, plane, position, word, seen);
    }
  }
}

// Position of word k's offset in the table: a lane finds those of its two words of a step side by side.
__host__ __device__ __forceinline__ constexpr int table_position(int k) { return (k & ~7) + (k & 3) * 2 + (k >> 2 & 1); }

// Word k, tap `tap` of channel word `word`, in the tables of all slots: bytes from where a pixel lies in the ring's first plane to what the
// word multiplies when the window begins in that slot.
template <ConvConfig kConfig>
__device__ __forceinline__ void stage_offsets(u32* tables, int k, int word, int tap) {
  using L = Layout<kConfig>;
  const int at[3] = {tap / (kConfig.kernel[1] * kConfig.kernel[2]), tap / kConfig.kernel[2] % kConfig.kernel[1], tap % kConfig.kernel[2]};
  const int in_plane =
      word * kConfig.channel_pitch + at[L::kY] * kConfig.dilation[L::kY] * kConfig.row_pitch + at[L::kX] * kConfig.dilation[L::kX];
  int plane = at[L::kZ] * (L::kSingle ? kConfig.dilation[L::kZ] : 1);
#pragma unroll 1
  for (int table = 0; table < L::kTables; ++table) {
    const int offset = k < L::kDepth ? plane * L::kPlaneWords + in_plane : L::kTailOffset;
    tables[table * L::kTableWords + table_position(k)] = static_cast<u32>(offset) * 4;
    plane = plane + 1 < L::kSlots ? plane + 1 : 0;
  }
}

// Weights of one chunk of input channels. `with_offsets`: `tables` get the offsets of all words.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void stage_weights(const Hooks& hooks, const Tile<typename Hooks::Index>& tile, u32* weights, u32* tables,
                                              bool with_offsets, int channel, Magnitudes& seen) {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;
  using Operand = typename Hooks::Operand;
  // Threads side by side have words side by side of one output channel; from channel to channel both addresses move by a constant.
  constexpr int kDepthWords = L::kSteps * 8;
  constexpr int kAcross = min_of(kDepthWords, L::kThreads);
  constexpr int kRows = L::kThreads / kAcross;
  constexpr int kChannelWords = L::kIeee ? 1 : 4 * L::kLaneWords;
  const Index base = (static_cast<Index>(tile.group) * kConfig.out_channels + tile.out_channel) * kConfig.channels * L::kTaps +
                     static_cast<Index>(channel) * L::kTaps;
  const int first_n = static_cast<int>(threadIdx.x) / kAcross;
  // The last threads have nothing to do when a row of words leaves some over.
  const bool active = L::kThreads % kAcross == 0 || first_n < kRows;
#pragma unroll 1
  for (int turn = 0; turn < ceil_div(kDepthWords, kAcross); ++turn) {
    const int k = turn * kAcross + static_cast<int>(threadIdx.x) % kAcross;
    if (!active || (kDepthWords % kAcross != 0 && k >= kDepthWords)) continue;
    const int word = k / L::kTaps, tap = k - word * L::kTaps;
    if (with_offsets && first_n == 0) stage_offsets<kConfig>(tables, k, word, tap);
    u32* const to =
        weights + (L::kIeee ? k * (kConfig.n_tiles * 8) : ((k >> 3) * (kConfig.n_tiles * 32) + (k & 3)) * L::kLaneWords + (k >> 2 & 1));
#pragma unroll 2
    for (int i = 0; i < ceil_div(kConfig.n_tiles * 8, kRows); ++i) {
      const int n = first_n + i * kRows;
      if (kConfig.n_tiles * 8 % kRows != 0 && n >= kConfig.n_tiles * 8) break;
      const bool inside = k < L::kDepth && tile.out_channel + n < kConfig.out_channels;
      const Index row = base + static_cast<Index>(n) * (kConfig.channels * L::kTaps) + tap;
      RawWord<kConfig, Operand> raw;
#pragma unroll
      for (int c = 0; c < L::kWordChannels; ++c) {
        const int offset = word * L::kWordChannels + c;
        raw.channel[c] = hooks.load_w(row + offset * L::kTaps, inside && channel + offset < kConfig.channels);
      }
      if (!L::kIeee || k < L::kDepth) store_word<kConfig, Operand>(to + n * kChannelWords, 2, raw, seen);
    }
  }
}

}  // namespace conv_detail
}  // namespace tw
