// tilewright/conv_multiply.cuh
// A warp's part of one step of a convolution: its pixels' words gathered from the staged planes, times the staged weights, added to
// accumulators in the layout of mma's d. Tensor cores, or f32 multiply-add in the same layout.
#pragma once

#include "tilewright/conv_layout.cuh"
#include "tilewright/conv_stage.cuh"
#include "tilewright/ptx.cuh"
#include "tilewright/shared.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace conv_detail {

template <int kCount>
struct alignas(kCount * 4) WordVector {
  u32 word[kCount];
};

// Rows lane / 4 (h = 0) and lane / 4 + 8 (h = 1) of each m tile; columns 2 (lane % 4) and the next of each n tile.
template <ConvConfig kConfig>
using Accumulators = float[kConfig.m_tiles][kConfig.n_tiles][4];

template <ConvConfig kConfig>
__device__ __forceinline__ void clear(Accumulators<kConfig>& acc, float value) {
#pragma unroll
  for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
    for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[m][n][i] = value;
    }
  }
}

// Block pixel of fragment row lane / 4 + 8 h. In conv_stream.cuh the two lie side by side.
template <ConvConfig kConfig>
__device__ __forceinline__ int lane_pixel(int m_tile, int h) {
  const int warp = static_cast<int>(threadIdx.x >> 5), row = static_cast<int>(threadIdx.x >> 2 & 7);
  return Layout<kConfig>::tile_pixel(warp, m_tile) + (kConfig.stages > 0 ? row * 2 + h : row + h * 8);
}

template <ConvConfig kConfig>
struct Gather {
  using L = Layout<kConfig>;
  static constexpr int kCount = L::kConstantDistances ? 1 : kConfig.m_tiles * 2;
  u32 pixel_bytes[kCount];

  __device__ __forceinline__ void init() {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int pixel = lane_pixel<kConfig>(i / 2, i % 2);
      pixel_bytes[i] = static_cast<u32>(L::pixel_words(L::kFullTile || pixel < kConfig.tile_y * kConfig.tile_x ? pixel : 0)) * 4;
    }
  }
  // The word at `offset` bytes of pixel (m_tile, h). Pixels beyond the tile read slack, and nobody stores their sums.
  __device__ __forceinline__ u32 word(const u32* ring, u32 offset, int m_tile, int h, int part) const {
    const char* base = reinterpret_cast<const char*>(ring);
    if constexpr (L::kConstantDistances) {
      const int distance = L::pixel_words(L::tile_pixel(0, m_tile) + h * 8) + part * L::kRingWords;
      return load_slack_word(base + (pixel_bytes[0] + offset) + distance * 4);
    } else {
      return load_slack_word(base + (pixel_bytes[m_tile * 2 + h] + offset) + part * L::kRingWords * 4);
    }
  }
};

// The ring goes round once at most: an offset past its end wraps to its start (a smaller one wraps far beyond when ring bytes are taken
// off).
template <ConvConfig kConfig>
__device__ __forceinline__ u32 ring_offset(u32 table, u32 slot_bytes) {
  using L = Layout<kConfig>;
  const u32 offset = table + slot_bytes;
  if constexpr (!L::kRing || L::kTablePerSlot) return offset;
  const u32 wrapped = offset - static_cast<u32>(L::kRingWords) * 4;
  return offset < wrapped ? offset : wrapped;
}

template <typename Operand>
inline constexpr bool kIsF16 = false;
template <>
inline constexpr bool kIsF16<f16> = true;

template <ConvConfig kConfig, typename Operand>
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (kConfig.precision != ConvPrecision::kHalf) {
    ptx::mma_m16n8k8_tf32(d, a, b0, b1);
  } else if constexpr (kIsF16<Operand>) {
    ptx::mma_m16n8k16_f16(d, a, b0, b1);
  } else {
    ptx::mma_m16n8k16_bf16(d, a, b0, b1);
  }
}

// Step s: words 8 s to 8 s + 7 of the depth. Those behind the depth must count as zero (zero weights alone would turn an infinite operand
// into NaN): either they are, or kMask makes them so.
template <ConvConfig kConfig, typename Operand, bool kMask>
__device__ __forceinline__ void multiply_step(Accumulators<kConfig>& acc, const Gather<kConfig>& gather, const u32* ring, const u32* table,
                                              const u32* weights, u32 slot_bytes, int s) {
  using L = Layout<kConfig>;
  const int lane = static_cast<int>(threadIdx.x & 31), t = lane & 3;
  const auto offsets = *reinterpret_cast<const WordVector<2>*>(table + s * 8 + t * 2);
  const u32 offset[2] = {ring_offset<kConfig>(offsets.word[0], slot_bytes), ring_offset<kConfig>(offsets.word[1], slot_bytes)};
  const bool live[2] = {s * 8 + t < L::kDepth, s * 8 + t + 4 < L::kDepth};
  WordVector<L::kLaneWords> b[kConfig.n_tiles];
#pragma unroll
  for (int n = 0; n < kConfig.n_tiles; ++n) {
    b[n] = *reinterpret_cast<const WordVector<L::kLaneWords>*>(weights + ((s * kConfig.n_tiles + n) * 32 + lane) * L::kLaneWords);
  }
#pragma unroll
  for (int m = 0; m < kConfig.m_tiles; ++m) {
    u32 a[L::kParts][4];
#pragma unroll
    for (int part = 0; part < L::kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[part][i] = gather.word(ring, offset[i >> 1], m, i & 1, part);
        if (kMask && !live[i >> 1]) a[part][i] = 0;
      }
    }
    // Small terms first; a product's n tiles in a row are independent of each other.
    if constexpr (L::kSplit) {
#pragma unroll
      for (int n = 0; n < kConfig.n_tiles; ++n) mma<kConfig, Operand>(acc[m][n], a[1], b[n].word[0], b[n].word[1]);
#pragma unroll
      for (int n = 0; n < kConfig.n_tiles; ++n) mma<kConfig, Operand>(acc[m][n], a[0], b[n].word[2], b[n].word[3]);
    }
#pragma unroll
    for (int n = 0; n < kConfig.n_tiles; ++n) mma<kConfig, Operand>(acc[m][n], a[0], b[n].word[0], b[n].word[1]);
  }
}

template <ConvConfig kConfig, typename Operand>
__device__ __forceinline__ void multiply_tensor(Accumulators<kConfig>& acc, const Gather<kConfig>& gather, const u32* ring,
                                                const u32* table, const u32* weights, u32 slot_bytes) {
  using L = Layout<kConfig>;
  constexpr int kSteps = L::kMaskTail ? L::kDepth / 8 : L::kSteps;  // without a mask
  if constexpr (kConfig.flush_steps <= 0) {
#pragma unroll kConfig.unroll
    for (int s = 0; s < kSteps; ++s) multiply_step<kConfig, Operand, false>(acc, gather, ring, table, weights, slot_bytes, s);
    if constexpr (L::kMaskTail) multiply_step<kConfig, Operand, true>(acc, gather, ring, table, weights, slot_bytes, kSteps);
  } else {
#pragma unroll 1
    for (int s = 0; s < L::kSteps;) {
      Accumulators<kConfig> part;
      clear<kConfig>(part, 0.0f);
      const int end = min_of(s + kConfig.flush_steps, kSteps);
#pragma unroll kConfig.unroll
      for (; s < end; ++s) multiply_step<kConfig, Operand, false>(part, gather, ring, table, weights, slot_bytes, s);
      if constexpr (L::kMaskTail) {
        if (s == kSteps) {
          multiply_step<kConfig, Operand, true>(part, gather, ring, table, weights, slot_bytes, s);
          ++s;
        }
      }
#pragma unroll
      for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) acc[m][n][i] += part[m][n][i];
        }
      }
    }
  }
}

// f32 multiply-add from the same staged words, in the order of the depth.
template <ConvConfig kConfig>
__device__ __forceinline__ void multiply_ieee(Accumulators<kConfig>& acc, const Gather<kConfig>& gather, const u32* ring, const u32* table,
                                              const u32* weights, u32 slot_bytes) {
  using L = Layout<kConfig>;
  const int column = static_cast<int>(threadIdx.x & 3) * 2;
#pragma unroll kConfig.unroll
  for (int k = 0; k < L::kDepth; ++k) {
    const u32 offset = ring_offset<kConfig>(table[table_position(k)], slot_bytes);
    WordVector<2> b[kConfig.n_tiles];
#pragma unroll
    for (int n = 0; n < kConfig.n_tiles; ++n) {
      b[n] = *reinterpret_cast<const WordVector<2>*>(weights + k * (kConfig.n_tiles * 8) + n * 8 + column);
    }
#pragma unroll
    for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const u32 bits = gather.word(ring, offset, m, h, 0);
        const float a = __builtin_bit_cast(float, bits);
#pragma unroll
        for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) acc[m][n][h * 2 + j] = fmaf(a, __builtin_bit_cast(float, b[n].word[j]), acc[m][n][h * 2 + j]);
        }
      }
    }
  }
}

// The same step straight from memory in f32: for the rare tile with operands that two tf32 parts cannot represent. Output plane z,
// input channels [channel, channel_end).
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void multiply_unstaged(Accumulators<kConfig>& acc, const Hooks& hooks, const Tile<typename Hooks::Index>& tile,
                                                  int z, int channel, int channel_end) {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;
  const int column = static_cast<int>(threadIdx.x & 3) * 2;
#pragma unroll 1
  for (int k = channel * L::kTaps; k < channel_end * L::kTaps; ++k) {
    const int c = k / L::kTaps, tap = k - c * L::kTaps;
    const int at[3] = {tap / (kConfig.kernel[1] * kConfig.kernel[2]), tap / kConfig.kernel[2] % kConfig.kernel[1], tap % kConfig.kernel[2]};
    const int in_z = z * kConfig.stride[L::kZ] - kConfig.pad_before[L::kZ] + at[L::kZ] * kConfig.dilation[L::kZ];
    const Index base = tile.x_base + static_cast<Index>(c) * tile.x_channel;
    const Index w_base = (static_cast<Index>(tile.group) * kConfig.out_channels + tile.out_channel) * (kConfig.channels * L::kTaps) + k;
    float b[kConfig.n_tiles][2];
#pragma unroll
    for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int o = n * 8 + column + j;
        b[n][j] = hooks.load_w(w_base + static_cast<Index>(o) * (kConfig.channels * L::kTaps), tile.out_channel + o < kConfig.out_channels);
      }
    }
#pragma unroll
    for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int pixel = lane_pixel<kConfig>(m, h);
        const int in_y = (tile.first[1] + pixel / kConfig.tile_x) * kConfig.stride[L::kY] - kConfig.pad_before[L::kY] +
                         at[L::kY] * kConfig.dilation[L::kY];
        const int in_x = (tile.first[2] + pixel % kConfig.tile_x) * kConfig.stride[L::kX] - kConfig.pad_before[L::kX] +
                         at[L::kX] * kConfig.dilation[L::kX];
        const bool inside = static_cast<u32>(in_z) < static_cast<u32>(tile.in[0]) &&
                            static_cast<u32>(in_y) < static_cast<u32>(tile.in[1]) && static_cast<u32>(in_x) < static_cast<u32>(tile.in[2]);
        const float a = hooks.load_x(base + static_cast<Index>(in_z) * tile.x_step[0] + static_cast<Index>(in_y) * tile.x_step[1] +
                                         static_cast<Index>(in_x) * tile.x_step[2],
                                     inside);
#pragma unroll
        for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) acc[m][n][h * 2 + j] = fmaf(a, b[n][j], acc[m][n][h * 2 + j]);
        }
      }
    }
  }
}

}  // namespace conv_detail
}  // namespace tw
