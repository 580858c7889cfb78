// The data of `run`: inputs from a seed or from .npy files, outputs summarised or written.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "ops/reference.h"
#include "ops/tensor.h"

namespace tilewright::cli {

struct RunDataOptions {
  std::uint64_t seed = 1;
  std::vector<std::string> files;  // "NAME=FILE.npy"
  double low = -1.0, high = 1.0;   // range of random floats
};

// One tensor per graph input, in order; input i gets seed + i. Error kInvalidArgument: an unknown input (nearest known one), a file of
// another dtype, shape or order than the description says; kIo.
llvm::Expected<std::vector<HostTensor>> make_inputs(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const RunDataOptions& options);

// Writes DIRECTORY/NAME.npy, making the directory. Error kIo.
llvm::Error save_tensor(llvm::StringRef directory, llvm::StringRef name, const HostTensor& tensor);

// A reference result as a kernel would store it: rounded once to `dtype`.
HostTensor stored(const ReferenceTensor& tensor, DType dtype);

// What tells one result from another at a glance.
struct TensorSummary {
  std::string checksum;             // first 16 hexadecimal digits of BLAKE3 over the row-major bytes
  double minimum = 0, maximum = 0;  // of the elements that are not NaN; NaN when there are none
  std::uint64_t nan_count = 0;
  std::vector<double> first;  // up to eight elements
};
TensorSummary summarize_tensor(const HostTensor& tensor);
std::string summary_text(llvm::StringRef name, const HostTensor& tensor, const TensorSummary& summary);
llvm::json::Object summary_json(llvm::StringRef name, const HostTensor& tensor, const TensorSummary& summary);

// "f32 [8, 16]"
std::string tensor_text(const HostTensor& tensor);

}  // namespace tilewright::cli
