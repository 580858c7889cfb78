// Reductions from their definition. A piece of x at a time is widened and folded into accumulators, so that nothing of the size of x is
// held.
#include <Eigen/Dense>
#include <cmath>
#include <limits>

#include "llvm/ADT/STLExtras.h"
#include "ops/reference_internal.h"

namespace tilewright::reference {
namespace {

double min_nan(double a, double b) { return a < b || std::isnan(a) ? a : b; }
double max_nan(double a, double b) { return a > b || std::isnan(a) ? a : b; }

double identity(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kMean:
      return 0.0;
    case ReduceKind::kMin:
      return std::numeric_limits<double>::infinity();
    case ReduceKind::kMax:
      return -std::numeric_limits<double>::infinity();
  }
  return 0.0;
}

using Values = Eigen::Map<const Eigen::ArrayXd>;

// accumulators[i] takes in values[i].
void fold_each(ReduceKind kind, Eigen::ArrayXd& accumulators, const Values& values) {
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kMean:
      accumulators += values;
      return;
    case ReduceKind::kMin:
      accumulators = accumulators.binaryExpr(values, &min_nan);
      return;
    case ReduceKind::kMax:
      accumulators = accumulators.binaryExpr(values, &max_nan);
      return;
  }
}

// The only accumulator takes in all values.
void fold_all(ReduceKind kind, double& accumulator, const Values& values) {
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kMean:
      accumulator += values.sum();
      return;
    case ReduceKind::kMin:
      accumulator = min_nan(accumulator, values.redux(&min_nan));
      return;
    case ReduceKind::kMax:
      accumulator = max_nan(accumulator, values.redux(&max_nan));
      return;
  }
}

// The loops over x that the reduction keeps and those it takes away, neighbours joined; whether the fastest one is kept.
struct Loops {
  llvm::SmallVector<Loop, 6> kept, reduced;
  bool inner_kept = false;
};

Loops loops_of(const ReduceAttributes& attributes, llvm::ArrayRef<std::int64_t> shape) {
  Loops loops;
  std::int64_t stride = product(shape);
  std::optional<bool> last_reduced;
  for (unsigned d = 0; d < shape.size(); ++d) {
    stride = shape[d] == 0 ? 0 : stride / shape[d];
    const bool reduced = llvm::is_contained(attributes.axes, d);
    auto& list = reduced ? loops.reduced : loops.kept;
    if (last_reduced == reduced) {
      list.back() = {list.back().size * shape[d], stride};
    } else {
      list.push_back({shape[d], stride});
    }
    last_reduced = reduced;
  }
  loops.inner_kept = last_reduced == false;
  if (!loops.inner_kept && loops.reduced.empty()) loops.reduced.push_back({1, 1});  // a scalar
  return loops;
}

std::int64_t steps(llvm::ArrayRef<Loop> loops) {
  std::int64_t count = 1;
  for (const Loop& loop : loops) count *= loop.size;
  return count;
}

}  // namespace

ReferenceTensor reduce(const ReduceAttributes& attributes, const Operand& x, llvm::ArrayRef<std::int64_t> out_shape, unsigned threads) {
  const Loops loops = loops_of(attributes, x.shape());
  const std::int64_t length = steps(loops.reduced);
  ReferenceTensor y = make_tensor(out_shape);
  const auto outputs = static_cast<std::int64_t>(y.values.size());
  constexpr std::int64_t kPieceElements = 1 << 14;
  // Along x: `run` neighbours are read at once, which belong to as many outputs (inner_kept) or to one.
  const std::int64_t row = loops.inner_kept ? loops.kept.back().size : loops.reduced.back().size;
  const llvm::ArrayRef<Loop> reduced = loops.inner_kept ? llvm::ArrayRef(loops.reduced) : llvm::ArrayRef(loops.reduced).drop_back();
  const std::int64_t outer = steps(reduced);
  const std::int64_t grain = std::clamp<std::int64_t>(kPieceElements / std::max<std::int64_t>(length, 1), 64, kPieceElements);

  parallel_pieces(outputs, loops.inner_kept ? grain : std::max<std::int64_t>(1, kPieceElements / std::max<std::int64_t>(length, 1)),
                  threads, [&](std::int64_t begin, std::int64_t end) {
                    std::vector<double> buffer(static_cast<std::size_t>(std::min(row, kPieceElements)));
                    Eigen::ArrayXd accumulators;
                    for (std::int64_t o = begin; o < end;) {
                      const std::int64_t base = loop_offset(loops.kept, o);
                      const std::int64_t width = loops.inner_kept ? std::min(end - o, row - o % row) : 1;
                      accumulators.setConstant(width, identity(attributes.kind));
                      for (std::int64_t r = 0; r < outer; ++r) {
                        const std::int64_t at = base + loop_offset(reduced, r);
                        if (loops.inner_kept) {
                          x.read(at, width, buffer.data());
                          fold_each(attributes.kind, accumulators, Values(buffer.data(), width));
                          continue;
                        }
                        for (std::int64_t i = 0; i < row; i += kPieceElements) {
                          const std::int64_t run = std::min(kPieceElements, row - i);
                          x.read(at + i, run, buffer.data());
                          fold_all(attributes.kind, accumulators[0], Values(buffer.data(), run));
                        }
                      }
                      // 0 / 0: the mean of nothing is NaN.
                      if (attributes.kind == ReduceKind::kMean) accumulators /= static_cast<double>(length);
                      Eigen::Map<Eigen::ArrayXd>(y.values.data() + o, width) = accumulators;
                      o += width;
                    }
                  });
  return y;
}

}  // namespace tilewright::reference
