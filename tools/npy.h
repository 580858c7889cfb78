// NumPy's .npy files: C order, little endian. bfloat16 has no NumPy dtype and travels as two raw bytes, '<V2'.
#pragma once

#include <string>

#include "llvm/Support/Error.h"
#include "ops/tensor.h"

namespace tilewright::cli {

// Error kInvalidArgument, naming the file and what was seen and wanted: not an .npy file, truncated, Fortran order, big endian, a dtype
// that Tilewright has not (float64 among them); kIo when it cannot be read.
llvm::Expected<HostTensor> load_npy(const std::string& path);

// Writes a temporary file beside `path` and renames it. Error kIo.
llvm::Error save_npy(const std::string& path, const HostTensor& tensor);

// The same over bytes in memory.
llvm::Expected<HostTensor> decode_npy(llvm::StringRef bytes, const std::string& name);
std::string encode_npy(const HostTensor& tensor);

}  // namespace tilewright::cli
