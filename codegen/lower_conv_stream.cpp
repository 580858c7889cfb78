// Convolution of few channels on wgmma: planes stream through blocks that stay.
#include "codegen/conv_shape.h"
#include "codegen/conv_stream.h"
#include "runtime/error.h"
#include "runtime/integer.h"

namespace tilewright {
namespace {

bool serves(const Lowering& lowering, const ConvProblem& problem) {
  const Value& x = lowering.value(lowering.anchor().inputs[0]);
  const bool as_in_memory = lowering.group.prologues[0].is_identity() && x.strides.empty();
  return lowering.device.wgmma && as_in_memory && lowering.upper(element_count(x.shape)) < kIndex32Limit && conv_stream_serves(problem);
}

llvm::Error check_stream(const Lowering& lowering, const ConvProblem& problem, const ConvStreamTile& stream, std::int64_t bytes) {
  const std::int64_t planes = problem.kernel[conv_roles(problem.reduce_dim).z];
  if (auto error = check_parameter(stream.warpgroups >= 1 && stream.warpgroups <= 7, lowering, "warpgroups", stream.warpgroups, "1 to 7"))
    return error;
  if (auto error = check_parameter(stream.stages >= 2 && stream.stages <= 64 && stream.stages % planes == 0, lowering, "stages",
                                   stream.stages, fmt::format("a multiple of {}, 2 to 64", planes))) {
    return error;
  }
  return check_parameter(bytes <= lowering.device.shared_bytes_per_block, lowering, "stages", stream.stages,
                         fmt::format("at most {} bytes of shared memory (this needs {})", lowering.device.shared_bytes_per_block, bytes));
}

}  // namespace

llvm::Expected<std::optional<KernelSpec>> lower_conv_stream(Lowering& lowering, const ConvShape& shape, const ConvProblem& problem,
                                                            const ConvTile& tile, const ConvTile& default_tile) {
  if (!serves(lowering, problem)) return std::nullopt;
  const ConvRoles roles = conv_roles(problem.reduce_dim);
  const std::int64_t planes = problem.kernel[roles.z], pad_x = shape.pad_before[roles.x];
  const std::int64_t wanted = lowering.parameter("stream", 0);
  const ConvStreamTile default_stream{4, divide_up(12, planes) * planes, 1, 1};
  ConvStreamTile stream = default_stream;
  stream.warpgroups = lowering.parameter("warpgroups", stream.warpgroups);
  stream.stages = lowering.parameter("stages", stream.stages);
  if (llvm::Error error = check_parameter(wanted == 0 || wanted == 1, lowering, "stream", wanted, "0 or 1")) return error;
  // What the other template is told, this one cannot follow.
  if (wanted == 0) {
    if (auto error = check_parameter(stream.warpgroups == default_stream.warpgroups, lowering, "warpgroups", stream.warpgroups,
                                     "its default without stream"))
      return error;
    if (auto error =
            check_parameter(stream.stages == default_stream.stages, lowering, "stages", stream.stages, "its default without stream"))
      return error;
    return std::nullopt;
  }
  ConvTile other = tile;
  other.planes_per_block = default_tile.planes_per_block;
  if (auto error = check_parameter(other == default_tile, lowering, "stream", 1, "0, as a parameter of the other template is given"))
    return error;
  choose_conv_stream_pitches(problem, pad_x, stream);
  const std::int64_t bytes = conv_stream_shared_bytes(problem, pad_x, stream);
  if (llvm::Error error = check_stream(lowering, problem, stream, bytes)) return error;

  ConvTile own = default_tile;
  own.warps = stream.warpgroups * 4;
  own.m_tiles = 1;
  own.n_tiles = divide_up(problem.out_channels, 8);
  own.tile_x = kConvStreamTileX;
  own.tile_y = stream.warpgroups * 2;
  own.chunk_channels = problem.channels;
  own.planes_per_block = tile.planes_per_block;
  own.row_pitch = stream.row_pitch;
  own.channel_pitch = stream.channel_pitch;
  own.prefetch = false;
  HooksWriter hooks(lowering.graph, lowering.buffers);
  const std::string x = hooks.pointer(lowering.anchor().inputs[0], false);
  hooks.add_member(fmt::format("__device__ __forceinline__ const float* x() const {{ return {}; }}", x));
  add_tensor_conv_hooks(hooks, lowering, problem);

  KernelSpec spec;
  spec.header = "tilewright/conv_stream.cuh";
  spec.function = "tw::conv_stream";
  spec.config_type = "tw::ConvConfig";
  spec.config = conv_config(lowering, shape, problem, own);
  spec.config.emplace_back("stages", std::to_string(stream.stages));
  spec.hooks = hooks.text(!hooks.fits_index32(), "float");
  spec.min_blocks_per_sm = 1;
  spec.assertions = {fmt::format(
      "static_assert(tw::conv_stream_shared_bytes<kConfig>() == {}, \"host and device lay out shared memory differently\");", bytes)};
  // Blocks stay, one a multiprocessor.
  spec.launch.grid[0] = min(conv_tiles(shape, problem, own), SizeExpr(lowering.device.sm_count));
  spec.launch.block[0] = static_cast<std::uint32_t>(own.warps * 32 + 32);  // and the copying warp
  spec.launch.dynamic_shared_bytes = static_cast<std::uint32_t>(bytes);
  spec.launch.params = {conv_args(shape), hooks.param()};
  return std::optional<KernelSpec>(std::move(spec));
}

}  // namespace tilewright
