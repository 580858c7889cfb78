// Descriptions of tensors for cp.async.bulk.tensor: encoded by the driver for a GPU, and as a plain struct for kernels on the CPU.
#pragma once

#include <array>
#include <cstdint>

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "runtime/driver.h"
#include "runtime/dtype.h"

namespace tilewright {

enum class TensorMapSwizzle : std::uint8_t { kNone, k32B, k64B, k128B };

// The parameters of cuTensorMapEncodeTiled, without interleaving and with element strides of 1. Innermost dimension first, 1 to 5 of them.
struct TensorMapSpec {
  DType dtype = DType::kF32;
  std::uint64_t address = 0;                           // a multiple of 16
  llvm::SmallVector<std::uint64_t, 5> dims;            // elements, 1 to 2^32
  llvm::SmallVector<std::uint64_t, 4> strides_bytes;   // of all dimensions but the first: multiples of 16 below 2^40
  llvm::SmallVector<std::uint32_t, 5> box;             // elements, 1 to 256; the innermost row is a multiple of 16 bytes
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;  // the innermost row of the box has at most its width
  bool nan_fill = false;                               // of floating elements outside of the tensor, in the place of zero
};

// 128 bytes, to be aligned to 64.
struct alignas(64) EncodedTensorMap {
  std::array<std::uint64_t, 16> words;
};

// Error kInvalidArgument names the parameter and the rule it breaks.
llvm::Error check_tensor_map(const TensorMapSpec& spec);
// For a kernel on a GPU. Errors of check_tensor_map; kDriver.
llvm::Expected<EncodedTensorMap> encode_tensor_map(const Driver& driver, const TensorMapSpec& spec);
// For a kernel on the CPU. Errors of check_tensor_map; kUnsupported: a swizzle whose width is not that of the box's innermost row.
llvm::Expected<EncodedTensorMap> encode_tensor_map_on_host(const TensorMapSpec& spec);

}  // namespace tilewright
