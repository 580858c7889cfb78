// Compares what a kernel wrote with the reference. Nothing that is NaN, unwritten or out of place passes.
#pragma once

#include <string>

#include "ops/reference.h"
#include "ops/tensor.h"

namespace tilewright {

// Bounds of one output. Over the elements that are finite in the reference, ||got - want|| / ||want|| <= normwise; and for each of them
// |got - want| <= absolute * scale + relative * |want|. The scale of an output is its largest finite |want|, but at most 10^4 times the
// median of its nonzero ones: a few huge elements must not excuse errors in all the others.
struct Tolerance {
  double normwise = 2e-6;
  double relative = 0.0;
  double absolute = 0.0;
};

// What is promised for output `output` of a graph: f32 results under ieee and tf32x3 2e-6, under bf16x3 2e-5, tf32 1e-3
// and bf16 1e-2 when a convolution of f32 operands is among the ops; results that pass through f16 or bf16 by their unit roundoff (2^-11,
// 2^-8); integers and booleans exactly. Bounds grow with the number of values summed: beyond 1024 values of a sum or mean with its
// logarithm, beyond 2048 products of a convolution with its square root.
Tolerance default_tolerance(const Graph& graph, ValueId output);

struct Comparison {
  bool passed = false;
  double normwise = 0.0;      // infinity when any element that should be finite is not, or the other way round
  double max_absolute = 0.0;  // largest |got - want| over finite elements
  std::int64_t elements = 0;
  std::int64_t mismatches = 0;          // elements beyond their bound, special values out of place included
  std::int64_t special_mismatches = 0;  // NaN or infinity on one side alone, or of the other sign
  std::int64_t worst_index = -1;  // row-major logical index of the element furthest beyond (or closest to) its bound; -1: there is none
  double worst_got = 0.0, worst_want = 0.0;
  double max_violation = 0.0;  // largest |got - want| / bound: 1 is the limit; infinity where a special value is out of place
};

// Shapes that differ are a mismatch of every element. A value that rounds to infinity in the dtype of `got` counts as one.
Comparison compare(const HostTensor& got, const ReferenceTensor& want, const Tolerance& tolerance);

// "normwise error 3.1e-07, largest 2.4e-07" or what is wrong and where.
std::string comparison_text(const Comparison& comparison);

}  // namespace tilewright
