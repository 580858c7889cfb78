// Reductions, softmax and cross entropy, from their definitions; rows are Eigen arrays.
#include <Eigen/Dense>

#include <cmath>
#include <limits>

#include "ops/reference_internal.h"
#include "runtime/error.h"

namespace tilewright::reference {
namespace {

double fold(ReduceKind kind, const Eigen::ArrayXd& row) {
  if (row.size() == 0) {
    switch (kind) {
      case ReduceKind::kSum: return 0.0;
      case ReduceKind::kMean: return std::numeric_limits<double>::quiet_NaN();
      case ReduceKind::kMin: return std::numeric_limits<double>::infinity();
      case ReduceKind::kMax: return -std::numeric_limits<double>::infinity();
    }
  }
  if (kind != ReduceKind::kSum && kind != ReduceKind::kMean && row.isNaN().any()) return std::numeric_limits<double>::quiet_NaN();
  switch (kind) {
    case ReduceKind::kSum: return row.sum();
    case ReduceKind::kMean: return row.sum() / static_cast<double>(row.size());
    case ReduceKind::kMin: return row.minCoeff();
    case ReduceKind::kMax: return row.maxCoeff();
  }
  return 0.0;
}

// log sum exp(x); NaN when any x is NaN.
double log_sum_exp(const Eigen::ArrayXd& row) {
  if (row.size() == 0) return -std::numeric_limits<double>::infinity();
  if (row.isNaN().any()) return std::numeric_limits<double>::quiet_NaN();
  const double peak = row.maxCoeff();
  // x - max has no value where both are infinite: NaN for +infinity as in PyTorch; -infinity alone leaves it to the loss to become NaN.
  if (std::isinf(peak)) return peak > 0 ? std::numeric_limits<double>::quiet_NaN() : peak;
  return peak + std::log((row - peak).exp().sum());
}

}  // namespace

ReferenceTensor reduce(const ReduceAttributes& attributes, const Operand& x, llvm::ArrayRef<std::int64_t> out_shape, unsigned threads) {
  const auto shape = x.shape();
  llvm::SmallVector<std::int64_t, 6> kept_size, kept_stride, reduced_size, reduced_stride;
  std::int64_t stride = product(shape);
  for (unsigned d = 0; d < shape.size(); ++d) {
    stride = shape[d] == 0 ? 0 : stride / shape[d];
    const bool reduced = std::find(attributes.axes.begin(), attributes.axes.end(), d) != attributes.axes.end();
    (reduced ? reduced_size : kept_size).push_back(shape[d]);
    (reduced ? reduced_stride : kept_stride).push_back(stride);
  }
  const std::int64_t length = product(reduced_size);
  // Runs of the innermost reduced axes that lie side by side are read at once.
  std::int64_t run = 1;
  for (std::size_t d = reduced_size.size(); d-- > 0 && reduced_stride[d] == run;) run *= reduced_size[d];
  if (length == 0) run = 1;
  auto offset = [](std::int64_t linear, llvm::ArrayRef<std::int64_t> sizes, llvm::ArrayRef<std::int64_t> strides) {
    std::int64_t sum = 0;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      sum += linear % sizes[d] * strides[d];
      linear /= sizes[d];
    }
    return sum;
  };
  ReferenceTensor y = make_tensor(out_shape);
  parallel_for(static_cast<std::int64_t>(y.values.size()), threads, [&](std::int64_t o) {
    Eigen::ArrayXd row(length);
    const std::int64_t base = offset(o, kept_size, kept_stride);
    for (std::int64_t r = 0; r < length; r += run) x.read(base + offset(r, reduced_size, reduced_stride), run, row.data() + r);
    y.values[static_cast<std::size_t>(o)] = fold(attributes.kind, row);
  });
  return y;
}

ReferenceTensor softmax(unsigned axis, const Operand& x, unsigned threads) {
  const auto shape = x.shape();
  const std::int64_t length = shape[axis], inner = product(shape.drop_front(axis + 1)), outer = product(shape.take_front(axis));
  ReferenceTensor y = make_tensor(shape);
  if (y.values.empty()) return y;
  parallel_for(outer, threads, [&](std::int64_t o) {
    using Plane = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Eigen::Map<Plane> plane(y.values.data() + o * length * inner, length, inner);
    x.read(o * length * inner, length * inner, plane.data());
    for (std::int64_t i = 0; i < inner; ++i) {
      // exp(x - max) / sum: a maximum of -infinity or +infinity makes the differences NaN, as IEEE says.
      const Eigen::ArrayXd column = plane.col(i);
      const double peak = column.isNaN().any() ? std::numeric_limits<double>::quiet_NaN() : column.maxCoeff();
      const Eigen::ArrayXd powers = (column - peak).exp();
      plane.col(i) = powers / powers.sum();
    }
  });
  return y;
}

llvm::Expected<ReferenceTensor> cross_entropy(const CrossEntropyAttributes& attributes, const Operand& logits, const HostTensor& targets,
                                              llvm::ArrayRef<std::int64_t> out_shape, unsigned threads) {
  const std::int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  std::vector<double> losses(static_cast<std::size_t>(rows), 0.0);
  std::vector<char> counts(static_cast<std::size_t>(rows), 0);
  std::atomic<std::int64_t> bad_row{-1};
  parallel_for(rows, threads, [&](std::int64_t r) {
    const auto target = static_cast<std::int64_t>(targets.at(r));
    if (target == attributes.ignore_index) return;
    if (target < 0 || target >= classes) {
      bad_row = r;
      return;
    }
    Eigen::ArrayXd row(classes);
    logits.read(r * classes, classes, row.data());
    const double total = log_sum_exp(row), smoothing = attributes.label_smoothing;
    double loss = (1.0 - smoothing) * (total - row[target]);
    if (smoothing != 0.0) loss += smoothing * (total - row.mean());
    losses[static_cast<std::size_t>(r)] = loss;
    counts[static_cast<std::size_t>(r)] = 1;
  });
  if (const std::int64_t r = bad_row; r >= 0) {
    return make_error(Status::kInvalidArgument, "cross_entropy: target {} of row {} is not a class in [0, {}) and not ignore_index ({})",
                      static_cast<std::int64_t>(targets.at(r)), r, classes, attributes.ignore_index);
  }
  ReferenceTensor y = make_tensor(out_shape);
  if (attributes.reduction == LossReduction::kNone) {
    y.values = std::move(losses);
    return y;
  }
  double sum = 0.0, count = 0.0;
  for (std::size_t r = 0; r < losses.size(); ++r) {
    sum += losses[r];
    count += counts[r];
  }
  y.values[0] = attributes.reduction == LossReduction::kMean ? sum / count : sum;
  return y;
}

}  // namespace tilewright::reference
