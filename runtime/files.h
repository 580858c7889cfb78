// Whole files, and directories for the time of some work. Private to the library and the tool.
#pragma once

#include <string>
#include <utility>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

// Any file, those of /proc too. Error kIo naming path and cause.
llvm::Expected<std::string> read_file(llvm::StringRef path);
// Into the file itself, where a reader may see half of it: for files of one's own. Error kIo naming path and cause.
llvm::Error write_in_place(llvm::StringRef path, llvm::StringRef bytes);
// Into a file beside it that is then renamed over it, so that a reader sees the old bytes or the new, also after a crash of the machine.
// What is there and no regular file (a pipe, /dev/stdout) is written in place. Touches no signal handler. Error kIo naming path and cause.
llvm::Error replace_file(llvm::StringRef path, llvm::StringRef bytes);

// A new directory among the system's temporary ones, private to the user; it goes with its contents when this object does.
class TemporaryDirectory {
 public:
  TemporaryDirectory() = default;  // none
  // Its name is `prefix` and random letters. Error kIo.
  static llvm::Expected<TemporaryDirectory> make(llvm::StringRef prefix);
  TemporaryDirectory(TemporaryDirectory&& other) noexcept { std::swap(path_, other.path_); }
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }
  std::string file(llvm::StringRef name) const { return path_ + "/" + name.str(); }

 private:
  std::string path_;
};

}  // namespace tilewright
