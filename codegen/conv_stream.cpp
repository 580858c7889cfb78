#include "codegen/conv_stream.h"

#include <algorithm>
#include <array>
#include <limits>

#include "llvm/ADT/STLExtras.h"
#include "runtime/integer.h"

namespace tilewright {
namespace {

// n of the products there are (tilewright/ptx_wgmma.cuh).
constexpr std::int64_t kProducts[] = {8, 16, 24, 32, 40, 48, 64, 72, 96, 128};

struct Derived {
  ConvRoles roles;
  std::int64_t groups, steps, columns, patch_y, product;
  bool channels_in_lanes;
};

Derived derive(const ConvProblem& p, std::int64_t pad_x, std::int64_t warpgroups) {
  Derived d{};
  d.roles = conv_roles(p.reduce_dim);
  const auto [z, y, x] = d.roles;
  const std::int64_t rows = p.channels * p.kernel[y];
  d.groups = rows / 4;
  d.steps = divide_up(d.groups * p.kernel[x] + divide_up(rows % 4 * p.kernel[x], 4), 2);
  const std::int64_t shift = divide_up(pad_x, 4) * 4 - pad_x;
  d.columns = shift + (kConvStreamTileX - 1) * p.stride[x] + (p.kernel[x] - 1) * p.dilation[x] + 1;
  d.patch_y = (2 * warpgroups - 1) * p.stride[y] + (p.kernel[y] - 1) * p.dilation[y] + 1;
  d.product = p.kernel[z] * divide_up(p.out_channels, 8) * 8;
  d.channels_in_lanes = p.channels % 4 == 0;
  return d;
}

// Shared-memory wavefronts of the gathers of one plane. With pairs, half a warp reads 64 bits a lane at a time.
int gather_cost(const ConvProblem& p, const Derived& d, bool pairs, const ConvStreamTile& t) {
  const auto [z, y, x] = d.roles;
  const auto row_words = [&](std::int64_t row) {
    const std::int64_t channel = d.channels_in_lanes ? row % p.channels : row / p.kernel[y];
    const std::int64_t at = d.channels_in_lanes ? row / p.channels : row % p.kernel[y];
    return channel * t.channel_pitch + at * p.dilation[y] * t.row_pitch;
  };
  int cost = 0;
  for (std::int64_t group = 0; group < d.groups; ++group) {
    std::array<int, 32> in_bank{};
    for (std::int64_t g = 0; g < (pairs ? 4 : 8); ++g) {
      for (std::int64_t lane = 0; lane < 4; ++lane) {
        const std::int64_t word = row_words(group * 4 + lane) + 2 * g * p.stride[x];
        for (std::int64_t i = 0; i < (pairs ? 2 : 1); ++i) ++in_bank[static_cast<std::size_t>((word + i) & 31)];
      }
    }
    cost += *std::max_element(in_bank.begin(), in_bank.end()) * (pairs ? 2 : 1);
  }
  return cost;
}

}  // namespace

bool conv_stream_serves(const ConvProblem& p) {
  constexpr std::int64_t kMostSteps = 8;  // of 4 registers each
  constexpr std::int64_t kMostPointers = 4;
  const auto [z, y, x] = conv_roles(p.reduce_dim);
  const bool tf32 = !p.narrow && !p.ieee && !p.split;
  if (!tf32 || p.groups != 1 || x != 2 || p.stride[z] != 1 || p.dilation[z] != 1) return false;
  // What follows is formed only when it cannot overflow.
  constexpr std::int64_t kFar = 4096;
  if (std::max({p.channels, p.out_channels, p.kernel[x], p.kernel[y], p.kernel[z], p.stride[x], p.stride[y], p.dilation[x],
                p.dilation[y]}) > kFar) {
    return false;
  }
  const Derived d = derive(p, 0, 1);
  return d.steps <= kMostSteps && (d.channels_in_lanes || d.groups <= kMostPointers) && llvm::is_contained(kProducts, d.product);
}

std::int64_t conv_stream_shared_bytes(const ConvProblem& p, std::int64_t pad_x, const ConvStreamTile& t) {
  const Derived d = derive(p, pad_x, t.warpgroups);
  const std::int64_t slot = p.channels * t.channel_pitch + 4;
  return (t.stages * slot + p.kernel[d.roles.z] * d.steps * d.product * 8 + t.stages * 4) * 4;
}

void choose_conv_stream_pitches(const ConvProblem& p, std::int64_t pad_x, ConvStreamTile& t) {
  const Derived d = derive(p, pad_x, t.warpgroups);
  const bool pairs = pad_x % 2 == 0;
  ConvStreamTile best;
  int least = std::numeric_limits<int>::max();
  for (std::int64_t row_pad = 0; row_pad < 32; row_pad += 4) {
    for (std::int64_t channel_pad = 0; channel_pad < (p.channels > 1 ? 32 : 4); channel_pad += 4) {
      ConvStreamTile tried = t;
      tried.row_pitch = divide_up(d.columns, 4) * 4 + row_pad;
      tried.channel_pitch = d.patch_y * tried.row_pitch + channel_pad;
      const int cost = gather_cost(p, d, pairs, tried);
      if (cost < least || (cost == least && tried.channel_pitch < best.channel_pitch)) {
        least = cost;
        best = tried;
      }
    }
  }
  t = best;
}

}  // namespace tilewright
