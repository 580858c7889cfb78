// tilewright/conv_epilogue.cuh
// What happens to a convolution's sums: bias and map, a fold over output planes, map of the folded values, softmax over channels, store.
// All of it in registers, in the layout of mma's d: a thread's pixels are its own, a pixel's channels are spread over 4 lanes.
#pragma once

#include "tilewright/conv_layout.cuh"
#include "tilewright/conv_multiply.cuh"
#include "tilewright/conv_stage.cuh"
#include "tilewright/math.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace conv_detail {

template <ConvConfig kConfig>
__device__ __forceinline__ constexpr float fold_identity() {
  return kConfig.reduce == ConvReduce::kMin ? kInfinity : kConfig.reduce == ConvReduce::kMax ? -kInfinity : 0.0f;
}

template <ConvConfig kConfig>
__device__ __forceinline__ float fold(float folded, float value) {
  if constexpr (kConfig.reduce == ConvReduce::kMin) return min_nan(folded, value);
  if constexpr (kConfig.reduce == ConvReduce::kMax) return max_nan(folded, value);
  return folded + value;
}

// Output channel, within the group, of accumulator i of n tile n; may lie behind the last.
template <ConvConfig kConfig, typename Index>
__device__ __forceinline__ int lane_channel(const Tile<Index>& tile, int n, int i) {
  return tile.out_channel + n * 8 + static_cast<int>(threadIdx.x & 3) * 2 + (i & 1);
}

template <ConvConfig kConfig, typename Index>
__device__ __forceinline__ bool channel_exists(int channel) {
  return kConfig.out_channels % (kConfig.n_tiles * 8) == 0 || channel < kConfig.out_channels;
}

// Pixel of row half h of m tile m, in output coordinates.
struct PixelPosition {
  int y, x;
  bool exists;
};

template <ConvConfig kConfig, typename Index>
__device__ __forceinline__ PixelPosition pixel_position(const Tile<Index>& tile, int m, int h) {
  const int pixel = lane_pixel<kConfig>(m, h);
  const int y = tile.first[1] + pixel / kConfig.tile_x, x = tile.first[2] + pixel % kConfig.tile_x;
  return {y, x, (Layout<kConfig>::kFullTile || pixel < kConfig.tile_y * kConfig.tile_x) && y < tile.out[1] && x < tile.out[2]};
}

// What a plane's sums start from. A minimum or maximum must see the bias, since an infinite one can turn any value into NaN; where no map
// stands between them it goes into the accumulators. Everywhere else it is added later and sums start from 0.
template <ConvConfig kConfig, typename Hooks>
struct StartValues {
  static constexpr bool kOrders = kConfig.reduce == ConvReduce::kMin || kConfig.reduce == ConvReduce::kMax;
  static constexpr bool kEarlyBias = Layout<kConfig>::kReduces && kOrders && Hooks::kHasBias && Hooks::kMapConvIdentity;
  static constexpr bool kLateBias = Layout<kConfig>::kReduces && !kOrders && Hooks::kHasBias && Hooks::kMapConvIdentity;
  float bias[kEarlyBias ? kConfig.n_tiles : 1][2];

  __device__ __forceinline__ void load(const Hooks& hooks, const Tile<typename Hooks::Index>& tile) {
    if constexpr (kEarlyBias) {
#pragma unroll
      for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int channel = lane_channel<kConfig>(tile, n, j);
          const bool exists = channel_exists<kConfig, typename Hooks::Index>(channel);
          bias[n][j] = exists ? hooks.bias(tile.group * kConfig.out_channels + channel) : 0.0f;
        }
      }
    }
  }

  __device__ __forceinline__ void start(Accumulators<kConfig>& acc) const {
    if constexpr (kEarlyBias) {
#pragma unroll
      for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) acc[m][n][i] = bias[n][i & 1];
        }
      }
    } else {
      clear<kConfig>(acc, 0.0f);
    }
  }
};

// Bias and map of the convolution's own values, output plane z. Values of pixels and channels that do not exist stay as they are.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void map_plane(Accumulators<kConfig>& acc, const Hooks& hooks, const Tile<typename Hooks::Index>& tile, int z) {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;
#pragma unroll
  for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int channel = lane_channel<kConfig>(tile, n, j);
      if (!channel_exists<kConfig, Index>(channel)) continue;
      const int o = tile.group * kConfig.out_channels + channel;
      const float bias = Hooks::kHasBias ? hooks.bias(o) : 0.0f;
#pragma unroll
      for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& value = acc[m][n][h * 2 + j];
          if constexpr (Hooks::kHasBias) value += bias;
          if constexpr (!Hooks::kMapConvIdentity) {
            const PixelPosition at = pixel_position<kConfig>(tile, m, h);
            if (at.exists) {
              // Row-major D, H, W again.
              int logical[3], size[3];
              logical[L::kZ] = z, logical[L::kY] = at.y, logical[L::kX] = at.x;
              size[L::kZ] = tile.out[0], size[L::kY] = tile.out[1], size[L::kX] = tile.out[2];
              const Index plane = (tile.batch * (kConfig.groups * kConfig.out_channels) + o) * size[0] + logical[0];
              value = hooks.map_conv(value, (plane * size[1] + logical[1]) * size[2] + logical[2], o);
            }
          }
        }
      }
    }
  }
}

// Softmax over the channels of pixel (m, h), which 4 lanes hold, in place. The block owns all channels there are.
template <ConvConfig kConfig, typename Index>
__device__ __forceinline__ void softmax_pixel(Accumulators<kConfig>& acc, const Tile<Index>& tile, int m, int h) {
  float greatest = -kInfinity;
#pragma unroll
  for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (channel_exists<kConfig, Index>(lane_channel<kConfig>(tile, n, j))) greatest = fmaxf(greatest, acc[m][n][h * 2 + j]);
    }
  }
  greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, 1));
  greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, 2));
  float sum = 0.0f;
#pragma unroll
  for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      acc[m][n][h * 2 + j] = exp_fast(acc[m][n][h * 2 + j] - greatest);
      if (channel_exists<kConfig, Index>(lane_channel<kConfig>(tile, n, j))) sum += acc[m][n][h * 2 + j];
    }
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  const float scale = div_count(1.0f, sum);
#pragma unroll
  for (int n = 0; n < kConfig.n_tiles; ++n) {
    acc[m][n][h * 2] *= scale;
    acc[m][n][h * 2 + 1] *= scale;
  }
}

// Softmax, if asked for, of pixel (m, h), and its final values to the hooks, channel c at first + c * step.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void store_pixel(Accumulators<kConfig>& acc, const Hooks& hooks, const Tile<typename Hooks::Index>& tile, int m,
                                            int h, bool pixel_exists, typename Hooks::Index first, typename Hooks::Index step) {
  using Index = typename Hooks::Index;
  if constexpr (kConfig.softmax) softmax_pixel<kConfig>(acc, tile, m, h);
#pragma unroll
  for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int channel = lane_channel<kConfig>(tile, n, j);
      const bool exists = pixel_exists && channel_exists<kConfig, Index>(channel);
      hooks.store(first + channel * step, acc[m][n][h * 2 + j], exists);
    }
  }
}

// The values of output plane z.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void store_plane(Accumulators<kConfig>& acc, const Hooks& hooks, const Tile<typename Hooks::Index>& tile,
                                            int z) {
  using Index = typename Hooks::Index;
  const Index image = static_cast<Index>(tile.out[1]) * tile.out[2];
  const Index volume = image * tile.out[0];
  const Index base = (tile.batch * (kConfig.groups * kConfig.out_channels) + tile.group * kConfig.out_channels) * volume + z * image;
#pragma unroll
  for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const PixelPosition at = pixel_position<kConfig>(tile, m, h);
      store_pixel<kConfig>(acc, hooks, tile, m, h, at.exists, base + static_cast<Index>(at.y) * tile.out[2] + at.x, volume);
    }
  }
}

// What became of a pixel's planes in channel o: the mean's division, bias (of sums and means, where it could wait), map. i: its index among
// the reduced values. Of one that does not exist nothing is read.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ float reduced_value(float value, const Hooks& hooks, const Tile<typename Hooks::Index>& tile,
                                               typename Hooks::Index i, int o, bool exists) {
  const float count = static_cast<float>(tile.out[0]);
  if constexpr (kConfig.reduce == ConvReduce::kMean) value = div_count(value, count);
  if constexpr (StartValues<kConfig, Hooks>::kLateBias) {
    const float bias = exists ? hooks.bias(o) : 0.0f;
    value += kConfig.reduce == ConvReduce::kSum ? bias * count : bias;
  }
  if constexpr (!Hooks::kMapReducedIdentity) {
    if (exists) value = hooks.map_reduced(value, i, o);
  }
  return value;
}

// What became of the planes, softmax, store. Values go through shared memory, [channel][pixel], where nobody needs anything else any more:
// a thread then has all channels of a pixel, neighbours write side by side, and loops over channels stay loops.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void finish_reduced(const Accumulators<kConfig>& folded, const Hooks& hooks,
                                               const Tile<typename Hooks::Index>& tile, float* shared) {
  using L = Layout<kConfig>;
  using Index = typename Hooks::Index;
  __syncthreads();
  float* const corner = shared + static_cast<int>(threadIdx.x & 3) * 2 * L::kPixelPitch + lane_pixel<kConfig>(0, 0);
#pragma unroll
  for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
    for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        corner[(n * 8 + (i & 1)) * L::kPixelPitch + L::tile_pixel(0, m) + (i >> 1) * 8] = folded[m][n][i];
      }
    }
  }
  __syncthreads();
  constexpr int kChannels = kConfig.n_tiles * 8;
  const int channels = kConfig.out_channels % kChannels == 0 ? kChannels : min_of(kChannels, kConfig.out_channels - tile.out_channel);
  const int first_channel = tile.group * kConfig.out_channels + tile.out_channel;
  const Index image = static_cast<Index>(tile.out[1]) * tile.out[2];
#pragma unroll 1
  for (int turn = 0; turn < ceil_div(kConfig.tile_y * kConfig.tile_x, L::kThreads); ++turn) {
    const int pixel = turn * L::kThreads + static_cast<int>(threadIdx.x);
    const int y = tile.first[1] + pixel / kConfig.tile_x, x = tile.first[2] + pixel % kConfig.tile_x;
    if (pixel >= kConfig.tile_y * kConfig.tile_x || y >= tile.out[1] || x >= tile.out[2]) continue;
    const Index first =
        (tile.batch * (kConfig.groups * kConfig.out_channels) + first_channel) * image + static_cast<Index>(y) * tile.out[2] + x;
    float* const own = shared + pixel;
    float greatest = -kInfinity;
#pragma unroll 1
    for (int c = 0; c < channels; ++c) {
      const float value = reduced_value<kConfig>(own[c * L::kPixelPitch], hooks, tile, first + c * image, first_channel + c, true);
      if constexpr (kConfig.softmax) {
        own[c * L::kPixelPitch] = value;
        greatest = fmaxf(greatest, value);
      } else {
        hooks.store(first + c * image, value, true);
      }
    }
    if constexpr (kConfig.softmax) {
      float sum = 0.0f;
#pragma unroll 1
      for (int c = 0; c < channels; ++c) {
        const float value = exp_fast(own[c * L::kPixelPitch] - greatest);
        own[c * L::kPixelPitch] = value;
        sum += value;
      }
      const float scale = div_count(1.0f, sum);
#pragma unroll 1
      for (int c = 0; c < channels; ++c) hooks.store(first + c * image, own[c * L::kPixelPitch] * scale, true);
    }
  }
}

// The sums of output plane z are complete: fold them, or finish and write them.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void finish_plane(Accumulators<kConfig>& acc, Accumulators<kConfig>& folded, const Hooks& hooks,
                                             const Tile<typename Hooks::Index>& tile, int z) {
  using L = Layout<kConfig>;
  if constexpr (!L::kReduces || !Hooks::kMapConvIdentity) map_plane<kConfig>(acc, hooks, tile, z);
  if constexpr (L::kReduces) {
#pragma unroll
    for (int m = 0; m < kConfig.m_tiles; ++m) {
#pragma unroll
      for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) folded[m][n][i] = fold<kConfig>(folded[m][n][i], acc[m][n][i]);
      }
    }
  } else {
    store_plane<kConfig>(acc, hooks, tile, z);
  }
}

}  // namespace conv_detail
}  // namespace tw
