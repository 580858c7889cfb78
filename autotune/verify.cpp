#include "autotune/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// Results of a chain of f32 operations; an element's own bound is wider than the norm's because cancellation spares no single element.
constexpr Tolerance kExactF32{2e-6, 1e-4, 2e-5};
constexpr Tolerance kTf32{1e-3, 1e-2, 1e-2};
constexpr Tolerance kF16{2e-3, 1e-2, 4e-3};    // unit roundoff 2^-11 = 4.9e-4, a few roundings
constexpr Tolerance kBf16{1.6e-2, 5e-2, 3e-2};  // unit roundoff 2^-8 = 3.9e-3, a few roundings

bool widest(Tolerance& tolerance, const Tolerance& candidate) {
  if (candidate.normwise <= tolerance.normwise) return false;
  tolerance = candidate;
  return true;
}

// A sum of n values in a tree of partial sums errs by about log2(n) roundings of the partial sums, which cancellation may leave larger than
// the sum itself: the bound grows from 1 for up to 1024 values by one for each further doubling.
double sum_growth(const Graph& graph) {
  double growth = 1.0;
  const auto dims = graph.default_dims();
  for (const Op& op : graph.ops()) {
    const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes);
    if (!reduce || (reduce->kind != ReduceKind::kSum && reduce->kind != ReduceKind::kMean)) continue;
    double length = 1.0;
    for (unsigned axis : reduce->axes) length *= static_cast<double>(graph.value(op.inputs[0]).shape[axis].evaluate(dims));
    growth = std::max(growth, std::log2(std::max(length, 1.0)) - 9.0);
  }
  return growth;
}

bool same_special(double got, double want) {
  if (std::isnan(want)) return std::isnan(got);
  return std::isinf(got) && std::signbit(got) == std::signbit(want);
}

}  // namespace

Tolerance default_tolerance(const Graph& graph, ValueId output) {
  const DType dtype = graph.value(output).dtype;
  if (!is_floating(dtype)) return {0.0, 0.0, 0.0};
  Tolerance tolerance = kExactF32;
  for (const Op& op : graph.ops()) {
    for (ValueId id : op.inputs) {
      if (!graph.value(id).producer) continue;  // an input's bits are exact on both sides
      if (graph.value(id).dtype == DType::kF16) widest(tolerance, kF16);
      if (graph.value(id).dtype == DType::kBf16) widest(tolerance, kBf16);
    }
    const bool contracts_f32 = std::holds_alternative<ConvAttributes>(op.attributes) && graph.value(op.inputs[0]).dtype == DType::kF32;
    if (contracts_f32 && graph.precision() == Precision::kTf32) widest(tolerance, kTf32);
  }
  if (dtype == DType::kF16) widest(tolerance, kF16);
  if (dtype == DType::kBf16) widest(tolerance, kBf16);
  const double growth = sum_growth(graph);
  return {tolerance.normwise * growth, tolerance.relative, tolerance.absolute * growth};
}

Comparison compare(const HostTensor& got, const ReferenceTensor& want, const Tolerance& tolerance) {
  Comparison result;
  result.elements = static_cast<std::int64_t>(want.values.size());
  if (got.shape != want.shape) {
    result.mismatches = std::max<std::int64_t>(result.elements, 1);
    result.normwise = std::numeric_limits<double>::infinity();
    return result;
  }
  double largest = 0.0;
  for (double value : want.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  double difference_squares = 0.0, want_squares = 0.0, worst_excess = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < result.elements; ++i) {
    const double g = got.at(i);
    // A value beyond the storage type's range is an infinity in it, on both sides.
    double w = want.values[static_cast<std::size_t>(i)];
    if (std::isfinite(w) && std::isinf(g) && is_floating(got.dtype)) w = round_to_dtype(w, got.dtype);
    double excess = 0.0;
    bool bad = false;
    if (!std::isfinite(w) || !std::isfinite(g)) {
      bad = !same_special(g, w);
      excess = bad ? std::numeric_limits<double>::infinity() : -1.0;
      result.special_mismatches += bad;
    } else {
      const double difference = std::abs(g - w);
      difference_squares += difference * difference;
      want_squares += w * w;
      result.max_absolute = std::max(result.max_absolute, difference);
      const double bound = tolerance.absolute * largest + tolerance.relative * std::abs(w);
      bad = !(difference <= bound);
      excess = difference - bound;
    }
    result.mismatches += bad;
    if (excess > worst_excess) {
      worst_excess = excess;
      result.worst_index = i;
      result.worst_got = g;
      result.worst_want = w;
    }
  }
  result.normwise = difference_squares == 0.0 ? 0.0 : std::sqrt(difference_squares / want_squares);
  if (result.special_mismatches > 0) result.normwise = std::numeric_limits<double>::infinity();
  result.passed = result.mismatches == 0 && result.normwise <= tolerance.normwise;
  return result;
}

std::string comparison_text(const Comparison& c) {
  if (c.passed) return fmt::format("normwise error {:.2e}, largest {:.2e}", c.normwise, c.max_absolute);
  if (c.worst_index < 0) return "shapes differ";
  return fmt::format("normwise error {:.2e}, {} of {} elements beyond their bound ({} NaN or infinity out of place); worst at {}: got {}, wanted {}",
                     c.normwise, c.mismatches, c.elements, c.special_mismatches, c.worst_index, c.worst_got, c.worst_want);
}

}  // namespace tilewright
