// A convolution of one to three spatial dimensions seen as three-dimensional, leading dimensions of size 1 filled in.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/conv_tile.h"
#include "codegen/lowering.h"

namespace tilewright {

struct ConvShape {
  SizeExpr batch, channels, out_channels;
  std::array<SizeExpr, 3> in_size{1, 1, 1}, out_size{1, 1, 1}, kernel{1, 1, 1};
  std::array<std::int64_t, 3> stride{1, 1, 1}, dilation{1, 1, 1}, pad_before{0, 0, 0};
  std::int64_t groups = 1;
  unsigned spatial = 3;

  // Where spatial dimension `axis` of the tensor (2 is the first) stands among the three.
  unsigned position(unsigned axis) const { return axis - 2 + 3 - spatial; }
};

ConvShape conv_shape(const Lowering& lowering);

// "{1, 1, 4}"; sizes that are launch arguments print as 0.
std::string braces(const std::array<std::int64_t, 3>& values);
std::string braces(const std::array<SizeExpr, 3>& values);

// Appends name[0], name[1], name[2] as 64-bit fields.
void append_sizes(KernelParam& param, const std::string& name, const std::array<SizeExpr, 3>& values);

// The hooks every convolution has: load_w as `type`, kHasBias and bias(o).
void add_weight_hooks(HooksWriter& hooks, const Lowering& lowering, const std::string& type, HooksWriter::Guard guard);

// The hooks of convolutions on the tensor cores but for the loads of x: load_w, bias, map_conv, map_reduced, store.
void add_tensor_conv_hooks(HooksWriter& hooks, const Lowering& lowering, const ConvProblem& problem);

// The fields of tw::ConvConfig in declaration order, but for what conv_stream.cuh adds.
std::vector<std::pair<std::string, std::string>> conv_config(const Lowering& lowering, const ConvShape& shape, const ConvProblem& problem,
                                                             const ConvTile& tile);

// tw::ConvArgs.
KernelParam conv_args(const ConvShape& shape);

// Tiles of pixels and planes that cover all images.
SizeExpr conv_tiles(const ConvShape& shape, const ConvProblem& problem, const ConvTile& tile);

// The kernel on conv_stream.cuh where the parameter `stream` asks for it, else nullopt. `tile` is what the parameters of conv.cuh say, of
// which it takes planes_per_block; the others are to be what they are by default.
llvm::Expected<std::optional<KernelSpec>> lower_conv_stream(Lowering& lowering, const ConvShape& shape, const ConvProblem& problem,
                                                            const ConvTile& tile, const ConvTile& default_tile);

}  // namespace tilewright
