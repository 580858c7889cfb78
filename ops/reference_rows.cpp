// Softmax and cross entropy, from their definitions, in the form shifted by the maximum. exp and log are the C library's: Eigen's
// vectorised exp is less accurate and does not take -infinity to 0.
#include <Eigen/Dense>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/reference_internal.h"
#include "runtime/error.h"

namespace tilewright::reference {
namespace {

double exponential(double x) { return std::exp(x); }

// The largest element, -infinity of none. With NaN among them it is any of them: the sum of exponentials is NaN whatever is subtracted.
template <typename Array>
double peak_of(const Array& row) {
  return row.size() == 0 ? -std::numeric_limits<double>::infinity() : row.maxCoeff();
}

// max + log sum exp(x - max). Where max is infinite, the differences have no value: NaN, as in PyTorch.
double log_sum_exp(const Eigen::ArrayXd& row) {
  const double peak = peak_of(row);
  return peak + std::log((row - peak).unaryExpr(&exponential).sum());
}

}  // namespace

ReferenceTensor softmax(unsigned axis, const Operand& x, unsigned threads) {
  const auto shape = x.shape();
  const std::int64_t length = shape[axis], inner = product(shape.drop_front(axis + 1)), outer = product(shape.take_front(axis));
  ReferenceTensor y = make_tensor(shape);
  if (y.values.empty()) return y;
  // A piece is up to `width` neighbouring columns, as long as the axis; it is worked on in the cache.
  using Plane = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic>;
  constexpr std::int64_t kPlaneElements = 1 << 16;
  const std::int64_t width = std::clamp<std::int64_t>(kPlaneElements / length, 1, inner), blocks = (inner + width - 1) / width;
  const std::int64_t grain = std::max<std::int64_t>(1, kPlaneElements / (length * width));
  parallel_pieces(outer * blocks, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    Eigen::ArrayXd row(std::max(width, inner == 1 ? length : 0));
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t first = piece % blocks * width, count = std::min(width, inner - first);
      const std::int64_t origin = piece / blocks * length * inner + first;
      Plane plane(length, count);
      if (inner == 1) {
        x.read(origin, length, plane.data());
      } else {
        for (std::int64_t r = 0; r < length; ++r) {
          x.read(origin + r * inner, count, row.data());
          plane.row(r) = row.head(count).transpose();
        }
      }
      for (std::int64_t c = 0; c < count; ++c) {
        auto column = plane.col(c);
        column = (column - peak_of(column)).unaryExpr(&exponential).eval();
        column /= column.sum();
      }
      for (std::int64_t r = 0; r < length; ++r) {
        Eigen::Map<Eigen::Array<double, 1, Eigen::Dynamic>>(y.values.data() + origin + r * inner, count) = plane.row(r);
      }
    }
  });
  return y;
}

llvm::Expected<ReferenceTensor> cross_entropy(const CrossEntropyAttributes& attributes, const Operand& logits, const HostTensor& targets,
                                              llvm::ArrayRef<std::int64_t> out_shape, unsigned threads) {
  const std::int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  std::vector<std::int64_t> classes_wanted(static_cast<std::size_t>(rows));
  std::int64_t counted = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t target = 0;  // its bits, not HostTensor::at: a double holds integers only up to 2^53
    std::memcpy(&target, targets.bytes.data() + static_cast<std::size_t>(targets.storage_offset(r)) * sizeof(target), sizeof(target));
    classes_wanted[static_cast<std::size_t>(r)] = target;
    if (target == attributes.ignore_index) continue;
    ++counted;
    if (target < 0 || target >= classes) {
      return make_error(Status::kInvalidArgument, "cross_entropy: target {} of row {} is not a class in [0, {}) and not ignore_index ({})",
                        target, r, classes, attributes.ignore_index);
    }
  }
  std::vector<double> losses(static_cast<std::size_t>(rows), 0.0);
  const double smoothing = attributes.label_smoothing;
  constexpr std::int64_t kPieceElements = 1 << 16;
  parallel_pieces(rows, std::max<std::int64_t>(1, kPieceElements / std::max<std::int64_t>(classes, 1)), threads,
                  [&](std::int64_t begin, std::int64_t end) {
                    Eigen::ArrayXd row(classes);
                    for (std::int64_t r = begin; r < end; ++r) {
                      const std::int64_t target = classes_wanted[static_cast<std::size_t>(r)];
                      if (target == attributes.ignore_index) continue;
                      logits.read(r * classes, classes, row.data());
                      const double total = log_sum_exp(row);
                      double loss = (1.0 - smoothing) * (total - row[target]);
                      if (smoothing != 0.0) loss += smoothing * (total - row.mean());
                      losses[static_cast<std::size_t>(r)] = loss;
                    }
                  });
  ReferenceTensor y = make_tensor(out_shape);
  if (attributes.reduction == LossReduction::kNone) {
    y.values = std::move(losses);
    return y;
  }
  const double sum = Eigen::Map<const Eigen::ArrayXd>(losses.data(), rows).sum();
  y.values[0] = attributes.reduction == LossReduction::kMean ? sum / static_cast<double>(counted) : sum;
  return y;
}

}  // namespace tilewright::reference
