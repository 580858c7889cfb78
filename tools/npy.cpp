#include "tools/npy.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

constexpr llvm::StringLiteral kMagic("\x93NUMPY");

struct NpyDtype {
  llvm::StringRef descr;
  DType dtype;
};
constexpr NpyDtype kDtypes[] = {{"<f4", DType::kF32}, {"<f2", DType::kF16}, {"<V2", DType::kBf16}, {"|V2", DType::kBf16},
                                {"<i4", DType::kI32}, {"<i8", DType::kI64}, {"|b1", DType::kBool}};

// The text after 'key': in the header's dictionary, without leading blanks; empty when the key is missing.
llvm::StringRef value_of(llvm::StringRef header, llvm::StringRef key) {
  for (const char* quote : {"'", "\""}) {
    const std::size_t at = header.find((quote + key + quote).str());
    if (at == llvm::StringRef::npos) continue;
    const std::size_t colon = header.find(':', at);
    return colon == llvm::StringRef::npos ? llvm::StringRef() : header.drop_front(colon + 1).ltrim();
  }
  return {};
}

llvm::Expected<DType> parse_descr(llvm::StringRef value, const std::string& name) {
  constexpr llvm::StringLiteral kWanted("wanted <f4, <f2, <i4, <i8, |b1, or <V2 for bf16");
  if (value.empty()) return make_error(Status::kInvalidArgument, "{}: its header has no descr", name);
  if (value.starts_with("[")) return make_error(Status::kInvalidArgument, "{}: a structured dtype; {}", name, kWanted);
  if (value.front() != '\'' && value.front() != '"') return make_error(Status::kInvalidArgument, "{}: its descr is no string", name);
  const llvm::StringRef text = value.drop_front(1).take_until([&](char c) { return c == value.front(); });
  // What stands in the file goes into one line of a message.
  constexpr std::size_t kShown = 32;
  std::string descr;
  for (char c : text.take_front(kShown)) descr += llvm::isPrint(c) ? c : '?';
  if (text.size() > kShown) descr += "...";
  for (const NpyDtype& known : kDtypes) {
    if (known.descr == text) return known.dtype;
  }
  if (text.ends_with("f8")) {
    return make_error(Status::kInvalidArgument, "{}: dtype '{}' (float64); {} (numpy: a.astype(numpy.float32))", name, descr, kWanted);
  }
  if (text.starts_with(">")) {
    return make_error(Status::kInvalidArgument, "{}: dtype '{}' is big-endian; {} (numpy: a.astype(a.dtype.newbyteorder('<')))", name,
                      descr, kWanted);
  }
  return make_error(Status::kInvalidArgument, "{}: dtype '{}'; {}", name, descr, kWanted);
}

llvm::Expected<llvm::SmallVector<std::int64_t, 6>> parse_shape(llvm::StringRef value, const std::string& name) {
  llvm::SmallVector<std::int64_t, 6> shape;
  if (!value.consume_front("(") || !value.contains(')')) return make_error(Status::kInvalidArgument, "{}: its header has no shape", name);
  llvm::SmallVector<llvm::StringRef, 6> parts;
  value.take_until([](char c) { return c == ')'; }).split(parts, ',', -1, false);
  for (llvm::StringRef part : parts) {
    part = part.trim();
    if (part.empty()) continue;
    std::int64_t size = 0;
    if (part.getAsInteger(10, size) || size < 0)
      return make_error(Status::kInvalidArgument, "{}: '{}' in its shape is not a size", name, part);
    shape.push_back(size);
  }
  return shape;
}

// Header dictionary and where the data begin.
llvm::Expected<std::pair<llvm::StringRef, std::size_t>> split_header(llvm::StringRef bytes, const std::string& name) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) return make_error(Status::kInvalidArgument, "{}: not an .npy file", name);
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t version = byte(6), width = version == 1 ? 2 : 4;
  if (version < 1 || version > 3) return make_error(Status::kInvalidArgument, "{}: .npy version {}, known are 1, 2 and 3", name, version);
  if (bytes.size() < 8 + width) return make_error(Status::kInvalidArgument, "{}: its header is cut off", name);
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i) length |= byte(8 + i) << (8 * i);
  if (bytes.size() - 8 - width < length) return make_error(Status::kInvalidArgument, "{}: its header is cut off", name);
  return std::pair(bytes.substr(8 + width, length), 8 + width + length);
}

}  // namespace

llvm::Expected<HostTensor> decode_npy(llvm::StringRef bytes, const std::string& name) {
  auto parts = split_header(bytes, name);
  if (!parts) return parts.takeError();
  const auto [header, begin] = *parts;
  const llvm::StringRef order = value_of(header, "fortran_order");
  if (!order.starts_with("False")) {
    return make_error(Status::kInvalidArgument, "{}: {}, wanted C order (numpy.ascontiguousarray)", name,
                      order.starts_with("True") ? "Fortran order" : "its header has no fortran_order");
  }
  auto dtype = parse_descr(value_of(header, "descr"), name);
  if (!dtype) return dtype.takeError();
  auto shape = parse_shape(value_of(header, "shape"), name);
  if (!shape) return shape.takeError();
  // Strides are products of the other sizes even where one is 0.
  std::int64_t reach = static_cast<std::int64_t>(dtype_bytes(*dtype));
  for (std::int64_t size : *shape) {
    if (__builtin_mul_overflow(reach, std::max<std::int64_t>(size, 1), &reach)) {
      return make_error(Status::kInvalidArgument, "{}: its shape is larger than memory", name);
    }
  }
  const std::size_t wanted = llvm::is_contained(*shape, 0) ? 0 : static_cast<std::size_t>(reach);
  if (bytes.size() - begin != wanted) {
    return make_error(Status::kInvalidArgument, "{}: {} bytes of data, its header says {}", name, bytes.size() - begin, wanted);
  }
  HostTensor tensor = HostTensor::make(*dtype, *shape);
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data()) + begin;
  std::copy_n(data, wanted, tensor.bytes.begin());
  if (*dtype == DType::kBool) {
    for (std::byte& value : tensor.bytes) value = static_cast<std::byte>(value != std::byte{0});
  }
  return tensor;
}

llvm::Expected<HostTensor> load_npy(const std::string& path) {
  auto file = llvm::MemoryBuffer::getFile(path, false, false);
  if (!file) return make_error(Status::kIo, "{}: {}", path, file.getError().message());
  return decode_npy((*file)->getBuffer(), path);
}

std::string encode_npy(const HostTensor& tensor) {
  const auto* known = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const NpyDtype& d) { return d.dtype == tensor.dtype; });
  std::string shape;
  for (std::int64_t size : tensor.shape) shape += fmt::format("{},{}", size, tensor.shape.size() == 1 ? "" : " ");
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", known->descr,
                                   llvm::StringRef(shape).rtrim(", ").str() + (tensor.shape.size() == 1 ? "," : ""));
  constexpr std::size_t kAlignment = 64, kPrelude = 10;
  header.append((kAlignment - (kPrelude + header.size() + 1) % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string bytes = kMagic.str() + std::string("\x01\x00", 2);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  if (tensor.is_row_major()) {
    bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    return bytes;
  }
  const std::size_t size = dtype_bytes(tensor.dtype);
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()) + static_cast<std::size_t>(tensor.storage_offset(i)) * size, size);
  }
  return bytes;
}

llvm::Error save_npy(const std::string& path, const HostTensor& tensor) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, llvm::sys::Process::getProcessId());
  std::error_code error;
  llvm::raw_fd_ostream stream(temporary, error);
  if (error) return make_error(Status::kIo, "cannot write {}: {}", path, error.message());
  llvm::FileRemover remover(temporary);
  stream << encode_npy(tensor);
  stream.close();
  error = stream.error();
  stream.clear_error();  // the stream would end the process over an error that is left in it
  if (!error) error = llvm::sys::fs::rename(temporary, path);
  if (error) return make_error(Status::kIo, "cannot write {}: {}", path, error.message());
  remover.releaseFile();
  return llvm::Error::success();
}

}  // namespace tilewright::cli
