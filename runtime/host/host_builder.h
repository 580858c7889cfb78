// From source to a kernel for the CPU: from the store, or compiled and kept there under a key of its own.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/host/host_compiler.h"
#include "runtime/host/kernel_object.h"
#include "runtime/store.h"

namespace tilewright {

struct HostArtifact {
  std::string key, entry, source;
  std::string object;  // bytes of the shared object
  Origin origin = Origin::kCompiled;
  double compile_ms = 0;  // of the compilation, 0 when it comes from the store
};

// Thread-safe.
class HostBuilder {
 public:
  // `options` as for a Builder, with the host's headers besides.
  HostBuilder(std::shared_ptr<Store> store, BuilderOptions options) : store_(std::move(store)), options_(std::move(options)) {}

  // The compiler, found on first use. Error kMissing.
  llvm::Expected<HostCompiler> compiler();
  // Key: format, build, source, options, "host", compiler. Errors of HostCompiler::compile, with the path of the source kept for reading.
  llvm::Expected<std::shared_ptr<const HostArtifact>> get(const KernelSource& source, llvm::StringRef sanitize);
  // All of them, on up to `threads` threads (0: one per core); the first error in order, if any.
  llvm::Expected<std::vector<std::shared_ptr<const HostArtifact>>> get_all(llvm::ArrayRef<KernelSource> sources, llvm::StringRef sanitize,
                                                                           unsigned threads = 0);

 private:
  std::shared_ptr<Store> store_;
  BuilderOptions options_;
  std::mutex mutex_;
  std::optional<HostCompiler> compiler_;
};

}  // namespace tilewright
