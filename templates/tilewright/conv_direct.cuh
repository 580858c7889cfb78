// tilewright/conv_direct.cuh
// out[n,o,p] = bias[o] + sum over c, k of w[o,c,k] * x[n, g*C/G + c, p*stride + k*dilation - pad],   g = o / (O/G), p and k over z, y, x.
// The convolution that takes everything: one to three spatial dimensions (normalised to three, leading ones), groups, stride, dilation,
// asymmetric padding (only the part before matters here: positions outside x are zeros, multiplied like others), run-time channels and
// sizes. A thread owns pixels_per_thread output pixels (one block width apart, numbered over batch and space) and channels_per_thread
// adjacent output channels of one group. All threads of a block share these channels, so that a weight is one broadcast read, from shared
// memory when channels_per_stage > 0. Accumulation f32 by fused multiply-add, order: channel, then kz, ky, kx; the bias comes last.
// Baked in: kernel (unless 0), stride, dilation, padding. Any sm_80 or newer.
#pragma once

#include "tilewright/index.cuh"
#include "tilewright/types.cuh"

namespace tw {

struct ConvDirectConfig {
  int block_threads = 128;      // T, a multiple of 32
  int pixels_per_thread = 1;    // PT
  int channels_per_thread = 8;  // OT, output channels of one group
  int channels_per_stage = 0;   // input channels whose weights lie in shared memory at a time; 0 = weights are read from global memory
  int kernel[3] = {0, 0, 0};    // z, y, x; 0 = in the args
  int stride[3] = {1, 1, 1};
  int dilation[3] = {1, 1, 1};
  int pad_before[3] = {0, 0, 0};
};

struct ConvDirectArgs {
  i64 batch;                   // N
  i64 groups;                  // G
  i64 channels_per_group;      // C / G
  i64 out_channels_per_group;  // O / G
  i64 in_size[3];              // z, y, x
  i64 out_size[3];
  i64 kernel[3];
};

namespace conv_direct_detail {

// Where the window of one output pixel begins.
template <typename Index>
struct Pixel {
  Index x_base;    // of x[n, first channel of the group, 0, 0, 0]
  Index out_base;  // of out[n, 0, p]
  Index start[3];  // first tap's position; may be negative
  bool active;
};

template <ConvDirectConfig kConfig, typename Index>
__device__ __forceinline__ Pixel<Index> locate_pixel(const ConvDirectArgs& args, i64 pixel, i64 pixels, Index group) {
  const i64 out_volume = args.out_size[0] * args.out_size[1] * args.out_size[2];
  Pixel<Index> result;
  result.active = pixel < pixels;
  // Everything here fits in Index when Index is 32 bits wide, whose division is several times cheaper.
  const Index linear = result.active ? static_cast<Index>(pixel) : 0;
  const Split<Index> image = split(linear, static_cast<Index>(out_volume));
  const Split<Index> along = split(image.remainder, static_cast<Index>(args.out_size[2]));
  const Split<Index> down = split(along.quotient, static_cast<Index>(args.out_size[1]));
  const Index in_volume = static_cast<Index>(args.in_size[0] * args.in_size[1] * args.in_size[2]);
  result.x_base = (image.quotient * static_cast<Index>(args.groups) + group) * static_cast<Index>(args.channels_per_group) * in_volume;
  result.out_base =
      image.quotient * static_cast<Index>(args.groups * args.out_channels_per_group) * static_cast<Index>(out_volume) + image.remainder;
  result.start[0] = down.quotient * kConfig.stride[0] - kConfig.pad_before[0];
  result.start[1] = down.remainder * kConfig.stride[1] - kConfig.pad_before[1];
  result.start[2] = along.remainder * kConfig.stride[2] - kConfig.pad_before[2];
  return result;
}

// Weights of one block's output channels: from shared memory ([channel in stage][tap][OT]) or straight from the hooks.
template <ConvDirectConfig kConfig>
struct Weights {
  static constexpr int kOut = kConfig.channels_per_thread;
  static constexpr int kTaps = kConfig.kernel[0] * kConfig.kernel[1] * kConfig.kernel[2];
  static constexpr bool kStaged = kConfig.channels_per_stage > 0;
  static constexpr int kStageElems = kStaged ? kConfig.channels_per_stage * kTaps * kOut : 1;
};

template <ConvDirectConfig kConfig, typename Hooks>
__device__ __forceinline__ void stage_weights(const Hooks& hooks, float* stage, i64 channels, typename Hooks::Index w_base,
                                              typename Hooks::Index w_stride, int valid_out, i64 first_channel) {
  using Index = typename Hooks::Index;
  using W = Weights<kConfig>;
  const int here =
      static_cast<int>(channels - first_channel < kConfig.channels_per_stage ? channels - first_channel : i64{kConfig.channels_per_stage});
  const int elems = here * W::kTaps * W::kOut;
  for (int e = static_cast<int>(threadIdx.x); e < elems; e += kConfig.block_threads) {
    // Consecutive threads read consecutive weights of one output channel.
    const int out = e / (here * W::kTaps);
    const int tap = e - out * (here * W::kTaps);
    const Index index = w_base + out * w_stride + static_cast<Index>(first_channel * W::kTaps) + tap;
    stage[tap * W::kOut + out] = out < valid_out ? hooks.load_w(index) : 0.0f;
  }
}

// Adds the products of one input channel.
template <ConvDirectConfig kConfig, typename Hooks, typename Index>
__device__ __forceinline__ void accumulate_channel(const ConvDirectArgs& args, const Hooks& hooks,
                                                   const Pixel<Index> (&pixels)[kConfig.pixels_per_thread], Index channel_offset,
                                                   const float* staged, Index w_index, Index w_stride, int valid_out,
                                                   float (&sums)[kConfig.pixels_per_thread][kConfig.channels_per_thread]) {
  using W = Weights<kConfig>;
  constexpr int kPixels = kConfig.pixels_per_thread;
  constexpr int kOut = W::kOut;
  constexpr int kUnrollX = kConfig.kernel[2] > 0 && kConfig.kernel[2] <= 8 ? kConfig.kernel[2] : 1;
  const int kernel_z = kConfig.kernel[0] > 0 ? kConfig.kernel[0] : static_cast<int>(args.kernel[0]);
  const int kernel_y = kConfig.kernel[1] > 0 ? kConfig.kernel[1] : static_cast<int>(args.kernel[1]);
  const int kernel_x = kConfig.kernel[2] > 0 ? kConfig.kernel[2] : static_cast<int>(args.kernel[2]);
  using Size = Unsigned<Index>;  // one comparison for 0 <= position < size
  const Size size_z = static_cast<Size>(args.in_size[0]);
  const Size size_y = static_cast<Size>(args.in_size[1]);
  const Size size_x = static_cast<Size>(args.in_size[2]);
  int tap = 0;
#pragma unroll 1
  for (int kz = 0; kz < kernel_z; ++kz) {
#pragma unroll 1
    for (int ky = 0; ky < kernel_y; ++ky) {
      Index row[kPixels];
      Size row_size[kPixels];  // 0 for a row outside x: every position in it is then out of range
#pragma unroll
      for (int p = 0; p < kPixels; ++p) {
        const Index z = pixels[p].start[0] + kz * kConfig.dilation[0];
        const Index y = pixels[p].start[1] + ky * kConfig.dilation[1];
        const bool inside = static_cast<Size>(z) < size_z && static_cast<Size>(y) < size_y;
        row_size[p] = inside ? size_x : 0;
        row[p] = pixels[p].x_base + channel_offset + (z * static_cast<Index>(size_y) + y) * static_cast<Index>(size_x);
      }
#pragma unroll kUnrollX
      for (int kx = 0; kx < kernel_x; ++kx, ++tap) {
        float value[kPixels];
#pragma unroll
        for (int p = 0; p < kPixels; ++p) {
          const Index x = pixels[p].start[2] + kx * kConfig.dilation[2];
          value[p] = static_cast<Size>(x) < row_size[p] ? hooks.load_x(row[p] + x) : 0.0f;
        }
#pragma unroll
        for (int o = 0; o < kOut; ++o) {
          float weight;
          if constexpr (W::kStaged) {
            weight = staged[tap * kOut + o];
          } else {
            // Channels that do not exist repeat the last one; nobody stores their sums.
            weight = hooks.load_w(w_index + (o < valid_out ? o : valid_out - 1) * w_stride + tap);
          }
#pragma unroll
          for (int p = 0; p < kPixels; ++p) sums[p][o] = __fmaf_rn(weight, value[p], sums[p][o]);
        }
      }
    }
  }
}

}  // namespace conv_direct_detail

// Grid: groups * ceil(out_channels_per_group / channels_per_thread) * ceil(batch * output pixels / (block_threads * pixels_per_thread));
// blocks with the same pixels are neighbours, so that x is read from device memory about once.
template <ConvDirectConfig kConfig, typename Hooks>
__device__ __forceinline__ void conv_direct(const ConvDirectArgs& args, const Hooks& hooks) {
  using namespace conv_direct_detail;
  using Index = typename Hooks::Index;
  using W = Weights<kConfig>;
  constexpr int kPixels = kConfig.pixels_per_thread;
  constexpr int kOut = kConfig.channels_per_thread;
  static_assert(kConfig.block_threads >= 32 && kConfig.block_threads % 32 == 0, "conv_direct: block_threads must be a multiple of 32");
  static_assert(!W::kStaged || W::kTaps > 0, "conv_direct: channels_per_stage > 0 needs every kernel size baked in");
  static_assert(W::kStageElems * 4 <= 48 * 1024, "conv_direct: channels_per_stage does not fit in static shared memory");
  alignas(16) __shared__ float stage[W::kStageElems];

  const Index out_per_group = static_cast<Index>(args.out_channels_per_group);
  const Index tiles_per_group = (out_per_group + kOut - 1) / kOut;
  const Split<Index> tile = split(static_cast<Index>(blockIdx.x), static_cast<Index>(args.groups) * tiles_per_group);
  const Split<Index> place = split(tile.remainder, tiles_per_group);
  const Index group = place.quotient;
  const Index first_out = place.remainder * kOut;  // within the group
  const Index out_left = out_per_group - first_out;
  const int valid_out = out_left < kOut ? static_cast<int>(out_left) : kOut;
  const i64 out_volume = args.out_size[0] * args.out_size[1] * args.out_size[2];
  const i64 in_volume = args.in_size[0] * args.in_size[1] * args.in_size[2];
  const i64 taps = W::kTaps > 0 ? i64{W::kTaps}
                                : (kConfig.kernel[0] > 0 ? i64{kConfig.kernel[0]} : args.kernel[0]) *
                                      (kConfig.kernel[1] > 0 ? i64{kConfig.kernel[1]} : args.kernel[1]) *
                                      (kConfig.kernel[2] > 0 ? i64{kConfig.kernel[2]} : args.kernel[2]);

  Pixel<Index> pixels[kPixels];
#pragma unroll
  for (int p = 0; p < kPixels; ++p) {
    const i64 pixel = (i64{tile.quotient} * kPixels + p) * kConfig.block_threads + threadIdx.x;
    pixels[p] = locate_pixel<kConfig, Index>(args, pixel, args.batch * out_volume, group);
  }

  float sums[kPixels][kOut] = {};
  const Index out_channel = group * out_per_group + first_out;
  const Index w_stride = static_cast<Index>(args.channels_per_group * taps);  // from one output channel to the next
  const Index w_base = out_channel * w_stride;
  constexpr int kStageChannels = W::kStaged ? kConfig.channels_per_stage : 1;
#pragma unroll 1
  for (i64 first = 0; first < args.channels_per_group; first += kStageChannels) {
    if constexpr (W::kStaged) {
      if (first > 0) __syncthreads();  // the previous stage has been read
      stage_weights<kConfig>(hooks, stage, args.channels_per_group, w_base, w_stride, valid_out, first);
      __syncthreads();
    }
    const i64 left = args.channels_per_group - first;
    const int here = left < kStageChannels ? static_cast<int>(left) : kStageChannels;
#pragma unroll 1
    for (int c = 0; c < here; ++c) {
      accumulate_channel<kConfig>(args, hooks, pixels, static_cast<Index>((first + c) * in_volume), stage + c * W::kTaps * kOut,
                                  w_base + static_cast<Index>((first + c) * taps), w_stride, valid_out, sums);
    }
  }

#pragma unroll
  for (int o = 0; o < kOut; ++o) {
    if (o >= valid_out) break;
    const float bias = Hooks::kHasBias ? hooks.bias(out_channel + o) : 0.0f;
    const Index offset = (out_channel + o) * static_cast<Index>(out_volume);
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
      if (pixels[p].active) hooks.store(pixels[p].out_base + offset, sums[p][o] + bias);
    }
  }
}

}  // namespace tw
