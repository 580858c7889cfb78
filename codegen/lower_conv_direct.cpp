// Convolutions without a tensor-core form: the general multiply-add template and the depthwise stencil.
#include <algorithm>
#include <bit>

#include "codegen/conv_shape.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

SizeExpr product(const std::array<SizeExpr, 3>& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

}  // namespace

ConvShape conv_shape(const Lowering& lowering) {
  const Op& op = lowering.anchor();
  const auto& conv = std::get<ConvAttributes>(op.attributes);
  const Shape& x = lowering.value(op.inputs[0]).shape;
  const Shape& w = lowering.value(op.inputs[1]).shape;
  const Shape& y = lowering.value(op.output).shape;
  ConvShape shape;
  shape.batch = x[0];
  shape.channels = x[1];
  shape.out_channels = w[0];
  shape.groups = conv.groups;
  shape.spatial = conv.spatial();
  for (unsigned d = 0; d < shape.spatial; ++d) {
    const unsigned at = shape.position(d + 2);
    shape.in_size[at] = x[d + 2];
    shape.out_size[at] = y[d + 2];
    shape.kernel[at] = w[d + 2];
    shape.stride[at] = conv.stride[d];
    shape.dilation[at] = conv.dilation[d];
    shape.pad_before[at] = conv.pad_before[d];
  }
  return shape;
}

std::string braces(const std::array<std::int64_t, 3>& values) { return fmt::format("{{{}, {}, {}}}", values[0], values[1], values[2]); }

std::string braces(const std::array<SizeExpr, 3>& values) {
  return fmt::format("{{{}, {}, {}}}", baked(values[0]), baked(values[1]), baked(values[2]));
}

void append_sizes(KernelParam& param, const std::string& name, const std::array<SizeExpr, 3>& values) {
  for (unsigned d = 0; d < 3; ++d) param.fields.push_back(arg_i64(fmt::format("{}[{}]", name, d), values[d]));
}

void add_weight_hooks(HooksWriter& hooks, const Lowering& lowering, const std::string& type, HooksWriter::Guard guard) {
  const Op& op = lowering.anchor();
  const bool has_bias = op.inputs.size() > 2;
  hooks.add_scalar_load("load_w", lowering.group.prologues[1], lowering.value(op.inputs[1]).shape, type, guard);
  hooks.add_member(fmt::format("static constexpr bool kHasBias = {};", has_bias));
  if (has_bias) {
    hooks.add_scalar_load("bias", lowering.group.prologues[2], lowering.value(op.inputs[2]).shape, "float");
  } else {
    hooks.add_member("__device__ __forceinline__ float bias(Index) const { return 0.0f; }");
  }
}

llvm::Expected<KernelSpec> lower_conv_direct(Lowering& lowering) {
  const Group& group = lowering.group;
  const Op& op = lowering.anchor();
  const ConvShape shape = conv_shape(lowering);
  HooksWriter hooks(lowering.graph, lowering.buffers);
  hooks.add_scalar_load("load_x", group.prologues[0], lowering.value(op.inputs[0]).shape, "float");
  add_weight_hooks(hooks, lowering, "float", HooksWriter::Guard::kNone);
  hooks.add_scalar_store("store", group.after_anchor, group.result, "float");

  const SizeExpr channels_per_group = lowering.value(op.inputs[1]).shape[1];
  const SizeExpr out_per_group = floor_div(shape.out_channels, SizeExpr(shape.groups));
  const SizeExpr pixels = shape.batch * product(shape.out_size);
  const std::int64_t outs = std::max<std::int64_t>(1, lowering.expected(out_per_group));
  const std::int64_t threads = lowering.parameter("block_threads", 128);
  const std::int64_t outputs = lowering.parameter(
      "channels_per_thread", static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(outs, 8)))));
  if (llvm::Error error = check_block_threads(lowering, threads)) return error;
  if (llvm::Error error =
          check_parameter(llvm::is_contained({1, 2, 4, 8}, outputs), lowering, "channels_per_thread", outputs, "1, 2, 4 or 8"))
    return error;
  const std::int64_t work = lowering.expected(pixels) * outs * shape.groups / (threads * outputs);
  const std::int64_t pixels_per_thread = lowering.parameter("pixels_per_thread", work >= 4 * 264 ? 4 : work >= 2 * 264 ? 2 : 1);
  if (llvm::Error error = check_parameter(llvm::is_contained({1, 2, 4}, pixels_per_thread), lowering, "pixels_per_thread",
                                          pixels_per_thread, "1, 2 or 4")) {
    return error;
  }
  // Weights of a few input channels at a time are staged in shared memory: at most 16 KiB, so that several blocks still fit.
  const bool kernel_baked = llvm::all_of(shape.kernel, [](const SizeExpr& size) { return size.is_constant() && size.constant() > 0; });
  std::int64_t staged = 0;
  if (kernel_baked) {
    // More taps than this do not fit for a single channel, and their bytes could overflow.
    const std::int64_t taps = std::min<std::int64_t>(product(shape.kernel).constant(), 1025);
    const std::int64_t channel_bytes = taps * std::max<std::int64_t>(outputs, 4) * 4;
    staged = std::min<std::int64_t>(16, 16384 / channel_bytes);
    const std::int64_t channels = std::max<std::int64_t>(1, lowering.expected(channels_per_group));
    staged = std::min(staged, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(channels))));
  }

  KernelSpec spec;
  spec.header = "tilewright/conv_direct.cuh";
  spec.function = "tw::conv_direct";
  spec.config_type = "tw::ConvDirectConfig";
  spec.config = {{"block_threads", std::to_string(threads)},
                 {"pixels_per_thread", std::to_string(pixels_per_thread)},
                 {"channels_per_thread", std::to_string(outputs)},
                 {"channels_per_stage", std::to_string(staged)},
                 {"kernel", kernel_baked ? braces(shape.kernel) : "{0, 0, 0}"},
                 {"stride", braces(shape.stride)},
                 {"dilation", braces(shape.dilation)},
                 {"pad_before", braces(shape.pad_before)}};
  spec.hooks = hooks.text(!hooks.fits_index32(), "float");
  spec.launch.grid[0] =
      SizeExpr(shape.groups) * ceil_div(out_per_group, SizeExpr(outputs)) * ceil_div(pixels, SizeExpr(threads * pixels_per_thread));
  spec.launch.block[0] = static_cast<std::uint32_t>(threads);
  KernelParam args{"tw::ConvDirectArgs",
                   {arg_i64("batch", shape.batch), arg_i64("groups", SizeExpr(shape.groups)),
                    arg_i64("channels_per_group", channels_per_group), arg_i64("out_channels_per_group", out_per_group)}};
  append_sizes(args, "in_size", shape.in_size);
  append_sizes(args, "out_size", shape.out_size);
  append_sizes(args, "kernel", shape.kernel);
  spec.launch.params = {std::move(args), hooks.param()};
  return spec;
}

llvm::Expected<KernelSpec> lower_stencil(Lowering& lowering) {
  const Group& group = lowering.group;
  const Op& op = lowering.anchor();
  const ConvShape shape = conv_shape(lowering);
  HooksWriter hooks(lowering.graph, lowering.buffers);
  hooks.add_vector_load("load_x", group.prologues[0], lowering.value(op.inputs[0]).shape, HooksWriter::Guard::kWanted);
  add_weight_hooks(hooks, lowering, "float", HooksWriter::Guard::kNone);
  hooks.add_vector_store("store", group.after_anchor, group.result, "Value", HooksWriter::Guard::kWanted);

  const std::int64_t widest = hooks.vector_limit(8);
  const SizeExpr& in_row = shape.in_size[2];
  const SizeExpr& out_row = shape.out_size[2];
  auto may_divide = [&](const SizeExpr& size) { return !size.is_constant() || size.constant() % widest == 0; };
  const bool vectors_fit = shape.stride[2] == 1 && may_divide(in_row) && may_divide(out_row);
  const std::int64_t vector = lowering.parameter("vector_elems", vectors_fit ? widest : 1);
  const bool one_row = shape.kernel[0].is_constant(1) && shape.kernel[1].is_constant(1);
  const std::int64_t expected_row = lowering.expected(out_row);
  const bool line = lowering.parameter("line", vector > 1 && one_row && expected_row >= 32 * vector ? 1 : 0) != 0;
  std::int64_t rows = 1;
  if (line) {
    rows = lowering.value(op.inputs[0]).dtype == DType::kF32 ? 8 : 4;
    while (rows > 1 && 32 * vector * rows > expected_row) rows /= 2;
  } else if (vector > 1 && !shape.kernel[1].is_constant(1)) {
    rows = std::min<std::int64_t>(4, static_cast<std::int64_t>(std::bit_ceil(
                                         static_cast<std::uint64_t>(std::max<std::int64_t>(1, lowering.expected(shape.out_size[1]))))));
  }
  const std::int64_t threads = lowering.parameter("block_threads", line ? 128 : 256);
  const std::int64_t per_thread = lowering.parameter("vectors_per_thread", rows);
  if (llvm::Error error = check_block_threads(lowering, threads)) return error;
  if (llvm::Error error = check_vector_elems(lowering, vector, hooks)) return error;
  if (llvm::Error error =
          check_parameter(llvm::is_contained({1, 2, 4, 8}, per_thread), lowering, "vectors_per_thread", per_thread, "1, 2, 4 or 8"))
    return error;

  KernelSpec spec;
  spec.header = "tilewright/stencil.cuh";
  spec.function = "tw::stencil";
  spec.config_type = "tw::StencilConfig";
  const std::int64_t multiplier = lowering.value(op.inputs[1]).shape[0].constant() / shape.groups;
  spec.config = {{"tile", line ? "tw::StencilTile::kLine" : "tw::StencilTile::kGrid"},
                 {"block_threads", std::to_string(threads)},
                 {"vector_elems", std::to_string(vector)},
                 {"vectors_per_thread", std::to_string(per_thread)},
                 {"kernel", braces(shape.kernel)},
                 {"stride", braces(shape.stride)},
                 {"dilation", braces(shape.dilation)},
                 {"pad_before", braces(shape.pad_before)},
                 {"channels", baked(shape.channels)},
                 {"multiplier", std::to_string(multiplier)},
                 {"in_size", braces(shape.in_size)},
                 {"out_size", braces(shape.out_size)}};
  spec.hooks = hooks.text(!hooks.fits_index32(), "float");
  const SizeExpr planes = shape.batch * shape.out_channels * shape.out_size[0];
  spec.launch.grid[0] =
      line ? ceil_div(planes * shape.out_size[1] * ceil_div(out_row, SizeExpr(32 * vector * per_thread)), SizeExpr(threads / 32))
           : ceil_div(planes * ceil_div(shape.out_size[1], SizeExpr(per_thread)) * ceil_div(out_row, SizeExpr(vector)), SizeExpr(threads));
  spec.launch.block[0] = static_cast<std::uint32_t>(threads);
  KernelParam args{"tw::StencilArgs",
                   {arg_i64("batch", shape.batch), arg_i64("channels", shape.channels), arg_i64("multiplier", SizeExpr(multiplier))}};
  append_sizes(args, "in_size", shape.in_size);
  append_sizes(args, "out_size", shape.out_size);
  args.fields.push_back(arg_misalignment());
  spec.launch.params = {std::move(args), hooks.param()};
  return spec;
}

}  // namespace tilewright
