// Default tiles of the tensor-core convolution (tilewright/conv.cuh) and what follows from them on the host: shared bytes, pitches, grid.
// The formulas mirror conv_detail::Layout in tilewright/conv_layout.cuh; generated sources assert that both give the same shared bytes.
#pragma once

#include <array>
#include <cstdint>

#include "codegen/plan.h"

namespace tilewright {

// The problem, spatial arrays in the order D, H, W with leading ones.
struct ConvProblem {
  std::int64_t channels = 1, out_channels = 1, groups = 1;  // per group
  std::array<std::int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  std::array<std::int64_t, 3> baked_out{0, 0, 0};     // 0: known only at launch
  std::array<std::int64_t, 3> expected_out{1, 1, 1};  // what the tile is chosen for
  int reduce_dim = -1;
  bool softmax = false;
  bool ieee = false;    // f32 multiply-add
  bool split = false;   // operands in two parts
  bool narrow = false;  // 16-bit operands
};

struct ConvTile {
  std::int64_t warps = 4, m_tiles = 2, n_tiles = 1, tile_y = 1, tile_x = 16, chunk_channels = 1, planes_per_block = 1, row_pitch = 1,
               channel_pitch = 1, unroll = 2, flush_steps = 0;
  bool prefetch = false;
  friend bool operator==(const ConvTile&, const ConvTile&) = default;
};

// The problem of a convolution group; channels and kernel must be baked.
ConvProblem conv_problem(const Graph& graph, const Group& group);

// Bytes of dynamic shared memory of a block.
std::int64_t conv_shared_bytes(const ConvProblem& problem, const ConvTile& tile);

// Fewest bank conflicts of the gathers first, then least memory; up to max_pad words of padding. Everything else of the tile is final.
void choose_conv_pitches(const ConvProblem& problem, ConvTile& tile, int max_pad);

// The default tile for a block that may use `shared_limit` bytes. False: not even one channel fits, or too many channels for a softmax.
bool choose_conv_tile(const ConvProblem& problem, std::int64_t shared_limit, int max_pad, ConvTile& tile);

// Roles of the spatial dimensions: z is walked plane by plane, y and x span the pixel tile.
struct ConvRoles {
  std::size_t z, y, x;
};
ConvRoles conv_roles(int reduce_dim);

}  // namespace tilewright
