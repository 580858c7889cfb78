// What the tests of the reference share: small graphs, small inputs, and the hand-written loops' view of tensors.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "ops/builder.h"
#include "ops/reference.h"
#include "tests/ops/support.h"

namespace tilewright_tests {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Sizes = std::vector<std::int64_t>;

inline std::int64_t count_of(const Sizes& sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return count;
}

inline tilewright::Shape shape_of(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

inline tilewright::HostTensor tensor_of(tilewright::DType dtype, const Sizes& sizes, const std::vector<double>& values,
                                        const Sizes& strides = {}) {
  tilewright::HostTensor tensor = tilewright::HostTensor::make(dtype, sizes, strides);
  REQUIRE(tensor.element_count() == static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

// Values that every dtype holds exactly: multiples of 1/8 in [-2, 2).
inline std::vector<double> eighths(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<double>(static_cast<int>(engine() % 32) - 16) / 8.0;
  return values;
}

// A graph of inputs "x0", "x1", ... and one op, and its result.
struct Input {
  Sizes shape;
  std::vector<double> values;
  tilewright::DType dtype = tilewright::DType::kF32;
  Sizes strides = {};
};
using AddOp = std::function<llvm::Expected<tilewright::ValueId>(tilewright::GraphBuilder&, llvm::ArrayRef<tilewright::ValueId>)>;

inline llvm::Expected<tilewright::ReferenceTensor> try_reference_of(const std::vector<Input>& inputs, const AddOp& add,
                                                                    unsigned threads = 2) {
  tilewright::GraphBuilder builder("t", tilewright::Precision::kIeee);
  std::vector<tilewright::ValueId> ids;
  std::vector<tilewright::HostTensor> tensors;
  for (const Input& input : inputs) {
    ids.push_back(value_of(builder.input("x" + std::to_string(ids.size()), input.dtype, shape_of(input.shape), input.strides)));
    tensors.push_back(tensor_of(input.dtype, input.shape, input.values, input.strides));
  }
  const tilewright::ValueId y = value_of(add(builder, ids));
  const tilewright::Graph graph = value_of(std::move(builder).build(y));
  auto outputs = tilewright::evaluate_reference(graph, tensors, {}, {threads});
  if (!outputs) return outputs.takeError();
  return std::move((*outputs)[0]);
}

inline tilewright::ReferenceTensor reference_of(const std::vector<Input>& inputs, const AddOp& add, unsigned threads = 2) {
  return value_of(try_reference_of(inputs, add, threads));
}

inline Sizes sizes_of(const tilewright::ReferenceTensor& tensor) { return {tensor.shape.begin(), tensor.shape.end()}; }

// Equal in place up to `relative` of the value (0: the same value); NaN equals NaN, infinities their like.
inline void check_values(const std::vector<double>& got, const std::vector<double>& want, double relative = 0.0) {
  REQUIRE(got.size() == want.size());
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool same = std::isnan(want[i])   ? std::isnan(got[i])
                      : std::isinf(want[i]) ? got[i] == want[i]
                                            : std::abs(got[i] - want[i]) <= relative * std::abs(want[i]);
    if (same) continue;
    if (++wrong <= 3) UNSCOPED_INFO("element " << i << ": got " << got[i] << ", wanted " << want[i]);
  }
  CHECK(wrong == 0);
}

}  // namespace tilewright_tests
