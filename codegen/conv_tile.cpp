#include "codegen/conv_tile.h"

#include <algorithm>
#include <limits>

#include "runtime/integer.h"

namespace tilewright {
namespace {

// The quantities of conv_detail::Layout that the host needs.
struct Derived {
  ConvRoles roles;
  std::int64_t parts, chunk_words, chunks, slots, tile_y, tile_x, patch_y, patch_x, taps, depth, steps;
};

Derived derive(const ConvProblem& p, const ConvTile& t) {
  Derived d{};
  d.roles = conv_roles(p.reduce_dim);
  const auto [z, y, x] = d.roles;
  d.parts = p.split ? 2 : 1;
  d.chunk_words = divide_up(t.chunk_channels, p.narrow ? 2 : 1);
  d.chunks = divide_up(p.channels, t.chunk_channels);
  const std::int64_t span = (p.kernel[z] - 1) * p.dilation[z] + 1;
  const bool one_plane = p.reduce_dim < 0 && t.planes_per_block == 1;
  d.slots = d.chunks > 1 ? 2 * p.kernel[z] : one_plane ? span : span + p.stride[z];
  d.tile_y = p.baked_out[y] > 0 ? std::min(t.tile_y, p.baked_out[y]) : t.tile_y;
  d.tile_x = p.baked_out[x] > 0 ? std::min(t.tile_x, p.baked_out[x]) : t.tile_x;
  d.patch_y = (d.tile_y - 1) * p.stride[y] + (p.kernel[y] - 1) * p.dilation[y] + 1;
  d.patch_x = (d.tile_x - 1) * p.stride[x] + (p.kernel[x] - 1) * p.dilation[x] + 1;
  d.taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  d.depth = d.chunk_words * d.taps;
  d.steps = divide_up(d.depth, 8);
  return d;
}

// Word, relative to a pixel's first tap, that product word k reads.
std::int64_t gather_word(const ConvProblem& p, const ConvTile& t, const Derived& d, std::int64_t k) {
  const auto [z, y, x] = d.roles;
  const std::int64_t tap = k % d.taps;
  const std::array<std::int64_t, 3> at{tap / (p.kernel[2] * p.kernel[1]), tap / p.kernel[2] % p.kernel[1], tap % p.kernel[2]};
  const std::int64_t plane = at[z] * (d.chunks > 1 ? 1 : p.dilation[z]) * d.chunk_words * t.channel_pitch;
  return k / d.taps * t.channel_pitch + at[y] * p.dilation[y] * t.row_pitch + at[x] * p.dilation[x] + plane;
}

// Shared-memory wavefronts of the gathers of one m tile: 8 pixels by 4 product words a quad. A prefix of the depth is enough to rank
// pitches.
int gather_cost(const ConvProblem& p, const ConvTile& t, const Derived& d) {
  const auto [z, y, x] = d.roles;
  const std::int64_t quads = std::min<std::int64_t>(divide_up(d.depth, 4), 32);
  int cost = 0;
  for (std::int64_t q = 0; q < quads; ++q) {
    std::array<std::int64_t, 32> words{};
    std::array<int, 32> in_bank{};
    int used = 0, worst = 1;
    for (std::int64_t k = q * 4; k < std::min(q * 4 + 4, d.depth); ++k) {
      const std::int64_t first = gather_word(p, t, d, k);
      for (std::int64_t g = 0; g < 8; ++g) {
        const std::int64_t word = first + g / t.tile_x * p.stride[y] * t.row_pitch + g % t.tile_x * p.stride[x];
        if (std::find(words.begin(), words.begin() + used, word) != words.begin() + used) continue;
        words[static_cast<std::size_t>(used++)] = word;
        worst = std::max(worst, ++in_bank[static_cast<std::size_t>(word & 31)]);
      }
    }
    cost += worst;
  }
  return cost;
}

// Pixel tile for at most `max_warps` warps: whole rows of x (16 or 32 wide) where it is long, else packed rows.
void shape_tile(const ConvProblem& p, ConvTile& t, std::int64_t max_warps) {
  const ConvRoles roles = conv_roles(p.reduce_dim);
  const std::int64_t out_y = std::max<std::int64_t>(1, p.expected_out[roles.y]), out_x = std::max<std::int64_t>(1, p.expected_out[roles.x]);
  if (out_x < 12) {
    t.tile_x = out_x;
    t.tile_y = std::min(out_y, std::max<std::int64_t>(1, max_warps * t.m_tiles * 16 / out_x));
    t.warps = divide_up(t.tile_x * t.tile_y, 16 * t.m_tiles);
    return;
  }
  t.tile_x = divide_up(divide_up(out_x, divide_up(out_x, 32)), 16) * 16;
  if (out_y == 1 && out_x > 32) {
    t.tile_x = max_warps * t.m_tiles * 16;
    while (t.tile_x / 2 >= out_x && t.tile_x > 32) t.tile_x /= 2;
  }
  // The block whose rows divide the output with the least waste; larger blocks share more halo and weights.
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), best_warps = 1;
  for (std::int64_t warps = max_warps; warps >= 1; --warps) {
    const std::int64_t pixels = warps * t.m_tiles * 16;
    if (pixels % t.tile_x != 0) continue;
    const std::int64_t rows = pixels / t.tile_x;
    const std::int64_t waste =
        (divide_up(out_y, rows) * rows - out_y) * 64 / out_y + (warps < 4 ? 12 * (4 - warps) : 0) + (max_warps - warps);
    if (waste < best) {
      best = waste;
      best_warps = warps;
    }
  }
  t.warps = best_warps;
  t.tile_x = std::min(t.tile_x, t.warps * t.m_tiles * 16);
  t.tile_y = t.warps * t.m_tiles * 16 / t.tile_x;
}

// The largest channel chunk within `limit` bytes at this pixel tile; false when there is none, or only one so small that a smaller pixel
// tile is better (`may_shrink`).
bool choose_chunk(const ConvProblem& p, ConvTile& t, std::int64_t limit, int max_pad, bool may_shrink) {
  const std::int64_t smallest = p.narrow ? 2 : 1;
  for (std::int64_t chunk = p.channels; chunk >= 1;) {
    t.chunk_channels = chunk;
    choose_conv_pitches(p, t, 0);
    if (conv_shared_bytes(p, t) <= limit) {
      if (max_pad > 0) choose_conv_pitches(p, t, max_pad);
      if (conv_shared_bytes(p, t) > limit) choose_conv_pitches(p, t, 0);
      return true;
    }
    if (chunk <= smallest) return false;
    std::int64_t next = smallest;
    while (next * 2 < chunk && next < 16) next *= 2;
    chunk = next;
    if (may_shrink && chunk * p.kernel[0] * p.kernel[1] * p.kernel[2] < 32) return false;
  }
  return false;
}

}  // namespace

ConvRoles conv_roles(int reduce_dim) {
  const std::size_t z = reduce_dim > 0 ? static_cast<std::size_t>(reduce_dim) : 0;
  return {z, z == 0 ? std::size_t{1} : std::size_t{0}, z == 2 ? std::size_t{1} : std::size_t{2}};
}

std::int64_t conv_shared_bytes(const ConvProblem& p, const ConvTile& t) {
  const Derived d = derive(p, t);
  // Strides and dilations may spread one tile over more than any memory; the sums below are formed only when they cannot overflow.
  constexpr std::int64_t kFarTooMany = std::int64_t{1} << 30;
  const std::int64_t plane = saturating_mul(d.chunk_words, std::max(t.channel_pitch, saturating_mul(d.patch_y, d.patch_x)));
  if (plane > kFarTooMany || d.slots > kFarTooMany || saturating_mul(d.slots, plane) > kFarTooMany) return kLargestSize;
  const bool single = d.chunks == 1;
  const std::int64_t weight_words = p.ieee ? d.depth * t.n_tiles * 8 : d.steps * t.n_tiles * 64 * d.parts;
  const std::int64_t flag_sets = d.parts == 2 ? (single ? d.slots : 2) + (single ? 1 : 2) : 0;
  const std::int64_t ring = d.slots * d.chunk_words * t.channel_pitch * d.parts;
  const std::int64_t slack = (t.tile_x - d.tile_x) * p.stride[d.roles.x] + (t.tile_y - d.tile_y) * p.stride[d.roles.y] * t.row_pitch;
  // A ring of planes has a table of gather offsets for each slot its window can begin in, when that is little memory.
  constexpr std::int64_t kMaxTableWords = 1536;
  const bool is_ring = single && !(p.reduce_dim < 0 && t.planes_per_block == 1);
  const std::int64_t tables = is_ring && d.slots * d.steps * 8 <= kMaxTableWords ? d.slots : 1;
  const bool table_per_slot = tables > 1;
  const bool zeros = !p.ieee && !p.split && single && d.depth % 8 != 0 && (!is_ring || table_per_slot);
  const std::int64_t zero_words = zeros ? (t.tile_y - 1) * p.stride[d.roles.y] * t.row_pitch + (t.tile_x - 1) * p.stride[d.roles.x] + 1 : 0;
  const std::int64_t phases = (single ? 1 : 2) * weight_words + tables * d.steps * 8 + flag_sets * 4 + ring + slack + zero_words;
  const std::int64_t reduced = p.reduce_dim >= 0 ? t.n_tiles * 8 * (t.warps * t.m_tiles * 16 + 4) : 0;
  return 4 * std::max(phases, reduced);
}

void choose_conv_pitches(const ConvProblem& p, ConvTile& t, int max_pad) {
  const Derived d = derive(p, t);
  t.row_pitch = d.patch_x;
  t.channel_pitch = saturating_mul(d.patch_y, d.patch_x);
  if (max_pad == 0) return;
  int best_cost = std::numeric_limits<int>::max();
  std::int64_t best_row = d.patch_x, best_channel = d.patch_y * d.patch_x;
  for (int pad = 0; pad <= max_pad; ++pad) {
    t.row_pitch = d.patch_x + pad;
    t.channel_pitch = d.patch_y * t.row_pitch;
    const int cost = gather_cost(p, t, d);
    if (cost < best_cost) {
      best_cost = cost;
      best_row = t.row_pitch;
      best_channel = t.channel_pitch;
    }
  }
  t.row_pitch = best_row;
  for (int pad = 1; pad <= max_pad && d.chunk_words > 1; ++pad) {
    t.channel_pitch = d.patch_y * t.row_pitch + pad;
    const int cost = gather_cost(p, t, d);
    if (cost < best_cost) {
      best_cost = cost;
      best_channel = t.channel_pitch;
    }
  }
  t.channel_pitch = best_channel;
}

bool choose_conv_tile(const ConvProblem& p, std::int64_t shared_limit, int max_pad, ConvTile& t) {
  constexpr std::int64_t kMaxSoftmaxTiles = 16;  // accumulators of 128 channels are what registers hold
  const std::int64_t n_all = divide_up(p.out_channels, 8);
  if (p.softmax && n_all > kMaxSoftmaxTiles) return false;
  const std::int64_t widest = p.split || p.ieee || p.reduce_dim >= 0 ? 4 : 8;
  t.n_tiles = p.softmax ? n_all : divide_up(n_all, divide_up(n_all, widest));
  t.m_tiles = t.n_tiles <= 4 || (t.n_tiles <= 8 && !p.split && p.reduce_dim < 0) ? 2 : 1;
  t.planes_per_block = p.reduce_dim < 0 && p.kernel[0] > 1 ? std::clamp<std::int64_t>(p.expected_out[0], 1, 8) : 1;
  const std::int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  // Measured on an H200, conv3d 3 -> 24 channels: one product by two or three steps would be 5 to 8 us of 114 faster, but NVRTC 15 ms
  // slower; three products rolled are 20 us of 205 slower.
  t.unroll = p.split || p.ieee || p.narrow ? 2 : 1;
  t.flush_steps = p.split && p.channels * taps > 160 ? 10 : 0;
  // As many channels at a time as leave room for two blocks a multiprocessor, then smaller tiles, then a block that has it for itself.
  constexpr std::int64_t kReservedBytes = 1024;  // per block, by the system
  for (std::int64_t share : {2, 1}) {
    const std::int64_t limit = shared_limit / share - kReservedBytes;
    for (std::int64_t max_warps : {8, 4, 2, 1}) {
      shape_tile(p, t, max_warps);
      if (!choose_chunk(p, t, limit, max_pad, max_warps > 2)) continue;
      const Derived d = derive(p, t);
      const std::int64_t per_thread = divide_up(d.patch_y * d.patch_x, t.warps * 32) * d.chunk_words;
      // Two parts leave no registers for it: 246 us against 199 for the same convolution in three products, 114 against 119 in one.
      t.prefetch = !p.split && d.chunks == 1 && p.stride[d.roles.z] == 1 && (p.reduce_dim >= 0 || t.planes_per_block > 1) && !p.narrow &&
                   per_thread <= 8;
      return true;
    }
  }
  return false;
}

}  // namespace tilewright
