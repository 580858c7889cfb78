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

template <ConvConfig kConfig, typename Index>
__device__ __forceinline__ Tile<Index> locate_tile(const ConvArgs& args) {
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
  u32 rest = blockIdx.x;
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

// Converts a word and writes its parts, `part_words` apart.
template <ConvConfig kConfig, typename Operand>
__device__ __forceinline__ void store_word(u32* to, int part_words, const RawWord<kConfig, Operand>& raw, Magnitudes& seen) {
  using L = Layout<kConfig>;
  if constexpr (L::kWordChannels == 2) {
    *to = static_cast<u32>(raw.channel[0].bits) | static_cast<u32>(raw.channel[1].bits) << 16;
  } else if constexpr (L::kIeee) {
    *to = __builtin_bit_cast(u32, raw.channel[0]);
  } else {
    u32 high = ptx::cvt_rna_tf32_f32(raw.channel[0]);
    // Where the instruction is emulated, a NaN whose payload lies in the bits that go would become infinity.
    if (raw.channel[0] != raw.channel[0]) high = 0x7fffffffu;
    *to = high;
    if constexpr (L::kSplit) {
      to[part_words] = ptx::cvt_rna_tf32_f32(raw.channel[0] - __builtin_bit_cast(float, high));
      seen.add(__builtin_bit_cast(u32, raw.channel[0]));
    }
  }
}

// Words [first, first + kCount * threads) of one input plane, one per thread and turn; channels from `channel` on, plane z of x.
template <ConvConfig kConfig, typename Hooks, int kCount>
struct PlanePart {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;
  using Operand = typename Hooks::Operand;
  RawWord<kConfig, Operand> raw[kCount];

  // Whether word e, this thread's of turn i, is one of the plane's: known at compile time for turns that are full.
  __device__ __forceinline__ static bool exists(int first, int i, int e) {
    return first + (i + 1) * L::kThreads <= L::kPlaneElems || e < L::kPlaneElems;
  }

  __device__ __forceinline__ void fetch(const Hooks& hooks, const Tile<Index>& tile, int first, int z, int channel) {
    const bool plane_inside = static_cast<u32>(z) < static_cast<u32>(tile.in[0]);
    const Index base = tile.x_base + static_cast<Index>(channel) * tile.x_channel + static_cast<Index>(z) * tile.x_step[0];
    const int corner_y = tile.first[1] * kConfig.stride[L::kY] - kConfig.pad_before[L::kY];
    const int corner_x = tile.first[2] * kConfig.stride[L::kX] - kConfig.pad_before[L::kX];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int e = first + i * L::kThreads + static_cast<int>(threadIdx.x);
      const int row = e / L::kPatchX;
      const int word = row / L::kPatchY;
      const int y = corner_y + (row - word * L::kPatchY);
      const int x = corner_x + (e - row * L::kPatchX);
      const bool inside = plane_inside && exists(first, i, e) && static_cast<u32>(y) < static_cast<u32>(tile.in[1]) &&
                          static_cast<u32>(x) < static_cast<u32>(tile.in[2]);
      const Index at = static_cast<Index>(y) * tile.x_step[1] + static_cast<Index>(x) * tile.x_step[2];
#pragma unroll
      for (int c = 0; c < L::kWordChannels; ++c) {
        const int offset = word * L::kWordChannels + c;
        const bool channel_exists = kConfig.channels % kConfig.chunk_channels == 0 && kConfig.chunk_channels % L::kWordChannels == 0
                                        ? true
                                        : channel + offset < kConfig.channels;
        raw[i].channel[c] = Operand{};
        if (inside && channel_exists) raw[i].channel[c] = hooks.load_x(base + static_cast<Index>(offset) * tile.x_channel + at);
      }
    }
  }

  __device__ __forceinline__ void store(u32* plane, int first, Magnitudes& seen) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int e = first + i * L::kThreads + static_cast<int>(threadIdx.x);
      const int row = e / L::kPatchX;
      const int word = row / L::kPatchY;
      const int to = word * kConfig.channel_pitch + (row - word * L::kPatchY) * kConfig.row_pitch + (e - row * L::kPatchX);
      if (exists(first, i, e)) store_word<kConfig, Operand>(plane + to, L::kRingWords, raw[i], seen);
    }
  }
};

// One input plane to its slot at once.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void stage_plane(const Hooks& hooks, const Tile<typename Hooks::Index>& tile, u32* plane, int z, int channel,
                                            Magnitudes& seen) {
  using L = Layout<kConfig>;
  // So many loads in flight hide most of their latency without many registers.
  constexpr int kCount = min_of(ceil_div(L::kPlaneElems, L::kThreads), L::kWordChannels == 2 ? 4 : 6);
#pragma unroll 1
  for (int first = 0; first < L::kPlaneElems; first += kCount * L::kThreads) {
    PlanePart<kConfig, Hooks, kCount> part;
    part.fetch(hooks, tile, first, z, channel);
    part.store(plane, first, seen);
  }
}

// Weights of one chunk of input channels.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void stage_weights(const Hooks& hooks, const Tile<typename Hooks::Index>& tile, u32* weights, int channel,
                                              Magnitudes& seen) {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;
  using Operand = typename Hooks::Operand;
  constexpr int kWords = L::kWeightWords / L::kParts;
  constexpr int kCount = min_of(ceil_div(kWords, L::kThreads), 4);
  const Index base = (static_cast<Index>(tile.group) * kConfig.out_channels + tile.out_channel) * kConfig.channels * L::kTaps +
                     static_cast<Index>(channel) * L::kTaps;
#pragma unroll 1
  for (int first = 0; first < kWords; first += kCount * L::kThreads) {
    RawWord<kConfig, Operand> raw[kCount];
    int to[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int e = first + i * L::kThreads + static_cast<int>(threadIdx.x);
      const int pair = e >> 1, lane = pair & 31, n_tile = (pair >> 5) % kConfig.n_tiles;
      // Consecutive threads read consecutive weights of one output channel, or of eight of them.
      const int k = L::kIeee ? e % L::kDepth : (pair >> 5) / kConfig.n_tiles * 8 + (e & 1) * 4 + (lane & 3);
      const int n = L::kIeee ? e / L::kDepth : n_tile * 8 + (lane >> 2);
      to[i] = L::kIeee ? k * (kConfig.n_tiles * 8) + n : pair * L::kLaneWords + (e & 1);
      const bool inside = e < kWords && k < L::kDepth && tile.out_channel + n < kConfig.out_channels;
      if (e >= kWords) to[i] = -1;
      const Index row = base + static_cast<Index>(n) * (kConfig.channels * L::kTaps);
      if constexpr (L::kWordChannels == 1) {
        raw[i].channel[0] = Operand{};
        const bool channel_exists = kConfig.channels % kConfig.chunk_channels == 0 || k < (kConfig.channels - channel) * L::kTaps;
        if (inside && channel_exists) raw[i].channel[0] = hooks.load_w(row + k);
      } else {
        const int word = k / L::kTaps, tap = k - word * L::kTaps;
#pragma unroll
        for (int c = 0; c < L::kWordChannels; ++c) {
          const int offset = word * L::kWordChannels + c;
          raw[i].channel[c] = Operand{};
          if (inside && channel + offset < kConfig.channels) raw[i].channel[c] = hooks.load_w(row + offset * L::kTaps + tap);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (to[i] >= 0) store_word<kConfig, Operand>(weights + to[i], 2, raw[i], seen);
    }
  }
}

// Position of word k's offset in the table: a lane finds those of its two words of a step side by side.
__host__ __device__ __forceinline__ constexpr int table_position(int k) { return (k & ~7) + (k & 3) * 2 + (k >> 2 & 1); }

// Bytes from where a pixel lies in the ring's first plane to what word k of the depth multiplies; the window begins in slot `table`.
template <ConvConfig kConfig>
__device__ __forceinline__ void stage_tables(u32* tables) {
  using L = Layout<kConfig>;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < L::kTables * L::kTableWords; i += L::kThreads) {
    const int table = i / L::kTableWords, k = i - table * L::kTableWords;
    const int word = k / L::kTaps, tap = k - word * L::kTaps;
    const int at[3] = {tap / (kConfig.kernel[1] * kConfig.kernel[2]), tap / kConfig.kernel[2] % kConfig.kernel[1], tap % kConfig.kernel[2]};
    int plane = table + at[L::kZ] * (L::kSingle ? kConfig.dilation[L::kZ] : 1);
    if (plane >= L::kSlots) plane -= L::kSlots;
    const int offset = plane * L::kPlaneWords + word * kConfig.channel_pitch + at[L::kY] * kConfig.dilation[L::kY] * kConfig.row_pitch +
                       at[L::kX] * kConfig.dilation[L::kX];
    tables[table * L::kTableWords + table_position(k)] = k < L::kDepth ? static_cast<u32>(offset) * 4 : 0;
  }
}

}  // namespace conv_detail
}  // namespace tw
