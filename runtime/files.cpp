#include "runtime/files.h"

#include <unistd.h>

#include <cerrno>

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"

namespace tilewright {

llvm::Expected<std::string> read_file(llvm::StringRef path) {
  // As a stream: files of /proc say that they are empty.
  auto buffer = llvm::MemoryBuffer::getFileAsStream(path);
  if (!buffer) return make_error(Status::kIo, "cannot read {}: {}", path, buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

llvm::Error write_in_place(llvm::StringRef path, llvm::StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error) {
    os << bytes;
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (error) return make_error(Status::kIo, "cannot write {}: {}", path, error.message());
  return llvm::Error::success();
}

llvm::Error replace_file(llvm::StringRef path, llvm::StringRef bytes) {
  namespace fs = llvm::sys::fs;
  fs::file_status status;
  if (!fs::status(path, status) && status.type() != fs::file_type::regular_file) return write_in_place(path, bytes);
  // A link stays one: what it points to is replaced.
  llvm::SmallString<256> target;
  if (fs::real_path(path, target)) target = path;
  auto failed = [&](std::error_code error) { return make_error(Status::kIo, "cannot write {}: {}", path, error.message()); };
  int fd = -1;
  llvm::SmallString<256> temporary;
  if (std::error_code error = fs::createUniqueFile(target + ".tmp-%%%%%%%%", fd, temporary)) return failed(error);
  llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
  os << bytes;
  os.flush();
  std::error_code error = os.error();
  os.clear_error();
  if (!error && ::fsync(fd) != 0) error = std::error_code(errno, std::generic_category());
  os.close();
  if (!error) error = os.error();
  os.clear_error();
  if (!error) error = fs::rename(temporary, target);
  if (!error) return llvm::Error::success();
  fs::remove(temporary);
  return failed(error);
}

llvm::Expected<TemporaryDirectory> TemporaryDirectory::make(llvm::StringRef prefix) {
  llvm::SmallString<128> path;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory(prefix, path))
    return make_error(Status::kIo, "cannot make a temporary directory: {}", error.message());
  TemporaryDirectory directory;
  directory.path_ = path.str().str();
  return directory;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (!path_.empty()) llvm::sys::fs::remove_directories(path_);
}

}  // namespace tilewright
