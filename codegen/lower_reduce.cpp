// Reductions over any axes.
#include <algorithm>
#include <array>
#include <bit>

#include "codegen/lowering.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// sizes = {kept, reduced, kept, reduced, ...}, row-major, unused ones 1: neighbouring axes of one kind are one.
struct ReduceProblem {
  std::array<SizeExpr, 8> sizes{1, 1, 1, 1, 1, 1, 1, 1};
  SizeExpr outputs = 1, reduced = 1;
  bool innermost_kept = false;
};

llvm::Expected<ReduceProblem> reduce_problem(const Lowering& lowering) {
  const Op& op = lowering.anchor();
  const auto& reduce = std::get<ReduceAttributes>(op.attributes);
  const Shape& shape = lowering.value(op.inputs[0]).shape;
  ReduceProblem problem;
  int slot = 8;  // filled from the innermost axis outwards; even slots hold kept axes
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d].is_constant(1)) continue;
    const bool reduced = llvm::is_contained(reduce.axes, static_cast<unsigned>(d));
    const bool fits = slot < 8 && (slot % 2 == 1) == reduced;
    if (slot == 8) problem.innermost_kept = !reduced;
    if (!fits) {
      do {
        --slot;
      } while (slot >= 0 && (slot % 2 == 1) != reduced);
    }
    if (slot < 0) {
      return make_error(Status::kUnsupported,
                        "reduce over axes of {}: kept and reduced axes alternate more than seven times; reduce in two steps",
                        shape_text(shape, lowering.graph.symbols()));
    }
    const auto at = static_cast<std::size_t>(slot);
    problem.sizes[at] = problem.sizes[at] * shape[d];
    (reduced ? problem.reduced : problem.outputs) = (reduced ? problem.reduced : problem.outputs) * shape[d];
  }
  return problem;
}

struct ReduceTile {
  std::int64_t block_threads, team_threads, vector_elems, unroll, splits;
};

// Columns: threads along the kept axis, teams of them along the reduced one until the device is full; then blocks share an output too.
ReduceTile default_columns(const Lowering& lowering, const ReduceProblem& problem, std::int64_t widest) {
  constexpr std::int64_t kEnoughThreads = 64 << 10;
  const std::int64_t outputs = std::max<std::int64_t>(1, lowering.expected(problem.outputs));
  const std::int64_t reduced = std::max<std::int64_t>(1, lowering.expected(problem.reduced));
  ReduceTile tile{256, 1, widest, 4, 1};
  const SizeExpr& inner = problem.sizes[6];
  while (tile.vector_elems > 1 && (!inner.is_constant() || inner.constant() % tile.vector_elems != 0)) tile.vector_elems /= 2;
  while (tile.vector_elems > 1 && outputs / tile.vector_elems * std::min<std::int64_t>(32, reduced) < kEnoughThreads)
    tile.vector_elems /= 2;
  const std::int64_t vectors = std::max<std::int64_t>(1, outputs / tile.vector_elems);
  while (tile.team_threads < 32 && tile.team_threads * 2 <= reduced && vectors * tile.team_threads < kEnoughThreads) tile.team_threads *= 2;
  const std::int64_t tiles = std::max<std::int64_t>(1, vectors * tile.team_threads / tile.block_threads);
  const std::int64_t wanted = 2 * lowering.device.sm_count;
  if (tiles < wanted) {
    tile.splits =
        std::min({(wanted + tiles - 1) / tiles, (reduced + tile.team_threads * 16 - 1) / (tile.team_threads * 16), std::int64_t{1024}});
  }
  return tile;
}

ReduceTile default_rows(const Lowering& lowering, const ReduceProblem& problem, std::int64_t widest) {
  const std::int64_t reduced = std::max<std::int64_t>(1, lowering.expected(problem.reduced));
  ReduceTile tile{256, reduced <= 1024 ? 32 : 256, widest, 4, 1};
  const SizeExpr& inner = problem.sizes[7];
  while (tile.vector_elems > 1 && inner.is_constant() && inner.constant() % tile.vector_elems != 0) tile.vector_elems /= 2;
  if (tile.vector_elems == 1) tile.unroll = 8;
  const std::int64_t per_block = tile.block_threads / tile.team_threads;
  const std::int64_t tiles = std::max<std::int64_t>(1, (lowering.expected(problem.outputs) + per_block - 1) / per_block);
  if (tiles < 2 * lowering.device.sm_count) {
    const std::int64_t wanted = 4 * lowering.device.sm_count;
    const std::int64_t chunk = tile.team_threads * tile.vector_elems * tile.unroll * 2;
    tile.splits = std::min({(wanted + tiles - 1) / tiles, (reduced + chunk - 1) / chunk, std::int64_t{1024}});
  }
  return tile;
}

llvm::Error check_tile(const Lowering& lowering, const ReduceTile& tile, bool columns) {
  if (llvm::Error error = check_block_threads(lowering, tile.block_threads)) return error;
  const bool power = tile.team_threads >= 1 && std::has_single_bit(static_cast<std::uint64_t>(tile.team_threads));
  const bool shape_fits =
      power ? columns || tile.team_threads <= 32 || tile.team_threads % 32 == 0 : !columns && tile.team_threads % 32 == 0;
  if (llvm::Error error =
          check_parameter(tile.team_threads >= 1 && shape_fits && tile.block_threads % tile.team_threads == 0, lowering, "team_threads",
                          tile.team_threads, "a power of two, or by rows a multiple of 32, that divides block_threads")) {
    return error;
  }
  const bool unroll_fits = tile.unroll >= 1 && tile.unroll <= 16 && tile.unroll * tile.vector_elems <= 64;
  if (llvm::Error error =
          check_parameter(unroll_fits, lowering, "unroll", tile.unroll, "1 to 16, at most 64 elements in flight (unroll * vector_elems)")) {
    return error;
  }
  return check_parameter(tile.splits >= 1 && tile.splits <= 1024, lowering, "splits", tile.splits, "1 to 1024");
}

std::string braces(const std::array<SizeExpr, 8>& sizes) {
  std::string text;
  for (const SizeExpr& size : sizes) text += (text.empty() ? "{" : ", ") + baked(size);
  return text + "}";
}

}  // namespace

llvm::Expected<KernelSpec> lower_reduce(Lowering& lowering) {
  const Group& group = lowering.group;
  const Op& op = lowering.anchor();
  const auto& reduce = std::get<ReduceAttributes>(op.attributes);
  auto problem = reduce_problem(lowering);
  if (!problem) return problem.takeError();
  HooksWriter hooks(lowering.graph, lowering.buffers);
  hooks.add_vector_load("load", group.prologues[0], lowering.value(op.inputs[0]).shape);
  int widest = hooks.vector_limit(8);
  hooks.add_vector_store("store", group.after_anchor, group.result, "Value");
  if (problem->innermost_kept) widest = hooks.vector_limit(8);

  ReduceTile tile = problem->innermost_kept ? default_columns(lowering, *problem, widest) : default_rows(lowering, *problem, widest);
  tile.block_threads = lowering.parameter("block_threads", tile.block_threads);
  tile.team_threads = lowering.parameter("team_threads", tile.team_threads);
  tile.vector_elems = lowering.parameter("vector_elems", tile.vector_elems);
  tile.unroll = lowering.parameter("unroll", tile.unroll);
  tile.splits = lowering.parameter("splits", std::max<std::int64_t>(1, tile.splits));
  const bool vector_fits =
      tile.vector_elems >= 1 && tile.vector_elems <= widest && std::has_single_bit(static_cast<std::uint64_t>(tile.vector_elems));
  if (llvm::Error error =
          check_parameter(vector_fits, lowering, "vector_elems", tile.vector_elems, fmt::format("a power of two up to {}", widest)))
    return error;
  if (llvm::Error error = check_tile(lowering, tile, problem->innermost_kept)) return error;

  const std::string value_type = reduction_value_type(lowering.value(op.output).dtype);
  const std::int64_t outputs_per_block = tile.block_threads / tile.team_threads * (problem->innermost_kept ? tile.vector_elems : 1);
  const SizeExpr tiles = ceil_div(problem->outputs, SizeExpr(outputs_per_block));
  KernelArg workspace = arg_i64("workspace", SizeExpr(0));
  if (tile.splits > 1) {
    const std::int64_t partial_bytes = value_type == "tw::i64" ? 16 : 8;
    workspace = arg_buffer(
        "workspace", lowering.add_workspace("partial results", tiles * SizeExpr(partial_bytes * tile.splits * outputs_per_block), true));
  }

  KernelSpec spec;
  spec.header = "tilewright/reduce.cuh";
  spec.function = "tw::reduce";
  spec.config_type = "tw::ReduceConfig";
  spec.config = {{"monoid", "tw::Monoid::" + monoid_name(reduce.kind)},
                 {"block_threads", std::to_string(tile.block_threads)},
                 {"team_threads", std::to_string(tile.team_threads)},
                 {"vector_elems", std::to_string(tile.vector_elems)},
                 {"unroll", std::to_string(tile.unroll)},
                 {"splits", std::to_string(tile.splits)},
                 {"sizes", braces(problem->sizes)}};
  spec.hooks = hooks.text(!hooks.fits_index32(), value_type);
  spec.launch.grid[0] = tiles * SizeExpr(tile.splits);
  spec.launch.block[0] = static_cast<std::uint32_t>(tile.block_threads);
  KernelParam args{"tw::ReduceArgs", {workspace}};
  for (auto [i, size] : llvm::enumerate(problem->sizes)) args.fields.push_back(arg_i64(fmt::format("sizes[{}]", i), size));
  args.fields.push_back(arg_misalignment());
  spec.launch.params = {std::move(args), hooks.param()};
  return spec;
}

}  // namespace tilewright
