// NumPy's .npy files: C order, little endian. bfloat16 has no NumPy dtype and travels as two raw bytes, '<V2'.
#pragma once

#include <string>

#include "llvm/Support/Error.h"
#include "ops/tensor.h"

namespace tilewright::cli {

// Versions 1, 2 and 3. Booleans other than 0 and 1 become 1. Error kInvalidArgument, naming the file, what was seen and what was wanted:
// not an .npy file, truncated or too long, Fortran order, big endian, a dtype that Tilewright has not (float64 among them); kIo when it
// cannot be read.
llvm::Expected<HostTensor> load_npy(const std::string& path);

// Version 1, row-major whatever the strides of `tensor`. Writes a temporary file beside `path` and renames it, so that `path` is whole or
// untouched. Error kIo.
llvm::Error save_npy(const std::string& path, const HostTensor& tensor);

// The same over bytes in memory.
llvm::Expected<HostTensor> decode_npy(llvm::StringRef bytes, const std::string& name);
std::string encode_npy(const HostTensor& tensor);

}  // namespace tilewright::cli
