#include "tools/run_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "runtime/error.h"
#include "runtime/hash.h"
#include "tools/cli.h"
#include "tools/npy.h"

namespace tilewright::cli {
namespace {

std::string sizes_text(llvm::ArrayRef<std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Index among the graph's inputs of "NAME" in "NAME=FILE".
llvm::Expected<std::size_t> find_input(const Graph& graph, llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef, 8> names;
  for (auto [index, input] : llvm::enumerate(graph.inputs())) {
    if (graph.value(input).name == name) return index;
    names.push_back(graph.value(input).name);
  }
  llvm::StringRef nearest = nearest_name(name, names);
  return make_error(Status::kInvalidArgument, "--input: '{}' has no input '{}'; it has {}{}", graph.name(), name, fmt::join(names, ", "),
                    nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

llvm::Expected<HostTensor> read_input(const Graph& graph, std::size_t index, llvm::ArrayRef<std::int64_t> dims, llvm::StringRef path) {
  const Value& value = graph.value(graph.inputs()[index]);
  auto tensor = load_npy(path.str());
  if (!tensor) return tensor.takeError();
  const auto shape = concrete_shape(value.shape, dims);
  if (tensor->dtype != value.dtype) {
    return make_error(Status::kInvalidArgument, "--input {}: {} holds {}, the description wants {}", value.name, path,
                      dtype_name(tensor->dtype), dtype_name(value.dtype));
  }
  if (tensor->shape != shape) {
    return make_error(Status::kInvalidArgument, "--input {}: {} has shape {}, the description wants {} (--dim sets named dimensions)",
                      value.name, path, sizes_text(tensor->shape), sizes_text(shape));
  }
  if (value.strides.empty()) return tensor;
  HostTensor strided = HostTensor::make(value.dtype, shape, value.strides);
  const std::size_t size = dtype_bytes(value.dtype);
  for (std::int64_t i = 0; i < tensor->element_count(); ++i) {
    std::copy_n(tensor->bytes.data() + static_cast<std::size_t>(i) * size, size,
                strided.bytes.data() + static_cast<std::size_t>(strided.storage_offset(i)) * size);
  }
  return strided;
}

}  // namespace

llvm::Expected<std::vector<HostTensor>> make_inputs(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const RunDataOptions& options) {
  if (!(options.low < options.high))
    return make_error(Status::kInvalidArgument, "--low {} must lie below --high {}", options.low, options.high);
  std::vector<std::optional<HostTensor>> given(graph.inputs().size());
  for (const std::string& item : options.files) {
    auto [name, path] = llvm::StringRef(item).split('=');
    if (name.empty() || path.empty()) return make_error(Status::kInvalidArgument, "--input wants NAME=FILE.npy, got '{}'", item);
    auto index = find_input(graph, name);
    if (!index) return index.takeError();
    if (given[*index]) return make_error(Status::kInvalidArgument, "--input {}: '{}' is given twice", item, name);
    auto tensor = read_input(graph, *index, dims, path);
    if (!tensor) return tensor.takeError();
    given[*index] = std::move(*tensor);
  }
  std::vector<HostTensor> inputs;
  for (auto [index, input] : llvm::enumerate(graph.inputs())) {
    if (given[index]) {
      inputs.push_back(std::move(*given[index]));
    } else {
      inputs.push_back(random_input(graph, input, dims, options.seed + index, options.low, options.high));
    }
  }
  return inputs;
}

llvm::Error save_tensor(llvm::StringRef directory, llvm::StringRef name, const HostTensor& tensor) {
  if (std::error_code error = llvm::sys::fs::create_directories(directory)) {
    return make_error(Status::kIo, "cannot make directory {}: {}", directory, error.message());
  }
  return save_npy(fmt::format("{}/{}.npy", directory, name), tensor);
}

HostTensor stored(const ReferenceTensor& tensor, DType dtype) {
  HostTensor result = HostTensor::make(dtype, tensor.shape);
  for (auto [index, value] : llvm::enumerate(tensor.values)) result.set(static_cast<std::int64_t>(index), value);
  return result;
}

TensorSummary summarize_tensor(const HostTensor& tensor) {
  constexpr std::int64_t kFirst = 8;
  TensorSummary summary;
  const auto* bytes = reinterpret_cast<const char*>(tensor.bytes.data());
  summary.checksum = digest_hex(blake3({bytes, tensor.bytes.size()})).substr(0, 16);
  summary.minimum = summary.maximum = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t count = tensor.element_count();
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = tensor.at(i);
    if (i < kFirst) summary.first.push_back(value);
    if (std::isnan(value)) {
      ++summary.nan_count;
      continue;
    }
    summary.minimum = std::fmin(summary.minimum, value);  // fmin ignores the NaN it starts with
    summary.maximum = std::fmax(summary.maximum, value);
  }
  return summary;
}

std::string tensor_text(const HostTensor& tensor) { return fmt::format("{} {}", dtype_name(tensor.dtype), sizes_text(tensor.shape)); }

std::string summary_text(llvm::StringRef name, const HostTensor& tensor, const TensorSummary& summary) {
  std::string text = fmt::format("  {} {}: checksum {}", name, tensor_text(tensor), summary.checksum);
  if (tensor.element_count() == 0) return text + ", empty\n";
  text += fmt::format(", min {:.6g}, max {:.6g}", summary.minimum, summary.maximum);
  if (summary.nan_count > 0) text += fmt::format(", {} NaN", summary.nan_count);
  std::vector<std::string> first;
  for (double value : summary.first) first.push_back(fmt::format("{:.6g}", value));
  return text + fmt::format("\n    first {}\n", fmt::join(first, " "));
}

llvm::json::Object summary_json(llvm::StringRef name, const HostTensor& tensor, const TensorSummary& summary) {
  llvm::json::Array first;
  for (double value : summary.first) first.push_back(json_number(value));
  return llvm::json::Object{{"name", name},
                            {"dtype", dtype_name(tensor.dtype)},
                            {"shape", llvm::json::Array(tensor.shape)},
                            {"checksum", summary.checksum},
                            {"min", json_number(summary.minimum)},
                            {"max", json_number(summary.maximum)},
                            {"nan_count", json_count(summary.nan_count)},
                            {"first", std::move(first)}};
}

}  // namespace tilewright::cli
