// tilewright/stencil.cuh
// Depthwise convolution: out[n,o,z,y,t] = bias[o] + sum over kz, ky, kx of
//   w[o,kz,ky,kx] * x[n, o / multiplier, z*sz + kz*dz - pz, y*sy + ky*dy - py, t*sx + kx*dx - px].
// Positions outside x are zeros that are multiplied like others (an infinite weight makes them NaN). One, two or three spatial
// dimensions, normalised to three (leading ones). Accumulation f32 by fused multiply-add in the order bias, kz, ky, kx, the same on
// every path.
//   kLine: a warp owns 32 * vectors_per_thread adjacent vectors of one output row. All of its loads are issued first; what a vector needs
//     of its neighbours comes by shuffle, and only the tile's two ends read beyond it. One read of x, for long rows.
//   kGrid: a thread owns one vector of vectors_per_thread output rows below each other and slides down the input rows they share;
//     neighbouring vectors are read again (from the L1 cache). Vectors are numbered over the whole output, so short rows waste no lane.
//   One element at a time, in the same tiles (kLine) or by number (kGrid): strides along a row, lengths that are no multiple of the vector,
//     misaligned tensors.
// Baked in: kernel, stride, dilation, padding; channels and sizes where the config has them. Any sm_80 or newer.
#pragma once

#include "tilewright/index.cuh"
#include "tilewright/memory.cuh"
#include "tilewright/types.cuh"

namespace tw {

enum class StencilTile { kLine, kGrid };

struct StencilConfig {
  StencilTile tile = StencilTile::kGrid;
  int block_threads = 256;     // a multiple of 32
  int vector_elems = 1;        // V: adjacent outputs of a thread; 1 = scalar path only
  int vectors_per_thread = 1;  // R: kLine: vectors of one row; kGrid: rows
  int kernel[3] = {1, 1, 1};   // z, y, x
  int stride[3] = {1, 1, 1};
  int dilation[3] = {1, 1, 1};
  int pad_before[3] = {0, 0, 0};
  i64 channels = 0;             // of x; 0 = in the args
  i64 multiplier = 0;           // output channels per input channel; 0 = in the args
  i64 in_size[3] = {0, 0, 0};   // z, y, x of x; 0 = in the args
  i64 out_size[3] = {0, 0, 0};  // of out; 0 = in the args
};

struct StencilArgs {
  i64 batch;       // N
  i64 channels;    // of x
  i64 multiplier;  // output channels per input channel
  i64 in_size[3];
  i64 out_size[3];
  u32 misalignment;  // OR of all operand addresses & 15; 0 lets vectors be used
};

namespace stencil_detail {

// Sizes with the baked ones as constants, in the index type: 32-bit divisions where every tensor is small enough.
template <StencilConfig kConfig, typename Index>
struct Sizes {
  Index channels, multiplier, in_size[3], out_size[3];
  __device__ __forceinline__ explicit Sizes(const StencilArgs& args) {
    channels = static_cast<Index>(kConfig.channels > 0 ? kConfig.channels : args.channels);
    multiplier = static_cast<Index>(kConfig.multiplier > 0 ? kConfig.multiplier : args.multiplier);
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      in_size[d] = static_cast<Index>(kConfig.in_size[d] > 0 ? kConfig.in_size[d] : args.in_size[d]);
      out_size[d] = static_cast<Index>(kConfig.out_size[d] > 0 ? kConfig.out_size[d] : args.out_size[d]);
    }
  }
};

// An output row: its plane's output channel and input plane (n * C + c, as O = C * multiplier), and where it lies in the plane.
template <typename Index>
struct Row {
  Index o, in_plane, z, y;
};

// `z_row` numbers the z slices of all planes.
template <StencilConfig kConfig, typename Index>
__device__ __forceinline__ Row<Index> locate_row(const Sizes<kConfig, Index>& sizes, Index z_row, Index y) {
  const Split<Index> slice = split(z_row, sizes.out_size[0]);
  const Index o = split(slice.quotient, static_cast<Index>(sizes.channels * sizes.multiplier)).remainder;
  return {o, split(slice.quotient, sizes.multiplier).quotient, slice.remainder, y};
}

// Compile-time geometry of a vector and its taps along a row (stride 1). An element of x that output element e of a vector needs for tap
// kx lies at offset e + kx*dilation - pad from the vector's first element.
template <StencilConfig kConfig>
struct Reach {
  static constexpr int kV = kConfig.vector_elems;
  static constexpr int kKernelX = kConfig.kernel[2];
  static constexpr int kBehind = kConfig.pad_before[2];
  static constexpr int kAhead = (kKernelX - 1) * kConfig.dilation[2] - kConfig.pad_before[2];
  static constexpr int kLeft = kBehind > 0 ? (kBehind + kV - 1) / kV : 0;  // vectors before the own one
  static constexpr int kRight = kAhead > 0 ? (kAhead + kV - 1) / kV : 0;   // vectors after it
  static constexpr int kWindow = (kLeft + 1 + kRight) * kV;                // elements, the own vector's first at kLeft * kV
  static constexpr int kTaps = kConfig.kernel[0] * kConfig.kernel[1] * kKernelX;
  static constexpr int kRows = kConfig.vectors_per_thread;  // kGrid: output rows, and the input rows they span
  static constexpr int kInRows = (kRows - 1) * kConfig.stride[1] + (kConfig.kernel[1] - 1) * kConfig.dilation[1] + 1;
  // Beyond these limits unrolled code would be long and registers short: such kernels take the scalar path.
  static constexpr bool kVectors = kV > 1 && kConfig.stride[2] == 1 && kLeft <= 8 && kRight <= 8 && kConfig.kernel[1] * kKernelX <= 64 &&
                                   (kConfig.tile == StencilTile::kLine || kInRows <= 64);

  // Whether any tap of any output element needs window element `w`.
  __device__ static constexpr bool used(int w) {
    for (int kx = 0; kx < kKernelX; ++kx) {
      const int e = w - kLeft * kV - kx * kConfig.dilation[2] + kConfig.pad_before[2];
      if (e >= 0 && e < kV) return true;
    }
    return false;
  }
  __device__ static constexpr bool vector_used(int vector) {
    for (int e = 0; e < kV; ++e) {
      if (used(vector * kV + e)) return true;
    }
    return false;
  }
};

// sums[e] += w[kx] * window[...] for the taps of one kernel row.
template <StencilConfig kConfig>
__device__ __forceinline__ void accumulate_row(const float (&window)[Reach<kConfig>::kWindow], const float* w,
                                               float (&sums)[kConfig.vector_elems]) {
  using R = Reach<kConfig>;
#pragma unroll
  for (int kx = 0; kx < R::kKernelX; ++kx) {
#pragma unroll
    for (int e = 0; e < R::kV; ++e) {
      sums[e] = __fmaf_rn(w[kx], window[R::kLeft * R::kV + e + kx * kConfig.dilation[2] - kConfig.pad_before[2]], sums[e]);
    }
  }
}

// One warp's tile of one kernel row: R vectors of x a lane, then the taps. `row` is the first element of the input row, all zeros unless
// `inside`; `first_vector` is the tile's first vector in it.
template <StencilConfig kConfig, typename Hooks>
__device__ __forceinline__ void line_row(const Hooks& hooks, bool inside, typename Hooks::Index row, int in_vectors, int first_vector,
                                         const float* w, float (&sums)[kConfig.vectors_per_thread][kConfig.vector_elems]) {
  using Index = typename Hooks::Index;
  using R = Reach<kConfig>;
  constexpr int kV = R::kV;
  constexpr int kCount = kConfig.vectors_per_thread;
  constexpr u32 kFullWarp = 0xffffffffu;
  const int lane = static_cast<int>(threadIdx.x) & 31;

  // values[0] holds the vectors before the tile (only in the last kLeft lanes), values[kCount + 1] those after it (in the first kRight).
  float values[kCount + 2][kV];
  const int own_vector = first_vector + lane;
  const Index own = row + static_cast<Index>(own_vector) * kV;
  const auto load = [&](int r, bool wanted) { hooks.template load_x<kV>(own + (r - 1) * 32 * kV, values[r], inside && wanted); };
  const int before = own_vector - 32, after = own_vector + kCount * 32;
  load(0, R::kLeft > 0 && lane >= 32 - R::kLeft && before >= 0 && before < in_vectors);
#pragma unroll
  for (int r = 1; r <= kCount; ++r) load(r, own_vector + (r - 1) * 32 < in_vectors);
  load(kCount + 1, R::kRight > 0 && lane < R::kRight && after < in_vectors);

#pragma unroll
  for (int r = 1; r <= kCount; ++r) {
    float window[R::kWindow];
#pragma unroll
    for (int distance = -R::kLeft; distance <= R::kRight; ++distance) {
#pragma unroll
      for (int e = 0; e < kV; ++e) {
        const int position = (R::kLeft + distance) * kV + e;
        window[position] = 0.0f;
        if (distance == 0) {
          window[position] = values[r][e];
        } else if (R::used(position)) {
          // The lane that sends holds the wanted vector in this register row, or, where the tile wraps around, in the one before or after.
          const bool wraps = distance < 0 ? lane >= 32 + distance : lane < distance;
          const float sent = wraps ? values[distance < 0 ? r - 1 : r + 1][e] : values[r][e];
          window[position] = __shfl_sync(kFullWarp, sent, (lane + distance) & 31);
        }
      }
    }
    accumulate_row<kConfig>(window, w, sums[r - 1]);
  }
}

// The tile of R * 32 vectors from `first_vector` on of output row `row`, which is `at`.
template <StencilConfig kConfig, typename Hooks>
__device__ __forceinline__ void line_tile(const Hooks& hooks, const Sizes<kConfig, typename Hooks::Index>& sizes, typename Hooks::Index row,
                                          const Row<typename Hooks::Index>& at, int first_vector) {
  using Index = typename Hooks::Index;
  using R = Reach<kConfig>;
  constexpr int kCount = kConfig.vectors_per_thread;
  const int in_vectors = static_cast<int>(sizes.in_size[2] / R::kV);
  const int out_vectors = static_cast<int>(sizes.out_size[2] / R::kV);

  float sums[kCount][R::kV];
  const float bias = Hooks::kHasBias ? hooks.bias(at.o) : 0.0f;
#pragma unroll
  for (int r = 0; r < kCount; ++r) splat_vector<R::kV>(bias, sums[r]);
#pragma unroll(R::kTaps <= 16 ? kConfig.kernel[0] * kConfig.kernel[1] : 1)
  for (int k = 0; k < kConfig.kernel[0] * kConfig.kernel[1]; ++k) {
    const Index in_z = at.z * kConfig.stride[0] + (k / kConfig.kernel[1]) * kConfig.dilation[0] - kConfig.pad_before[0];
    const Index in_y = at.y * kConfig.stride[1] + (k % kConfig.kernel[1]) * kConfig.dilation[1] - kConfig.pad_before[1];
    const bool inside = in_z >= 0 && in_z < sizes.in_size[0] && in_y >= 0 && in_y < sizes.in_size[1];  // the same for the whole warp
    float w[R::kKernelX];
#pragma unroll
    for (int kx = 0; kx < R::kKernelX; ++kx) w[kx] = hooks.load_w(at.o * R::kTaps + k * R::kKernelX + kx);
    const Index in_row = ((at.in_plane * sizes.in_size[0] + in_z) * sizes.in_size[1] + in_y) * sizes.in_size[2];
    line_row<kConfig>(hooks, inside, in_row, in_vectors, first_vector, w, sums);
  }
  const int own_vector = first_vector + (static_cast<int>(threadIdx.x) & 31);
  const Index own = row * sizes.out_size[2] + static_cast<Index>(own_vector) * R::kV;
#pragma unroll
  for (int r = 0; r < kCount; ++r) {
    hooks.template store<R::kV>(own + r * 32 * R::kV, sums[r], own_vector + r * 32 < out_vectors);
  }
}

// Output element x of row `at`, alone.
template <StencilConfig kConfig, typename Hooks>
__device__ __forceinline__ float element(const Hooks& hooks, const Sizes<kConfig, typename Hooks::Index>& sizes,
                                         const Row<typename Hooks::Index>& at, typename Hooks::Index x) {
  using Index = typename Hooks::Index;
  constexpr int kTaps = kConfig.kernel[0] * kConfig.kernel[1] * kConfig.kernel[2];
  const Index first_x = x * kConfig.stride[2] - kConfig.pad_before[2];
  float sum = Hooks::kHasBias ? hooks.bias(at.o) : 0.0f;
#pragma unroll 1
  for (int k = 0; k < kConfig.kernel[0] * kConfig.kernel[1]; ++k) {
    const Index in_z = at.z * kConfig.stride[0] + (k / kConfig.kernel[1]) * kConfig.dilation[0] - kConfig.pad_before[0];
    const Index in_y = at.y * kConfig.stride[1] + (k % kConfig.kernel[1]) * kConfig.dilation[1] - kConfig.pad_before[1];
    const bool inside = in_z >= 0 && in_z < sizes.in_size[0] && in_y >= 0 && in_y < sizes.in_size[1];
    const Index in_row = ((at.in_plane * sizes.in_size[0] + in_z) * sizes.in_size[1] + in_y) * sizes.in_size[2];
    const Index w_row = at.o * kTaps + k * kConfig.kernel[2];
#pragma unroll 1
    for (int kx = 0; kx < kConfig.kernel[2]; ++kx) {
      const Index in_x = first_x + kx * kConfig.dilation[2];
      float value[1];
      hooks.template load_x<1>(in_row + in_x, value, inside && in_x >= 0 && in_x < sizes.in_size[2]);
      sum = __fmaf_rn(hooks.load_w(w_row + kx), value[0], sum);
    }
  }
  return sum;
}

// `vectors`: rows allow vector accesses; if not, the warp takes its tile element by element.
template <StencilConfig kConfig, typename Hooks>
__device__ __forceinline__ void line(const StencilArgs& args, const Hooks& hooks, const Sizes<kConfig, typename Hooks::Index>& sizes,
                                     bool vectors) {
  using Index = typename Hooks::Index;
  constexpr int kTile = 32 * kConfig.vectors_per_thread * kConfig.vector_elems;  // elements
  const Index rows = static_cast<Index>(args.batch) * sizes.channels * sizes.multiplier * sizes.out_size[0] * sizes.out_size[1];
  // 2^32 tiles would be more than any memory holds.
  const u32 tiles = static_cast<u32>((sizes.out_size[2] + (kTile - 1)) / kTile);
  const u32 warp = blockIdx.x * (kConfig.block_threads / 32) + threadIdx.x / 32;
  const u32 warp_row = warp / tiles;
  const int tile = static_cast<int>(warp - warp_row * tiles);
  const Index row = static_cast<Index>(warp_row);
  if (row >= rows) return;
  const Split<Index> slice = split(row, sizes.out_size[1]);
  const Row<Index> at = locate_row(sizes, slice.quotient, slice.remainder);
  if constexpr (Reach<kConfig>::kVectors) {
    if (vectors) {
      line_tile<kConfig>(hooks, sizes, row, at, tile * (32 * kConfig.vectors_per_thread));
      return;
    }
  }
  const Index first = static_cast<Index>(tile) * kTile;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) & 31; i < kTile; i += 32) {
    const Index x = first + i;
    if (x >= sizes.out_size[2]) return;
    const float sum[1] = {element<kConfig>(hooks, sizes, at, x)};
    hooks.template store<1>(row * sizes.out_size[2] + x, sum, true);
  }
}

template <StencilConfig kConfig, typename Hooks>
__device__ __forceinline__ void grid(const StencilArgs& args, const Hooks& hooks, const Sizes<kConfig, typename Hooks::Index>& sizes) {
  using Index = typename Hooks::Index;
  using R = Reach<kConfig>;
  constexpr int kV = R::kV;
  constexpr int kRows = kConfig.vectors_per_thread;
  constexpr int kKernelY = kConfig.kernel[1];
  const int in_vectors = static_cast<int>(sizes.in_size[2] / kV);
  const Index out_vectors = sizes.out_size[2] / kV;
  const Index y_tiles = (sizes.out_size[1] + kRows - 1) / kRows;
  const Index planes = static_cast<Index>(args.batch) * sizes.channels * sizes.multiplier;

  const i64 unit64 = static_cast<i64>(blockIdx.x) * kConfig.block_threads + threadIdx.x;
  if (unit64 >= static_cast<i64>(planes) * sizes.out_size[0] * y_tiles * out_vectors) return;
  const Index unit = static_cast<Index>(unit64);
  const Split<Index> along = split(unit, out_vectors);
  const Split<Index> down = split(along.quotient, y_tiles);
  const Index z_row = down.quotient;
  const Row<Index> at = locate_row(sizes, z_row, static_cast<Index>(down.remainder * kRows));
  const int vector = static_cast<int>(along.remainder);

  const float bias = Hooks::kHasBias ? hooks.bias(at.o) : 0.0f;
  float sums[kRows][kV];
#pragma unroll
  for (int r = 0; r < kRows; ++r) splat_vector<kV>(bias, sums[r]);
#pragma unroll 1
  for (int kz = 0; kz < kConfig.kernel[0]; ++kz) {
    const Index in_z = at.z * kConfig.stride[0] + kz * kConfig.dilation[0] - kConfig.pad_before[0];
    const bool slice_inside = in_z >= 0 && in_z < sizes.in_size[0];
    float w[kKernelY * R::kKernelX];
#pragma unroll
    for (int k = 0; k < kKernelY * R::kKernelX; ++k) w[k] = hooks.load_w(at.o * R::kTaps + kz * (kKernelY * R::kKernelX) + k);
    const Index in_top = at.y * kConfig.stride[1] - kConfig.pad_before[1];
    const Index in_slice = (at.in_plane * sizes.in_size[0] + in_z) * sizes.in_size[1];
    const Index own = (in_slice + in_top) * sizes.in_size[2] + static_cast<Index>(vector) * kV;
#pragma unroll
    for (int j = 0; j < R::kInRows; ++j) {
      const Index in_y = in_top + j;
      const bool row_inside = slice_inside && in_y >= 0 && in_y < sizes.in_size[1];
      float window[R::kWindow];
#pragma unroll
      for (int q = 0; q < R::kLeft + 1 + R::kRight; ++q) {
        const int position = vector + q - R::kLeft;
        float loaded[kV];
        hooks.template load_x<kV>(own + j * sizes.in_size[2] + (q - R::kLeft) * kV, loaded,
                                  R::vector_used(q) && row_inside && position >= 0 && position < in_vectors);
#pragma unroll
        for (int e = 0; e < kV; ++e) window[q * kV + e] = loaded[e];
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int above = j - r * kConfig.stride[1];
        if (above < 0 || above % kConfig.dilation[1] != 0 || above / kConfig.dilation[1] >= kKernelY) continue;
        accumulate_row<kConfig>(window, w + (above / kConfig.dilation[1]) * R::kKernelX, sums[r]);
      }
    }
  }
  const Index out = (z_row * sizes.out_size[1] + at.y) * sizes.out_size[2] + static_cast<Index>(vector) * kV;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    hooks.template store<kV>(out + r * sizes.out_size[2], sums[r], at.y + r < sizes.out_size[1]);
  }
}

template <StencilConfig kConfig, typename Hooks>
__device__ __forceinline__ void scalar(const StencilArgs& args, const Hooks& hooks, const Sizes<kConfig, typename Hooks::Index>& sizes) {
  using Index = typename Hooks::Index;
  const i64 elements =
      args.batch * static_cast<i64>(sizes.channels) * sizes.multiplier * sizes.out_size[0] * sizes.out_size[1] * sizes.out_size[2];
  const i64 step = static_cast<i64>(gridDim.x) * kConfig.block_threads;
#pragma unroll 1
  for (i64 i = static_cast<i64>(blockIdx.x) * kConfig.block_threads + threadIdx.x; i < elements; i += step) {
    const Index linear = static_cast<Index>(i);
    const Split<Index> along = split(linear, sizes.out_size[2]);
    const Split<Index> down = split(along.quotient, sizes.out_size[1]);
    const float sum[1] = {element<kConfig>(hooks, sizes, locate_row(sizes, down.quotient, down.remainder), along.remainder)};
    hooks.template store<1>(linear, sum, true);
  }
}

}  // namespace stencil_detail

// Grid: kLine: ceil(rows * ceil(out_size[2] / (32*V*R)) / (block_threads/32)) with rows = N * O * out_size[0] * out_size[1];
// kGrid: ceil(N * O * out_size[0] * ceil(out_size[1]/R) * ceil(out_size[2]/V) / block_threads).
template <StencilConfig kConfig, typename Hooks>
__device__ __forceinline__ void stencil(const StencilArgs& args, const Hooks& hooks) {
  using R = stencil_detail::Reach<kConfig>;
  static_assert(kConfig.block_threads >= 32 && kConfig.block_threads % 32 == 0, "stencil: block_threads must be a multiple of 32");
  static_assert(kConfig.vectors_per_thread >= 1, "stencil: vectors_per_thread must be positive");
  const stencil_detail::Sizes<kConfig, typename Hooks::Index> sizes(args);
  const bool vectors = args.misalignment == 0 && sizes.in_size[2] % R::kV == 0 && sizes.out_size[2] % R::kV == 0;
  if constexpr (kConfig.tile == StencilTile::kLine) {
    stencil_detail::line<kConfig>(args, hooks, sizes, vectors);
  } else {
    if constexpr (R::kVectors) {
      if (vectors) {
        stencil_detail::grid<kConfig>(args, hooks, sizes);
        return;
      }
    }
    stencil_detail::scalar<kConfig>(args, hooks, sizes);
  }
}

}  // namespace tw
