// The host's C++ compiler, which makes a shared object of the very text that the GPU's compiler gets.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "runtime/nvrtc.h"

namespace tilewright {

class HostCompiler {
 public:
  // $TILEWRIGHT_HOST_CXX where set and not empty, else the first of c++, clang++ and g++ in PATH that is GCC 12 or Clang 14 or newer.
  // Error kMissing names what was looked for, or the compiler that is too old.
  static llvm::Expected<HostCompiler> find();

  const std::string& path() const { return path_; }
  // "gcc 12.2.0": what tells it from another, for keys. No path in it.
  const std::string& identity() const { return identity_; }

  // Options that the object depends on. `sanitize`: "" for the executor's own checks, else what -fsanitize= gets ("address,undefined").
  std::vector<std::string> options(llvm::StringRef sanitize) const;
  // The runtime library of an address sanitizer, which must be the first in a process that loads such an object; "" when there is none.
  std::string sanitizer_runtime() const;

  struct Result {
    std::string object;  // a shared object, as KernelObject loads it
    double milliseconds = 0;
  };
  // Compiles the kernel `entry` of `source`. `headers` are what it includes and tilewright/host/*.h. Thread-safe.
  // Error kCompileFailed: the compiler's messages with the lines of the source; kIo.
  llvm::Expected<Result> compile(const std::string& source, const std::string& entry, llvm::ArrayRef<MemoryHeader> headers,
                                 llvm::StringRef sanitize) const;

 private:
  static llvm::Expected<HostCompiler> probe(const std::string& name);
  std::string path_, identity_;
  bool clang_ = false;
};

}  // namespace tilewright
