// A tensor in host memory: dtype, concrete shape, strides and bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "ops/graph.h"

namespace tilewright {

struct HostTensor {
  DType dtype = DType::kF32;
  llvm::SmallVector<std::int64_t, 6> shape;
  llvm::SmallVector<std::int64_t, 6> strides;  // elements, always filled (row-major unless the description says otherwise)
  std::vector<std::byte> bytes;                // holds every addressed element; size follows from shape and strides

  // Zero-filled. `strides` empty = row-major.
  static HostTensor make(DType dtype, llvm::ArrayRef<std::int64_t> shape, llvm::ArrayRef<std::int64_t> strides = {});
  std::int64_t element_count() const;     // product of the shape
  std::int64_t storage_elements() const;  // elements the buffer holds
  bool is_row_major() const;              // strides of dimensions of size 1 do not matter
  // Element at linear row-major logical index, widened to double (bool: 0 or 1; i64 exactly up to 2^53).
  double at(std::int64_t linear) const;
  // Rounds to nearest even for f16/bf16, saturating never: overflow gives infinity.
  void set(std::int64_t linear, double value);
  std::int64_t storage_offset(std::int64_t linear) const;
};

// Elements from one index to the next of each dimension, the last running fastest.
llvm::SmallVector<std::int64_t, 6> row_major_strides(llvm::ArrayRef<std::int64_t> shape);

// Conversions of single elements, bit-exact to IEEE round-to-nearest-even. Narrowing a NaN gives the positive quiet one (0x7e00, 0x7fc0);
// widening keeps its sign and payload.
std::uint16_t f32_to_f16(float value);
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);
float bf16_to_f32(std::uint16_t bits);
// A double rounded once (no double rounding through f32) to the storage type, given back as double.
double round_to_dtype(double value, DType dtype);

// Concrete shape for given dimension values.
llvm::SmallVector<std::int64_t, 6> concrete_shape(llvm::ArrayRef<SizeExpr> shape, llvm::ArrayRef<std::int64_t> dims);

// Seeded data for an input, the same bits on every machine and for any number of threads. The generator is counter based: element i of the
// storage (not of the logical order) is made from output i of the SplitMix64 sequence that starts at output `input` of the sequence of
// `seed`.
//   floats  low + (high - low) * k / 2^24 for a 24-bit k, rounded to the dtype; what would round to `high` is `low` instead
//   i32, i64  [-100, 100); bool  0 or 1
// i64 inputs that a cross_entropy of `graph` reads as targets are class indices in [0, C), or ignore_index where C is 0.
HostTensor random_input(const Graph& graph, ValueId input, llvm::ArrayRef<std::int64_t> dims, std::uint64_t seed, double low = -1.0,
                        double high = 1.0);

}  // namespace tilewright
