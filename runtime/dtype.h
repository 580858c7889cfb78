// Element types of tensors: the numeric facts every layer shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "llvm/ADT/StringRef.h"

namespace tilewright {

enum class DType : std::uint8_t { kF32, kF16, kBf16, kI32, kI64, kBool };

// Size of one element in bytes (bool is one byte, 0 or 1).
std::size_t dtype_bytes(DType dtype);

// The name descriptions use: "f32", "f16", "bf16", "i32", "i64", "bool".
llvm::StringRef dtype_name(DType dtype);

// Inverse of dtype_name; nullopt for an unknown name.
std::optional<DType> parse_dtype(llvm::StringRef name);

bool is_floating(DType dtype);

}  // namespace tilewright
