// Compares what a kernel wrote with the reference. Nothing that is NaN, unwritten or out of place passes.
#pragma once

#include <string>

#include "ops/reference.h"
#include "ops/tensor.h"

namespace tilewright {

// Bounds of one output: the normwise relative error ||got - want|| / ||want|| over the elements that are finite in the reference, and for each
// element |got - want| <= absolute + relative * |want|, with `absolute` scaled by the largest finite |want|.
struct Tolerance {
  double normwise = 2e-6;
  double relative = 0.0;
  double absolute = 0.0;
};

// What DESIGN.md section 9 promises for output `output` of a graph: f32 results under ieee and tf32x3 2e-6, under tf32 1e-3 when a convolution
// of f32 operands is among the ops; results that pass through f16 or bf16 by their unit roundoff (2^-11, 2^-8); integers and booleans exactly. Sums
// of more than 1024 values get a bound that grows with the logarithm of their number.
Tolerance default_tolerance(const Graph& graph, ValueId output);

struct Comparison {
  bool passed = false;
  double normwise = 0.0;          // infinity when any element that should be finite is not, or the other way round
  double max_absolute = 0.0;      // largest |got - want| over finite elements
  std::int64_t elements = 0;
  std::int64_t mismatches = 0;    // elements beyond their bound, special values out of place included
  std::int64_t special_mismatches = 0;  // NaN or infinity on one side alone, or of the other sign
  std::int64_t worst_index = -1;  // row-major logical index of the element furthest beyond (or closest to) its bound; -1 when there is none
  double worst_got = 0.0, worst_want = 0.0;
};

// The shapes must be equal; a difference counts as a mismatch of every element.
Comparison compare(const HostTensor& got, const ReferenceTensor& want, const Tolerance& tolerance);

// "normwise error 3.1e-07, largest 2.4e-07" or what is wrong and where.
std::string comparison_text(const Comparison& comparison);

}  // namespace tilewright
