#include "autotune/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Results of a chain of f32 operations; an element's own bound is wider than the norm's because cancellation spares no single element.
constexpr Tolerance kExactF32{2e-6, 1e-4, 2e-5};
constexpr Tolerance kBf16x3{2e-5, 1e-3, 2e-4};
constexpr Tolerance kTf32{1e-3, 1e-2, 1e-2};          // operands rounded to 11 bits
constexpr Tolerance kBf16Products{1e-2, 5e-2, 3e-2};  // to 8 bits
constexpr Tolerance kF16{2e-3, 1e-2, 4e-3};           // unit roundoff 2^-11 = 4.9e-4, a few roundings
constexpr Tolerance kBf16{1.6e-2, 5e-2, 3e-2};        // unit roundoff 2^-8 = 3.9e-3, a few roundings

void widen(Tolerance& tolerance, const Tolerance& candidate) {
  if (candidate.normwise > tolerance.normwise) tolerance = candidate;
}

Tolerance contraction_tolerance(Precision precision) {
  switch (precision) {
    case Precision::kIeee:
    case Precision::kTf32x3:
      return kExactF32;
    case Precision::kBf16x3:
      return kBf16x3;
    case Precision::kTf32:
      return kTf32;
    case Precision::kBf16:
      return kBf16Products;
  }
  return kExactF32;
}

// A sum of n values in a tree of partial sums errs by about log2(n) roundings of the partial sums, which cancellation may leave larger than
// the sum itself: the bound grows from 1 for up to 1024 values by one for each further doubling. A convolution adds its products one after
// another, whose roundings are a random walk: the bound grows with the square root, from 1 for up to 2048 products.
double sum_growth(const Graph& graph) {
  double growth = 1.0;
  const auto dims = graph.default_dims();
  for (const Op& op : graph.ops()) {
    const Shape& shape = graph.value(op.inputs.empty() ? op.output : op.inputs[0]).shape;
    if (const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes)) {
      if (reduce->kind != ReduceKind::kSum && reduce->kind != ReduceKind::kMean) continue;
      double length = 1.0;
      for (unsigned axis : reduce->axes) length *= static_cast<double>(shape[axis].evaluate(dims));
      growth = std::max(growth, std::log2(std::max(length, 1.0)) - 9.0);
    } else if (std::holds_alternative<ConvAttributes>(op.attributes)) {
      double products = 1.0;
      for (const SizeExpr& size : llvm::drop_begin(graph.value(op.inputs[1]).shape)) products *= static_cast<double>(size.evaluate(dims));
      growth = std::max(growth, std::sqrt(products / 2048.0));
    }
  }
  return growth;
}

// A softmax turns the absolute error of a computed logit into a relative error of its result, and logits are often larger than 1.
double softmax_growth(const Graph& graph) {
  constexpr double kLogits = 4.0;
  for (const Op& op : graph.ops()) {
    if (std::holds_alternative<SoftmaxAttributes>(op.attributes) && graph.value(op.inputs[0]).producer) return kLogits;
  }
  return 1.0;
}

// What the absolute part of an element's bound is a multiple of. The median is of an evenly spaced sample, the same for the same tensor.
double scale_of(const std::vector<double>& want) {
  constexpr std::size_t kSample = 1 << 20;
  constexpr double kLargestOverMedian = 1e4;
  const std::size_t step = want.size() / kSample + 1;
  double largest = 0.0;
  std::vector<double> sample;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double magnitude = std::abs(want[i]);
    if (!std::isfinite(magnitude)) continue;
    largest = std::max(largest, magnitude);
    if (i % step == 0 && magnitude != 0.0) sample.push_back(magnitude);
  }
  if (sample.empty()) return largest;
  const auto middle = sample.begin() + static_cast<std::ptrdiff_t>(sample.size() / 2);
  std::nth_element(sample.begin(), middle, sample.end());
  return std::min(largest, kLargestOverMedian * *middle);
}

bool same_special(double got, double want) {
  if (std::isnan(want)) return std::isnan(got);
  return std::isinf(got) && std::isinf(want) && std::signbit(got) == std::signbit(want);
}

// |difference| over its bound; infinity for NaN and for any difference where none is allowed.
double violation(double difference, double bound) {
  if (difference <= bound) return bound == 0.0 ? 0.0 : difference / bound;
  const double ratio = bound == 0.0 ? kInfinity : difference / bound;
  return std::isnan(ratio) ? kInfinity : ratio;
}

}  // namespace

Tolerance default_tolerance(const Graph& graph, ValueId output) {
  const DType dtype = graph.value(output).dtype;
  if (!is_floating(dtype)) return {0.0, 0.0, 0.0};
  Tolerance tolerance = kExactF32;
  for (const Op& op : graph.ops()) {
    for (ValueId id : op.inputs) {
      if (!graph.value(id).producer) continue;  // an input's bits are exact on both sides
      if (graph.value(id).dtype == DType::kF16) widen(tolerance, kF16);
      if (graph.value(id).dtype == DType::kBf16) widen(tolerance, kBf16);
    }
    const bool contracts_f32 = std::holds_alternative<ConvAttributes>(op.attributes) && graph.value(op.inputs[0]).dtype == DType::kF32;
    if (contracts_f32) widen(tolerance, contraction_tolerance(graph.precision()));
  }
  if (dtype == DType::kF16) widen(tolerance, kF16);
  if (dtype == DType::kBf16) widen(tolerance, kBf16);
  const double growth = sum_growth(graph) * softmax_growth(graph);
  return {tolerance.normwise * growth, tolerance.relative, tolerance.absolute * growth};
}

Comparison compare(const HostTensor& got, const ReferenceTensor& want, const Tolerance& tolerance) {
  Comparison result;
  result.elements = static_cast<std::int64_t>(want.values.size());
  if (got.shape != want.shape) {
    result.mismatches = std::max<std::int64_t>(result.elements, 1);
    result.normwise = result.max_violation = kInfinity;
    return result;
  }
  const double scale = scale_of(want.values);
  double difference_squares = 0.0, want_squares = 0.0;
  for (std::int64_t i = 0; i < result.elements; ++i) {
    const double g = got.at(i);
    // A value beyond the storage type's range is an infinity in it, on both sides.
    double w = want.values[static_cast<std::size_t>(i)];
    if (std::isfinite(w) && std::isinf(g) && is_floating(got.dtype)) w = round_to_dtype(w, got.dtype);
    double ratio = 0.0;
    if (!std::isfinite(w) || !std::isfinite(g)) {
      ratio = same_special(g, w) ? 0.0 : kInfinity;
      result.special_mismatches += ratio > 0.0;
    } else {
      const double difference = std::abs(g - w);
      difference_squares += difference * difference;
      want_squares += w * w;
      result.max_absolute = std::max(result.max_absolute, difference);
      ratio = violation(difference, tolerance.absolute * scale + tolerance.relative * std::abs(w));
    }
    result.mismatches += !(ratio <= 1.0);
    if (result.worst_index < 0 || ratio > result.max_violation) {
      result.max_violation = ratio;
      result.worst_index = i;
      result.worst_got = g;
      result.worst_want = w;
    }
  }
  result.normwise = difference_squares == 0.0 ? 0.0 : std::sqrt(difference_squares / want_squares);
  if (result.special_mismatches > 0) result.normwise = kInfinity;
  result.passed = result.mismatches == 0 && result.normwise <= tolerance.normwise;
  return result;
}

std::string comparison_text(const Comparison& c) {
  if (c.passed) return fmt::format("normwise error {:.2e}, largest {:.2e}", c.normwise, c.max_absolute);
  if (c.worst_index < 0) return "shapes differ";
  return fmt::format(
      "normwise error {:.2e}, {} of {} elements beyond their bound ({} NaN or infinity out of place); worst at {}: got {}, wanted {}",
      c.normwise, c.mismatches, c.elements, c.special_mismatches, c.worst_index, c.worst_got, c.worst_want);
}

}  // namespace tilewright
