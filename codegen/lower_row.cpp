// Softmax and reductions over the innermost axes, and cross entropy.
#include <algorithm>
#include <bit>

#include "codegen/lowering.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"
#include "runtime/integer.h"

namespace tilewright {
namespace {

constexpr std::int64_t kHeldValues = 32;  // registers a thread spends on its part of a row

std::int64_t round_up_power(std::int64_t value) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, value))));
}

struct RowTile {
  std::int64_t block_threads, row_threads, vector_elems, vectors_per_thread;
};

// Short rows share a block, longer ones own one and stay in registers, the longest stream through it.
RowTile default_tile(std::int64_t cols, std::int64_t vector, std::int64_t rows, unsigned sm_count) {
  constexpr std::int64_t kVectors = 4;
  if (cols <= 32 * vector * kVectors) {
    const std::int64_t lanes = std::min<std::int64_t>(32, round_up_power(divide_up(cols, vector * kVectors)));
    return {256, lanes, vector, std::max<std::int64_t>(1, divide_up(cols, lanes * vector))};
  }
  for (std::int64_t threads : {128, 256, 512, 1024}) {
    if (threads * vector * kVectors >= cols) return {threads, threads, vector, kVectors};
  }
  const std::int64_t vectors = divide_up(cols, 1024 * vector);
  if (vectors * vector <= kHeldValues) return {1024, 1024, vector, vectors};
  const std::int64_t threads = rows >= 8 * static_cast<std::int64_t>(sm_count) ? 512 : 1024;
  return {threads, threads, vector, vector == 1 ? 8 : vector >= 8 ? 2 : 4};
}

// What of the graph a row kernel needs: rows x cols, kind and reductions.
struct RowProblem {
  SizeExpr rows, cols;
  std::string kind = "kSoftmax", monoid = "kSum", loss = "kNone", value_type = "float";
  std::int64_t ignore_index = 0;
  double label_smoothing = 0.0;
  bool whole_grid = false;  // one result for all rows
};

RowProblem row_problem(const Lowering& lowering) {
  const Op& op = lowering.anchor();
  const llvm::ArrayRef<SizeExpr> shape(lowering.value(op.inputs[0]).shape);
  RowProblem problem;
  if (const auto* softmax = std::get_if<SoftmaxAttributes>(&op.attributes)) {
    problem.rows = element_count(shape.take_front(softmax->axis));
    problem.cols = element_count(shape.drop_front(softmax->axis));
  } else if (const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes)) {
    problem.rows = element_count(shape.take_front(reduce->axes.front()));
    problem.cols = element_count(shape.drop_front(reduce->axes.front()));
    problem.kind = "kReduce";
    problem.monoid = monoid_name(reduce->kind);
    problem.value_type = reduction_value_type(lowering.value(op.output).dtype);
  } else {
    const auto& loss = std::get<CrossEntropyAttributes>(op.attributes);
    problem.rows = shape[0];
    problem.cols = shape[1];
    problem.kind = "kCrossEntropy";
    problem.whole_grid = loss.reduction != LossReduction::kNone;
    problem.loss = loss.reduction == LossReduction::kMean ? "kMean" : loss.reduction == LossReduction::kSum ? "kSum" : "kNone";
    problem.ignore_index = loss.ignore_index;
    problem.label_smoothing = loss.label_smoothing;
  }
  return problem;
}

llvm::Error check_tile(const Lowering& lowering, const RowTile& tile) {
  if (llvm::Error error = check_block_threads(lowering, tile.block_threads)) return error;
  const bool lanes = tile.row_threads >= 1 && tile.row_threads <= 32 && std::has_single_bit(static_cast<std::uint64_t>(tile.row_threads));
  const bool warps = tile.row_threads > 32 && tile.row_threads % 32 == 0;
  if (llvm::Error error = check_parameter((lanes || warps) && tile.block_threads % tile.row_threads == 0, lowering, "row_threads",
                                          tile.row_threads, "a power of two up to 32 or a multiple of 32 that divides block_threads")) {
    return error;
  }
  const bool held = tile.vectors_per_thread >= 1 && tile.vectors_per_thread * tile.vector_elems <= kHeldValues;
  return check_parameter(held, lowering, "vectors_per_thread", tile.vectors_per_thread, "at most 32 elements a thread");
}

}  // namespace

std::string monoid_name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "kSum";
    case ReduceKind::kMean:
      return "kMean";
    case ReduceKind::kMin:
      return "kMin";
    case ReduceKind::kMax:
      return "kMax";
  }
  return "";
}

std::string reduction_value_type(DType result) {
  if (result == DType::kI64) return "tw::i64";
  return is_floating(result) ? "float" : "tw::i32";
}

llvm::Expected<KernelSpec> lower_row(Lowering& lowering) {
  const Group& group = lowering.group;
  const Op& op = lowering.anchor();
  const RowProblem problem = row_problem(lowering);
  HooksWriter hooks(lowering.graph, lowering.buffers);
  hooks.add_vector_load("load", group.prologues[0], lowering.value(op.inputs[0]).shape);
  int widest = hooks.vector_limit(8);
  if (op.inputs.size() > 1) hooks.add_scalar_load("target", group.prologues[1], lowering.value(op.inputs[1]).shape, "tw::i64");
  hooks.add_vector_store("store", group.after_anchor, group.result, "Value");
  if (problem.kind == "kSoftmax") widest = hooks.vector_limit(8);  // the others store one element a row

  std::int64_t vector = widest;
  while (problem.cols.is_constant() && vector > 1 && problem.cols.constant() % vector != 0) vector /= 2;
  RowTile tile = default_tile(lowering.expected(problem.cols), vector, lowering.expected(problem.rows), lowering.device.sm_count);
  tile.block_threads = lowering.parameter("block_threads", tile.block_threads);
  tile.row_threads = lowering.parameter("row_threads", tile.row_threads > 32 ? tile.block_threads : tile.row_threads);
  tile.vector_elems = lowering.parameter("vector_elems", tile.vector_elems);
  tile.vectors_per_thread = lowering.parameter("vectors_per_thread", tile.vectors_per_thread);
  const bool vector_fits =
      tile.vector_elems >= 1 && tile.vector_elems <= widest && std::has_single_bit(static_cast<std::uint64_t>(tile.vector_elems));
  if (llvm::Error error =
          check_parameter(vector_fits, lowering, "vector_elems", tile.vector_elems, fmt::format("a power of two up to {}", widest)))
    return error;
  if (llvm::Error error = check_tile(lowering, tile)) return error;

  KernelSpec spec;
  spec.header = "tilewright/row.cuh";
  spec.function = "tw::row";
  spec.config_type = "tw::RowConfig";
  spec.config = {{"kind", "tw::RowKind::" + problem.kind},
                 {"monoid", "tw::Monoid::" + problem.monoid},
                 {"loss", "tw::LossReduction::" + problem.loss},
                 {"label_smoothing", problem.label_smoothing != 0.0 ? "true" : "false"},
                 {"block_threads", std::to_string(tile.block_threads)},
                 {"row_threads", std::to_string(tile.row_threads)},
                 {"vector_elems", std::to_string(tile.vector_elems)},
                 {"vectors_per_thread", std::to_string(tile.vectors_per_thread)},
                 {"cols", baked(problem.cols)}};
  spec.hooks = hooks.text(!hooks.fits_index32(), problem.value_type);
  SizeExpr blocks = ceil_div(problem.rows, SizeExpr(tile.block_threads / tile.row_threads));
  KernelArg workspace = arg_i64("workspace", SizeExpr(0));
  if (problem.whole_grid) {
    // A loss over no rows is still written: 0 for a sum, NaN for a mean.
    blocks = max(blocks, SizeExpr(1));
    workspace =
        arg_buffer("workspace", lowering.add_workspace("row losses", SizeExpr(8) * (blocks + ceil_div(blocks, SizeExpr(256))), true));
  }
  spec.launch.grid[0] = blocks;
  spec.launch.block[0] = static_cast<std::uint32_t>(tile.block_threads);
  spec.launch.params = {
      {"tw::RowArgs",
       {workspace, arg_i64("rows", problem.rows), arg_i64("cols", problem.cols), arg_i64("ignore_index", SizeExpr(problem.ignore_index)),
        arg_f32("label_smoothing", static_cast<float>(problem.label_smoothing)), arg_misalignment()}},
      hooks.param()};
  return spec;
}

}  // namespace tilewright
