// The CUDA run-time compiler, found without loading it and loaded only when something must be compiled (loading costs 6 ms, more from a
// cold disk).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "runtime/target.h"

namespace tilewright {

// A header NVRTC gets from memory. Both texts end in a zero byte and outlive the compilation; `name` is what #include says.
struct MemoryHeader {
  const char* name;
  const char* text;
};

struct CompileResult {
  std::string binary;       // cubin, or PTX text for a PTX target
  std::string log;          // warnings of NVRTC and ptxas; usually empty
  double milliseconds = 0;  // inside NVRTC
};

// Options of every compilation for this target, in order: what the store's key contains. A few that only make newer compilers faster are
// passed besides; they do not change the result.
std::vector<std::string> compile_options(const Target& target);

class Nvrtc {
 public:
  // Finds NVRTC: $TILEWRIGHT_NVRTC (a file) where set and not empty, else libnvrtc.so.13 or .12 in LD_LIBRARY_PATH, the loader's cache,
  // $CUDA_HOME and $CUDA_PATH (lib64, lib), /usr/local/cuda*, the system's directories, and last what dlopen finds by name.
  // Error kMissing names the file and every place looked at, or says that what was found is too old (12.0 is needed for C++20).
  static llvm::Expected<std::shared_ptr<Nvrtc>> find();

  const std::string& path() const { return path_; }
  // What tells this compiler from another, for keys: the build id in the library's file; "version M.N" when it has none. No path in it.
  const std::string& identity() const { return identity_; }

  // These load the library. Error kMissing when it cannot be loaded, lacks a function or is older than 12.0.
  llvm::Expected<std::string> version();                       // "13.0"
  llvm::Expected<std::vector<int>> supported_architectures();  // 80, 90, 100, ...

  // Compiles one translation unit. Thread-safe. `extra_options` follow the fixed ones (tests, experiments; not part of any key).
  // Error kCompileFailed: the log, and the lines of `source` around each error; kInvalidArgument: a target this NVRTC does not know (lists
  // what it supports); kMissing as above.
  llvm::Expected<CompileResult> compile(const std::string& source, const std::string& name, llvm::ArrayRef<MemoryHeader> headers,
                                        const Target& target, llvm::ArrayRef<std::string> extra_options = {});

 private:
  struct Functions;
  Nvrtc(std::string path, std::string identity);
  llvm::Expected<const Functions&> load();

  std::string path_, identity_;
  std::once_flag once_;
  std::shared_ptr<const Functions> functions_;  // null: load_error_ says why
  std::string load_error_;
};

}  // namespace tilewright
