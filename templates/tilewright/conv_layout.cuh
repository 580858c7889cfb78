// tilewright/conv_layout.cuh
// What a tensor-core convolution (conv.cuh) is told, and how its block lays out shared memory and shares out its tile.
#pragma once

#include "tilewright/types.cuh"

namespace tw {

// How operands reach the multiplier. Accumulation is f32 always.
enum class ConvPrecision : int {
  kIeee,    // f32 operands, fused multiply-add
  kTf32,    // f32 operands rounded to nearest tf32, one product
  kTf32x3,  // f32 operands split in two tf32 parts, three products: as accurate as f32
  kHalf,    // f16 or bf16 operands (Hooks::Operand), as they are
};

enum class ConvReduce : int { kSum, kMean, kMin, kMax };

// Spatial arrays are in logical order D, H, W; convolutions of fewer dimensions have leading 1s (0 for padding).
struct ConvConfig {
  ConvPrecision precision = ConvPrecision::kTf32x3;
  int channels = 1;               // C / groups
  int out_channels = 1;           // O / groups
  int groups = 1;                 //
  int kernel[3] = {1, 1, 1};      //
  int stride[3] = {1, 1, 1};      //
  int dilation[3] = {1, 1, 1};    //
  int pad_before[3] = {0, 0, 0};  // positions outside x count as zero
  int in_size[3] = {0, 0, 0};     // 0 = in the args
  int out_size[3] = {0, 0, 0};    // of the convolution, before any reduction; 0 = in the args
  int reduce_dim = -1;            // spatial dimension the epilogue folds; -1 = none
  ConvReduce reduce = ConvReduce::kSum;
  bool softmax = false;      // over all output channels; needs groups == 1 and 8 * n_tiles >= out_channels
  int warps = 4;             // of a block
  int m_tiles = 2;           // a warp owns m_tiles * 16 output pixels
  int n_tiles = 1;           // ... times n_tiles * 8 output channels of one group
  int tile_y = 1;            // output pixels of a block in the slower remaining dimension
  int tile_x = 16;           // ... and in the faster; tile_y * tile_x <= warps * m_tiles * 16
  int chunk_channels = 1;    // input channels staged at a time, <= channels
  int planes_per_block = 1;  // output planes of a block when nothing is reduced; otherwise it owns them all
  int row_pitch = 1;         // words between two rows of a staged plane, >= its width
  int channel_pitch = 1;     // words between two channels of a staged plane, >= rows * row_pitch
  int unroll = 2;            // of the loop over the depth of the product, in steps of 8 words
  bool prefetch = false;     // next plane's elements wait in registers while this one is multiplied (single chunk, stride 1)
  int flush_steps = 0;       // products of so many steps are summed apart, then added in f32: long sums lose less; 0 = all in one
  int stages = 0;            // planes in the ring of conv_stream.cuh, a multiple of the kernel's; 0 in conv.cuh
};

struct ConvArgs {
  i64 batch;        // N
  i64 in_size[3];   // D, H, W of x
  i64 out_size[3];  // of the convolution, before any reduction
};

namespace conv_detail {

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int min_of(int a, int b) { return a < b ? a : b; }

// Everything that follows from the config. A word is 4 bytes of shared memory: one f32 or tf32 element, or one pair of adjacent 16-bit
// channels. The product's depth K counts words: word k = (channel word, tap), taps in row-major order of the kernel.
template <ConvConfig kConfig>
struct Layout {
  // Roles of the spatial dimensions: z is walked plane by plane (the reduced one, if any), y and x span the pixel tile.
  static constexpr int kZ = kConfig.reduce_dim > 0 ? kConfig.reduce_dim : 0;
  static constexpr int kY = kZ == 0 ? 1 : 0;
  static constexpr int kX = kZ == 2 ? 1 : 2;
  static constexpr bool kReduces = kConfig.reduce_dim >= 0;
  static constexpr bool kIeee = kConfig.precision == ConvPrecision::kIeee;
  static constexpr bool kSplit = kConfig.precision == ConvPrecision::kTf32x3;
  static constexpr int kThreads = kConfig.warps * 32;
  static constexpr int kPixels = kConfig.warps * kConfig.m_tiles * 16;
  static constexpr int kWordChannels = kConfig.precision == ConvPrecision::kHalf ? 2 : 1;
  static constexpr int kParts = kSplit ? 2 : 1;
  static constexpr int kKernelZ = kConfig.kernel[kZ], kKernelY = kConfig.kernel[kY], kKernelX = kConfig.kernel[kX];
  static constexpr int kTaps = kKernelZ * kKernelY * kKernelX;
  static constexpr int kChunkWords = ceil_div(kConfig.chunk_channels, kWordChannels);
  static constexpr int kChunks = ceil_div(kConfig.channels, kConfig.chunk_channels);
  static constexpr bool kSingle = kChunks == 1;  // weights stay in shared memory, input planes go through a ring
  static constexpr int kSpan = (kKernelZ - 1) * kConfig.dilation[kZ] + 1;
  static constexpr bool kOnePlane = !kReduces && kConfig.planes_per_block == 1;
  // Single chunk: planes one output plane reads, plus those the next one adds. Otherwise two buffers of the planes the taps touch.
  static constexpr int kSlots = !kSingle ? 2 * kKernelZ : kOnePlane ? kSpan : kSpan + kConfig.stride[kZ];
  static constexpr int kTileY = kConfig.out_size[kY] > 0 ? min_of(kConfig.tile_y, kConfig.out_size[kY]) : kConfig.tile_y;
  static constexpr int kTileX = kConfig.out_size[kX] > 0 ? min_of(kConfig.tile_x, kConfig.out_size[kX]) : kConfig.tile_x;
  static constexpr int kPatchY = (kTileY - 1) * kConfig.stride[kY] + (kKernelY - 1) * kConfig.dilation[kY] + 1;
  static constexpr int kPatchX = (kTileX - 1) * kConfig.stride[kX] + (kKernelX - 1) * kConfig.dilation[kX] + 1;
  static constexpr int kPatch = kPatchY * kPatchX;
  static constexpr int kPositions = ceil_div(kPatch, kThreads);  // of the patch, a thread
  static constexpr int kPlaneWords = kChunkWords * kConfig.channel_pitch;
  static constexpr int kDepth = kChunkWords * kTaps;  // K
  static constexpr int kSteps = ceil_div(kDepth, 8);
  // Weights in the order a warp multiplies them: [step][n tile][lane][part][half]; for kIeee [k][output channel].
  static constexpr int kLaneWords = 2 * kParts;
  static constexpr int kWeightWords = kIeee ? kDepth * kConfig.n_tiles * 8 : kSteps * kConfig.n_tiles * 32 * kLaneWords;
  static constexpr int kWeightBuffers = kSingle ? 1 : 2;

  // Offsets of the K words: one table for each slot a ring's window can begin in, when that is little memory; else one, and whoever
  // reads it goes round the ring.
  static constexpr bool kRing = kSingle && !kOnePlane;
  static constexpr bool kTablePerSlot = kRing && kSlots * kSteps * 8 <= 1536;
  static constexpr int kTables = kTablePerSlot ? kSlots : 1;
  static constexpr int kTableWords = kSteps * 8;

  // Shared memory in words: weights, tables, flags of staged planes, ring (its low parts behind its high parts).
  static constexpr int kTableWord = kWeightBuffers * kWeightWords;
  static constexpr int kFlagWord = kTableWord + kTables * kTableWords;
  static constexpr int kFlagSets = kSplit ? (kSingle ? kSlots : 2) + kWeightBuffers : 0;
  static constexpr int kRingWord = kFlagWord + kFlagSets * 4;
  static constexpr int kRingWords = kSlots * kPlaneWords;
  // Pixels beyond the tile's valid width read words behind their row; the slack keeps the last row's reads inside.
  static constexpr int kSlackWords =
      (kConfig.tile_x - kTileX) * kConfig.stride[kX] + (kConfig.tile_y - kTileY) * kConfig.stride[kY] * kConfig.row_pitch;
  // Words behind the depth: zeros that every pixel of the tile finds at one offset from where it lies, or a mask where offsets go round
  // the ring or lead to two parts or buffers.
  static constexpr bool kHasTail = !kIeee && kDepth % 8 != 0;
  static constexpr bool kMaskTail = kHasTail && (kSplit || !kSingle || (kRing && !kTablePerSlot));
  static constexpr int kZeroWords =
      kHasTail && !kMaskTail ? (kConfig.tile_y - 1) * kConfig.stride[kY] * kConfig.row_pitch + (kConfig.tile_x - 1) * kConfig.stride[kX] + 1
                             : 0;
  static constexpr int kTailOffset = kZeroWords > 0 ? kRingWords + kSlackWords : 0;
  static constexpr int kPhaseWords = kRingWord + kRingWords * kParts + kSlackWords + kZeroWords;
  // In place of all that, at the end: reduced values, [channel][pixel]. The pitch spreads the 4 channel pairs of a quad over the banks.
  static constexpr int kPixelPitch = kPixels + 4;
  static constexpr int kReducedWords = kReduces ? kConfig.n_tiles * 8 * kPixelPitch : 0;
  static constexpr int kSharedBytes = 4 * (kPhaseWords > kReducedWords ? kPhaseWords : kReducedWords);

  // A warp's m tiles lie `warps` apart or side by side, whichever makes their distances constants: one address then serves them all.
  static constexpr bool kFullTile = kConfig.tile_y * kConfig.tile_x == kPixels && kConfig.tile_x % 16 == 0;
  static constexpr bool kStrided = kFullTile && (kConfig.warps * 16) % kConfig.tile_x == 0;
  static constexpr bool kAdjacent =
      kFullTile && ((kConfig.m_tiles * 16) % kConfig.tile_x == 0 || kConfig.tile_x % (kConfig.m_tiles * 16) == 0);
  static constexpr bool kConstantDistances = kStrided || kAdjacent;

  // Pixel of fragment row 0 of a warp's m tile.
  __host__ __device__ static constexpr int tile_pixel(int warp, int m_tile) {
    return kStrided ? (m_tile * kConfig.warps + warp) * 16 : (warp * kConfig.m_tiles + m_tile) * 16;
  }
  // Words from the plane's start to what tap 0 of a pixel reads.
  __host__ __device__ static constexpr int pixel_words(int pixel) {
    return pixel / kConfig.tile_x * kConfig.stride[kY] * kConfig.row_pitch + pixel % kConfig.tile_x * kConfig.stride[kX];
  }

  static_assert(kConfig.warps >= 1 && kConfig.warps <= 32, "conv: a block has 1 to 32 warps");
  static_assert(kConfig.tile_y >= 1 && kConfig.tile_x >= 1 && kConfig.tile_y * kConfig.tile_x <= kPixels,
                "conv: tile_y * tile_x must be at most warps * m_tiles * 16");
  static_assert(kConfig.chunk_channels >= 1 && kConfig.chunk_channels <= kConfig.channels, "conv: chunk_channels must be in [1, channels]");
  static_assert(kWordChannels == 1 || kSingle || kConfig.chunk_channels % 2 == 0,
                "conv: 16-bit chunks must have an even number of channels");
  static_assert(kConfig.row_pitch >= kPatchX && kConfig.channel_pitch >= kPatchY * kConfig.row_pitch, "conv: pitches too small");
  static_assert(!kConfig.softmax || (kConfig.groups == 1 && kConfig.n_tiles * 8 >= kConfig.out_channels),
                "conv: softmax needs one group and a block that owns all output channels");
  static_assert(!kConfig.prefetch || (kSingle && kConfig.stride[kZ] == 1), "conv: prefetch needs a single chunk and stride 1");
};

}  // namespace conv_detail

// Dynamic shared memory of a block.
template <ConvConfig kConfig>
__host__ __device__ constexpr int conv_shared_bytes() {
  return conv_detail::Layout<kConfig>::kSharedBytes;
}

}  // namespace tw
