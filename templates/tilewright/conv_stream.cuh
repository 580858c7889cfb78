// tilewright/conv_stream.cuh
// The convolution of conv.cuh for few input channels, on wgmma (m64nNk8 tf32, accumulation f32), planes of x streaming through it.
// A block stays: it takes tiles of 2 * warpgroups rows of 32 output pixels, and of each the planes of the third dimension one after the
// other (all of them where that dimension is reduced, else planes_per_block). One warp copies planes of x into a ring in shared memory. A
// warpgroup gathers its 64 pixels' words of a plane into registers once and multiplies them with the weights of all kernel planes side by
// side: N = kernel planes * channels. Plane p takes part in as many output planes as the kernel has, each of which owns N / kernel planes
// columns; the one that is complete is folded, or stored, and its columns begin anew. Copies of the weights in shared memory, their
// columns rotated, spare moving accumulators.
// Baked in: what conv.cuh bakes in; one group; stride and dilation 1 from plane to plane; f32 operands under precision tf32; x as it is in
// memory. sm_90a.
#pragma once

#include "tilewright/conv_epilogue.cuh"
#include "tilewright/conv_layout.cuh"
#include "tilewright/conv_stage.cuh"
#include "tilewright/conv_stream_copy.cuh"
#include "tilewright/conv_stream_layout.cuh"
#include "tilewright/ptx_wgmma.cuh"
#include "tilewright/shared.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace conv_detail {

// ---- weights --------------------------------------------------------------------------------------------------------------------------

// Kernel plane d of tap (entry, lane) for output channel o lies in columns of slot s of rotation (d + s) % planes.
template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void build_weights(const Hooks& hooks, u32* weights) {
  using L = Layout<kConfig>;
  using S = StreamLayout<kConfig>;
  using Index = typename Hooks::Index;
  constexpr int kItems = L::kKernelZ * S::kSteps * 2 * S::kSlotColumns * 4;
  constexpr int kAtOnce = 4;  // loads in flight
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < kItems; first += L::kThreads * kAtOnce) {
    u32 bits[kAtOnce];
    int depth[kAtOnce], word[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int item = first + k * L::kThreads;
      const int lane = item & 3, channel = item / 4 % S::kSlotColumns, rest = item / (4 * S::kSlotColumns);
      const int entry = rest % (S::kSteps * 2);
      depth[k] = rest / (S::kSteps * 2);
      word[k] = entry * S::kN * 4 + channel * 4 + lane;
      const StreamTap tap = stream_tap<kConfig>(entry, lane);
      int at[3];
      at[L::kZ] = depth[k], at[L::kY] = tap.y, at[L::kX] = tap.x;
      const int flat = (at[0] * kConfig.kernel[1] + at[1]) * kConfig.kernel[2] + at[2];
      const bool wanted = item < kItems && tap.exists && channel < kConfig.out_channels;
      bits[k] = ptx::cvt_rn_tf32_f32(hooks.load_w(static_cast<Index>(channel * kConfig.channels + tap.channel) * L::kTaps + flat, wanted));
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * L::kThreads >= kItems) continue;
#pragma unroll
      for (int slot = 0; slot < L::kKernelZ; ++slot) {
        const int rotation = depth[k] + slot < L::kKernelZ ? depth[k] + slot : depth[k] + slot - L::kKernelZ;
        weights[rotation * S::kRotationWords + word[k] + slot * S::kSlotColumns * 4] = bits[k];
      }
    }
  }
}

// ---- pixels' words --------------------------------------------------------------------------------------------------------------------

// Where a lane finds its words in slot 0.
template <ConvConfig kConfig>
struct StreamPointers {
  using L = Layout<kConfig>;
  using S = StreamLayout<kConfig>;
  const u32* rows[S::kRowPointers];
  const u32* singles[S::kSinglePointers];

  __device__ __forceinline__ explicit StreamPointers(const u32* slot) {
    const int lane = static_cast<int>(threadIdx.x & 3), pixel = lane_pixel<kConfig>(0, 0);
    const u32* const corner = slot + S::kShift + L::pixel_words(pixel);
#pragma unroll
    for (int g = 0; g < S::kRowPointers; ++g) rows[g] = corner + S::row_words(g * 4 + lane);
#pragma unroll
    for (int s = 0; s < S::kSingleTurns; ++s) {
      const StreamTap tap = stream_tap<kConfig>(S::kGroups * L::kKernelX + s, lane);
      // A lane without a tap here reads zeros: zero weights alone would turn an infinite word into NaN.
      singles[s] = tap.exists ? corner + S::tap_words(tap) : slot + S::kZeroWord;
    }
  }
  __device__ __forceinline__ void advance(int words) {
#pragma unroll
    for (int g = 0; g < S::kRowPointers; ++g) rows[g] += words;
#pragma unroll
    for (int s = 0; s < S::kSingleTurns; ++s) singles[s] += words;
  }
};

// What a lane reads of one plane: of two pixels beside each other, fragment rows lane / 4 and lane / 4 + 8, the taps that it holds.
template <ConvConfig kConfig>
struct StreamWindow {
  using L = Layout<kConfig>;
  using S = StreamLayout<kConfig>;
  u32 row[S::kGroups > 0 ? S::kGroups : 1][S::kWindow];
  u32 single[S::kSingleTurns > 0 ? S::kSingleTurns : 1][2];

  __device__ __forceinline__ void load(const StreamPointers<kConfig>& pointers, int slot_words) {
#pragma unroll
    for (int g = 0; g < S::kGroups; ++g) {
      const u32* const from = pointers.rows[S::kChannelsInLanes ? 0 : g] + slot_words + (S::kChannelsInLanes ? S::group_words(g) : 0);
#pragma unroll
      for (int i = 0; i < S::kWindow; ++i) {
        if (S::kPairs && i % 2 == 0 && i + 1 < S::kWindow && S::needs(i) && S::needs(i + 1)) {
          const auto two = *reinterpret_cast<const WordVector<2>*>(from + i);
          row[g][i] = two.word[0];
          row[g][i + 1] = two.word[1];
        } else if (S::needs(i) && !(S::kPairs && i % 2 == 1 && S::needs(i - 1))) {
          row[g][i] = from[i];
        }
      }
    }
#pragma unroll
    for (int s = 0; s < S::kSingleTurns; ++s) {
      single[s][0] = pointers.singles[s][slot_words];
      single[s][1] = pointers.singles[s][slot_words + kConfig.stride[L::kX]];
    }
  }

  __device__ __forceinline__ u32 word(int entry, int h) const {
    if (entry < S::kGroups * L::kKernelX)
      return row[entry / L::kKernelX][entry % L::kKernelX * kConfig.dilation[L::kX] + h * kConfig.stride[L::kX]];
    return single[entry - S::kGroups * L::kKernelX][h];
  }

  // Step s of A: columns lane % 4 (entry 2 s) and lane % 4 + 4 (entry 2 s + 1).
  __device__ __forceinline__ void fragments(u32 (&a)[S::kSteps][4]) const {
#pragma unroll
    for (int s = 0; s < S::kSteps; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int entry = 2 * s + i / 2;
        a[s][i] = entry < S::kEntries ? ptx::cvt_rn_tf32_f32(__uint_as_float(word(entry, i % 2))) : 0u;
      }
    }
  }
};

// ---- products -------------------------------------------------------------------------------------------------------------------------

// What the multiplying warps keep from plane to plane.
template <ConvConfig kConfig, typename Hooks>
struct Stream {
  using L = Layout<kConfig>;
  using S = StreamLayout<kConfig>;
  using Index = typename Hooks::Index;

  const Hooks& hooks;
  StreamShared<kConfig> shared;
  StreamPointers<kConfig> from;  // of the round's first plane
  StreamWindow<kConfig> window = {};
  u64* full;  // of the round's first plane
  u32 parity = 0;
  float acc[S::kN / 2] = {};
  Accumulators<kConfig> folded = {};
  StartValues<kConfig, Hooks> start_values = {};

  __device__ __forceinline__ Stream(const Hooks& hooks, const StreamShared<kConfig>& shared)
      : hooks(hooks), shared(shared), from(shared.slot(0)), full(shared.full()) {}

  template <int kSlot>
  __device__ __forceinline__ void start_slot() {
    Accumulators<kConfig> start;
    start_values.start(start);
#pragma unroll
    for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[(kSlot * kConfig.n_tiles + n) * 4 + i] = start[0][n][i];
    }
  }

  // Plane kPlane of a round; z: the output plane that it completes, negative or before `first` for none.
  template <int kPlane>
  __device__ __forceinline__ void plane(const Tile<Index>& tile, int z) {
    constexpr int kDone = (kPlane + 1) % L::kKernelZ;  // slot
    u32 a[S::kSteps][4];
    window.fragments(a);
    __syncwarp();
    if ((threadIdx.x & 31) == 0) ptx::mbarrier_arrive(full + kConfig.stages + kPlane);
    ptx::wgmma_keep_order(acc);
    ptx::wgmma_fence();
#pragma unroll
    for (int s = 0; s < S::kSteps; ++s) {
      const u32* const b = shared.weights() + kPlane * S::kRotationWords + s * S::kStepWords;
      ptx::wgmma_mma_async_tf32<S::kN>(acc, a[s], ptx::wgmma_descriptor(b, S::kN * 16, 128, WgmmaSwizzle::kNone), true);
    }
    ptx::wgmma_commit_group();
    // While it multiplies: the next plane's words.
    if constexpr (kPlane + 1 == L::kKernelZ) advance();
    wait_phase(full + (kPlane + 1) % L::kKernelZ, parity);
    window.load(from, (kPlane + 1) % L::kKernelZ * S::kSlotWords);
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_keep_order(acc);
    if (z >= tile.first[0]) {
      Accumulators<kConfig> done;
#pragma unroll
      for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) done[0][n][i] = acc[(kDone * kConfig.n_tiles + n) * 4 + i];
      }
      finish_plane<kConfig>(done, folded, hooks, tile, z);
    }
    start_slot<kDone>();
    if constexpr (kPlane + 1 < L::kKernelZ) plane<kPlane + 1>(tile, z + 1);
  }

  // To the next round's planes: the ring holds a whole number of rounds.
  __device__ __forceinline__ void advance() {
    full += L::kKernelZ;
    int words = L::kKernelZ * S::kSlotWords;
    if (full == shared.full() + kConfig.stages) {
      full = shared.full();
      parity ^= 1;
      words -= kConfig.stages * S::kSlotWords;
    }
    from.advance(words);
  }

  __device__ __forceinline__ void run(const ConvArgs& args, u32 tiles) {
    if (blockIdx.x >= tiles) return;
    start_values.load(hooks, locate_tile<kConfig, Index>(args, blockIdx.x));
    wait_phase(full, parity);
    window.load(from, 0);
#pragma unroll 1
    for (u32 i = blockIdx.x; i < tiles; i += gridDim.x) {
      const auto tile = locate_tile<kConfig, Index>(args, i);
      const StreamPlanes planes = stream_planes<kConfig>(tile.first[0], tile.z_end);
      start_all<0>();
      clear<kConfig>(folded, fold_identity<kConfig>());
#pragma unroll 1
      for (int p = 0; p < planes.count; p += L::kKernelZ) plane<0>(tile, planes.first_out + p);
      if constexpr (L::kReduces) store_reduced(tile);
    }
  }

  template <int kSlot>
  __device__ __forceinline__ void start_all() {
    start_slot<kSlot>();
    if constexpr (kSlot + 1 < L::kKernelZ) start_all<kSlot + 1>();
  }

  // What finish_reduced does, in registers.
  __device__ __forceinline__ void store_reduced(const Tile<Index>& tile) {
    const Index image = static_cast<Index>(tile.out[1]) * tile.out[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const PixelPosition at = pixel_position<kConfig>(tile, 0, h);
      const Index first = tile.batch * kConfig.out_channels * image + static_cast<Index>(at.y) * tile.out[2] + at.x;
#pragma unroll
      for (int n = 0; n < kConfig.n_tiles; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& value = folded[0][n][h * 2 + j];
          const int channel = lane_channel<kConfig>(tile, n, j);
          const bool exists = at.exists && channel_exists<kConfig, Index>(channel);
          value = reduced_value<kConfig>(value, hooks, tile, first + channel * image, channel, exists);
        }
      }
      store_pixel<kConfig>(folded, hooks, tile, 0, h, at.exists, first, image);
    }
  }
};

}  // namespace conv_detail

template <ConvConfig kConfig, typename Hooks>
__device__ __forceinline__ void conv_stream(const ConvArgs& args, const Hooks& hooks) {
  using namespace conv_detail;
  using L = Layout<kConfig>;
  using S = StreamLayout<kConfig>;
  using Index = typename Hooks::Index;
  const StreamShared<kConfig> shared{dynamic_shared_words()};
  const u32 tiles = stream_tiles<kConfig>(args);
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 0; i < kConfig.stages; ++i) {
      ptx::mbarrier_init(shared.full() + i, 32);
      ptx::mbarrier_init(shared.empty() + i, kConfig.warps);
    }
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kConfig.stages * S::kSlotWords / 4; i += L::kThreads + 32) {
    reinterpret_cast<WordVector<4>*>(shared.words)[i] = WordVector<4>{};
  }
  __syncthreads();
  if (threadIdx.x >= L::kThreads) {
    const float* const x = hooks.x();
    if (S::kCopyWords > 1 && reinterpret_cast<u64>(x) % (S::kCopyWords * 4) == 0) {
      copy_planes<kConfig, S::kCopyWords, Index>(args, x, shared, tiles);
    } else {
      copy_planes<kConfig, 1, Index>(args, x, shared, tiles);
    }
    return;
  }
  build_weights<kConfig>(hooks, shared.weights());
  ptx::fence_proxy_async();
  ptx::bar_sync(1, L::kThreads);
  Stream<kConfig, Hooks>(hooks, shared).run(args, tiles);
}

}  // namespace tw
