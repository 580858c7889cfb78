// A convolution of one to three spatial dimensions seen as three-dimensional, leading dimensions of size 1 filled in.
#pragma once

#include <array>
#include <string>

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

}  // namespace tilewright
