// Convolution on the tensor cores, with what may follow it inside the kernel.
#include "codegen/conv_shape.h"
#include "codegen/conv_tile.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

std::string precision_enumerator(const ConvProblem& problem) {
  if (problem.narrow) return "tw::ConvPrecision::kHalf";
  if (problem.ieee) return "tw::ConvPrecision::kIeee";
  return problem.split ? "tw::ConvPrecision::kTf32x3" : "tw::ConvPrecision::kTf32";
}

// Of the elements that the products take.
std::string operand_type(const Value& x, const ConvProblem& problem) { return problem.narrow ? storage_type_text(x.dtype) : "float"; }

// A 16-bit convolution result that is reduced or normalised inside the kernel is rounded first, as it would be in memory.
FusedMap with_rounding(const FusedMap& stage, DType dtype) {
  if (dtype == DType::kF32 || !stage.is_identity()) return stage;
  auto node = std::make_shared<ExprNode>();
  node->fn = ExprFn::kCast;
  node->type = dtype;
  node->args.push_back(operand_expr(0, DType::kF32));
  FusedMap rounding;
  rounding.expr = node;
  rounding.leaves.push_back(FusedMap::kIncoming);
  return rounding;
}

void add_stage(HooksWriter& hooks, const std::string& flag, const std::string& name, const FusedMap& stage, const Shape& space) {
  hooks.add_member(fmt::format("static constexpr bool {} = {};", flag, stage.is_identity()));
  if (!stage.is_identity()) hooks.add_scalar_map(name, stage, space, 1);
}

void read_tile_parameters(Lowering& lowering, const ConvProblem& problem, ConvTile& tile) {
  tile.warps = lowering.parameter("warps", tile.warps);
  tile.m_tiles = lowering.parameter("m_tiles", tile.m_tiles);
  tile.n_tiles = lowering.parameter("n_tiles", tile.n_tiles);
  tile.tile_y = lowering.parameter("tile_y", tile.tile_y);
  tile.tile_x = lowering.parameter("tile_x", tile.tile_x);
  tile.chunk_channels = lowering.parameter("chunk_channels", tile.chunk_channels);
  // A block owns all planes that are reduced.
  if (problem.reduce_dim < 0) tile.planes_per_block = lowering.parameter("planes_per_block", tile.planes_per_block);
  tile.unroll = lowering.parameter("unroll", tile.unroll);
  // The default was chosen for the default chunk.
  const bool one_chunk = tile.chunk_channels >= problem.channels;
  tile.prefetch = lowering.parameter("prefetch", tile.prefetch && one_chunk ? 1 : 0) != 0;
  tile.flush_steps = lowering.parameter("flush_steps", tile.flush_steps);
}

// What has to hold before anything is computed from a tile.
llvm::Error check_tile(const Lowering& lowering, const ConvProblem& problem, const ConvTile& tile) {
  auto in_range = [&](llvm::StringRef name, std::int64_t value, std::int64_t low, std::int64_t high) {
    return check_parameter(value >= low && value <= high, lowering, name, value, fmt::format("{} to {}", low, high));
  };
  if (auto error = in_range("warps", tile.warps, 1, 32)) return error;
  if (auto error = in_range("m_tiles", tile.m_tiles, 1, 4)) return error;
  if (auto error = in_range("planes_per_block", tile.planes_per_block, 1, 1 << 20)) return error;
  if (auto error = in_range("unroll", tile.unroll, 1, 64)) return error;
  if (auto error = in_range("flush_steps", tile.flush_steps, 0, 1 << 20)) return error;
  const bool all_channels = !problem.softmax || tile.n_tiles * 8 >= problem.out_channels;
  if (auto error = check_parameter(tile.n_tiles >= 1 && tile.n_tiles <= 16 && all_channels, lowering, "n_tiles", tile.n_tiles,
                                   "1 to 16, and all channels when a softmax follows")) {
    return error;
  }
  const std::int64_t most_pixels = tile.warps * tile.m_tiles * 16;
  if (auto error = in_range("tile_y", tile.tile_y, 1, most_pixels)) return error;
  if (auto error = in_range("tile_x", tile.tile_x, 1, most_pixels)) return error;
  if (auto error = check_parameter(tile.tile_y * tile.tile_x <= most_pixels, lowering, "tile_x", tile.tile_x,
                                   "tile_y * tile_x at most warps * m_tiles * 16")) {
    return error;
  }
  const bool chunk = tile.chunk_channels >= 1 && tile.chunk_channels <= problem.channels &&
                     (!problem.narrow || tile.chunk_channels == problem.channels || tile.chunk_channels % 2 == 0);
  if (auto error = check_parameter(chunk, lowering, "chunk_channels", tile.chunk_channels,
                                   "1 to the channels of a group (even for 16-bit operands)")) {
    return error;
  }
  const bool may_prefetch = tile.chunk_channels == problem.channels && problem.stride[conv_roles(problem.reduce_dim).z] == 1;
  return check_parameter(!tile.prefetch || may_prefetch, lowering, "prefetch", 1,
                         "0, or all channels in one chunk and stride 1 from plane to plane");
}

llvm::Error check_shared_bytes(const Lowering& lowering, const ConvProblem& problem, const ConvTile& tile) {
  const std::int64_t bytes = conv_shared_bytes(problem, tile);
  return check_parameter(bytes <= lowering.device.shared_bytes_per_block, lowering, "chunk_channels", tile.chunk_channels,
                         fmt::format("at most {} bytes of shared memory (this needs {})", lowering.device.shared_bytes_per_block, bytes));
}

std::string reduce_enumerator(const Lowering& lowering) {
  if (!lowering.group.fused_reduction) return "tw::ConvReduce::kSum";
  return "tw::ConvReduce::" + monoid_name(std::get<ReduceAttributes>(lowering.graph.op(*lowering.group.fused_reduction).attributes).kind);
}

}  // namespace

ConvProblem conv_problem(const Graph& graph, const Group& group) {
  const Op& op = graph.op(*group.anchor);
  const auto& conv = std::get<ConvAttributes>(op.attributes);
  const Shape& w = graph.value(op.inputs[1]).shape;
  const Shape& y = graph.value(op.output).shape;
  const auto dims = graph.default_dims();
  ConvProblem problem;
  problem.groups = conv.groups;
  problem.channels = w[1].constant();
  problem.out_channels = w[0].constant() / conv.groups;
  const unsigned lead = 3 - conv.spatial();
  problem.baked_out = {lead > 0 ? 1 : 0, lead > 1 ? 1 : 0, 0};
  for (unsigned d = 0; d < conv.spatial(); ++d) {
    const std::size_t at = d + lead;
    problem.kernel[at] = w[d + 2].constant();
    problem.stride[at] = conv.stride[d];
    problem.dilation[at] = conv.dilation[d];
    problem.baked_out[at] = y[d + 2].is_constant() ? y[d + 2].constant() : 0;
    problem.expected_out[at] = y[d + 2].evaluate(dims);
  }
  problem.narrow = graph.value(op.inputs[0]).dtype != DType::kF32;
  problem.ieee = !problem.narrow && graph.precision() == Precision::kIeee;
  problem.split = !problem.narrow && graph.precision() == Precision::kTf32x3;
  if (group.fused_reduction) {
    const auto& reduce = std::get<ReduceAttributes>(graph.op(*group.fused_reduction).attributes);
    problem.reduce_dim = static_cast<int>(reduce.axes.front() - 2 + lead);
  }
  problem.softmax = group.fused_softmax.has_value();
  return problem;
}

void add_tensor_conv_hooks(HooksWriter& hooks, const Lowering& lowering, const ConvProblem& problem) {
  const Group& group = lowering.group;
  const Op& op = lowering.anchor();
  const DType dtype = lowering.value(op.inputs[0]).dtype;
  const std::string operand = operand_type(lowering.value(op.inputs[0]), problem);
  hooks.add_member(fmt::format("using Operand = {};", operand));
  add_weight_hooks(hooks, lowering, operand, HooksWriter::Guard::kWanted);
  const bool tail = group.fused_reduction || group.fused_softmax;
  add_stage(hooks, "kMapConvIdentity", "map_conv", tail ? with_rounding(group.after_anchor, dtype) : FusedMap(),
            lowering.value(op.output).shape);
  if (group.fused_reduction) {
    const FusedMap& stage = group.fused_softmax ? group.after_reduction : FusedMap();
    add_stage(hooks, "kMapReducedIdentity", "map_reduced", stage, lowering.value(lowering.graph.op(*group.fused_reduction).output).shape);
  } else {
    hooks.add_member("static constexpr bool kMapReducedIdentity = true;");
  }
  const FusedMap& last = group.fused_softmax ? group.after_softmax : group.fused_reduction ? group.after_reduction : group.after_anchor;
  hooks.add_scalar_store("store", last, group.result, "float", HooksWriter::Guard::kWanted);
}

std::vector<std::pair<std::string, std::string>> conv_config(const Lowering& lowering, const ConvShape& shape, const ConvProblem& problem,
                                                             const ConvTile& tile) {
  return {{"precision", precision_enumerator(problem)},
          {"channels", std::to_string(problem.channels)},
          {"out_channels", std::to_string(problem.out_channels)},
          {"groups", std::to_string(problem.groups)},
          {"kernel", braces(problem.kernel)},
          {"stride", braces(problem.stride)},
          {"dilation", braces(problem.dilation)},
          {"pad_before", braces(shape.pad_before)},
          {"in_size", braces(shape.in_size)},
          {"out_size", braces(shape.out_size)},
          {"reduce_dim", std::to_string(problem.reduce_dim)},
          {"reduce", reduce_enumerator(lowering)},
          {"softmax", problem.softmax ? "true" : "false"},
          {"warps", std::to_string(tile.warps)},
          {"m_tiles", std::to_string(tile.m_tiles)},
          {"n_tiles", std::to_string(tile.n_tiles)},
          {"tile_y", std::to_string(tile.tile_y)},
          {"tile_x", std::to_string(tile.tile_x)},
          {"chunk_channels", std::to_string(tile.chunk_channels)},
          {"planes_per_block", std::to_string(tile.planes_per_block)},
          {"row_pitch", std::to_string(tile.row_pitch)},
          {"channel_pitch", std::to_string(tile.channel_pitch)},
          {"unroll", std::to_string(tile.unroll)},
          {"prefetch", tile.prefetch ? "true" : "false"},
          {"flush_steps", std::to_string(tile.flush_steps)}};
}

KernelParam conv_args(const ConvShape& shape) {
  KernelParam args{"tw::ConvArgs", {arg_i64("batch", shape.batch)}};
  append_sizes(args, "in_size", shape.in_size);
  append_sizes(args, "out_size", shape.out_size);
  return args;
}

SizeExpr conv_tiles(const ConvShape& shape, const ConvProblem& problem, const ConvTile& tile) {
  const ConvRoles roles = conv_roles(problem.reduce_dim);
  const SizeExpr planes = problem.reduce_dim >= 0 ? SizeExpr(1) : ceil_div(shape.out_size[roles.z], SizeExpr(tile.planes_per_block));
  return shape.batch * planes * ceil_div(shape.out_size[roles.y], SizeExpr(tile.tile_y)) *
         ceil_div(shape.out_size[roles.x], SizeExpr(tile.tile_x));
}

llvm::Expected<KernelSpec> lower_conv(Lowering& lowering) {
  constexpr int kMaxPad = 31;  // words
  const ConvShape shape = conv_shape(lowering);
  const ConvProblem problem = conv_problem(lowering.graph, lowering.group);
  ConvTile tile;
  if (!choose_conv_tile(problem, lowering.device.shared_bytes_per_block, kMaxPad, tile)) {
    return make_error(Status::kUnsupported, "convolution with {} channels and kernel {} does not fit {} bytes of shared memory",
                      problem.channels, braces(problem.kernel), lowering.device.shared_bytes_per_block);
  }
  const ConvTile chosen = tile;
  read_tile_parameters(lowering, problem, tile);
  if (llvm::Error error = check_tile(lowering, problem, tile)) return error;
  const bool moved = tile.tile_y != chosen.tile_y || tile.tile_x != chosen.tile_x || tile.chunk_channels != chosen.chunk_channels;
  if (moved) {
    choose_conv_pitches(problem, tile, 0);
    if (llvm::Error error = check_shared_bytes(lowering, problem, tile)) return error;
    choose_conv_pitches(problem, tile, kMaxPad);
  }
  if (llvm::Error error = check_shared_bytes(lowering, problem, tile)) return error;
  const std::int64_t min_blocks = lowering.parameter("min_blocks_per_sm", 0);  // 0: the compiler takes the registers it likes
  if (llvm::Error error = check_parameter(min_blocks >= 0 && min_blocks <= 32, lowering, "min_blocks_per_sm", min_blocks, "0 to 32"))
    return error;
  auto streamed = lower_conv_stream(lowering, shape, problem, tile, chosen);
  if (!streamed) return streamed.takeError();
  if (*streamed) {
    if (llvm::Error error = check_parameter(min_blocks == 0, lowering, "min_blocks_per_sm", min_blocks, "0 with stream")) return error;
    return std::move(**streamed);
  }
  HooksWriter hooks(lowering.graph, lowering.buffers);
  const Value& x = lowering.value(lowering.anchor().inputs[0]);
  hooks.add_scalar_load("load_x", lowering.group.prologues[0], x.shape, operand_type(x, problem), HooksWriter::Guard::kWanted);
  add_tensor_conv_hooks(hooks, lowering, problem);

  KernelSpec spec;
  spec.header = "tilewright/conv.cuh";
  spec.function = "tw::conv";
  spec.config_type = "tw::ConvConfig";
  const std::int64_t shared_bytes = conv_shared_bytes(problem, tile);
  spec.config = conv_config(lowering, shape, problem, tile);
  spec.hooks = hooks.text(!hooks.fits_index32(), "float");
  spec.min_blocks_per_sm = static_cast<unsigned>(min_blocks);
  spec.assertions = {fmt::format(
      "static_assert(tw::conv_shared_bytes<kConfig>() == {}, \"host and device lay out shared memory differently\");", shared_bytes)};
  const std::int64_t channel_tiles = problem.groups * ((problem.out_channels + tile.n_tiles * 8 - 1) / (tile.n_tiles * 8));
  spec.launch.grid[0] = conv_tiles(shape, problem, tile) * SizeExpr(channel_tiles);
  spec.launch.block[0] = static_cast<std::uint32_t>(tile.warps * 32);
  spec.launch.dynamic_shared_bytes = static_cast<std::uint32_t>(shared_bytes);
  spec.launch.params = {conv_args(shape), hooks.param()};
  return spec;
}

}  // namespace tilewright
