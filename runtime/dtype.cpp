#include "runtime/dtype.h"

namespace tilewright {

std::size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBf16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kBool:
      return 1;
  }
  return 0;
}

llvm::StringRef dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBf16:
      return "bf16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

std::optional<DType> parse_dtype(llvm::StringRef name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kI32, DType::kI64, DType::kBool}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

bool is_floating(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

}  // namespace tilewright
