// Tiles of the streaming convolution (tilewright/conv_stream.cuh): which problems it serves, and what it needs. The formulas mirror
// conv_detail::StreamLayout; generated sources assert that both give the same shared bytes.
#pragma once

#include <cstdint>

#include "codegen/conv_tile.h"

namespace tilewright {

struct ConvStreamTile {
  std::int64_t warpgroups = 4, stages = 12, row_pitch = 1, channel_pitch = 1;
};

// Output pixels of a tile's row.
inline constexpr std::int64_t kConvStreamTileX = 32;

// Whether the template can serve the problem.
bool conv_stream_serves(const ConvProblem& problem);

// Bytes of dynamic shared memory of a block. `pad_x`: the padding before the fastest dimension.
std::int64_t conv_stream_shared_bytes(const ConvProblem& problem, std::int64_t pad_x, const ConvStreamTile& tile);

// Pitches with the fewest bank conflicts of the gathers, then the least memory.
void choose_conv_stream_pitches(const ConvProblem& problem, std::int64_t pad_x, ConvStreamTile& tile);

}  // namespace tilewright
