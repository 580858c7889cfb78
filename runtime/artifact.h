// From source to a kernel ready to load: look it up, or compile and keep it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/module.h"
#include "runtime/nvrtc.h"
#include "runtime/store.h"
#include "runtime/target.h"

namespace tilewright {

// One translation unit with one kernel.
struct KernelSource {
  std::string entry;  // its extern "C" name
  std::string text;
  std::string provenance;  // JSON object of the caller's (description, config, signature), kept with the entry, not part of the key
};

struct Artifact {
  std::string key;  // 64 hexadecimal digits
  std::string entry;
  Target target;
  std::string binary;  // cubin, or PTX when target.ptx
  std::string source;
  std::string provenance;  // JSON object, as in the store
  std::string log;         // warnings of the compilation
  CubinFacts facts;        // all zero for PTX
  Origin origin = Origin::kCompiled;
  double compile_ms = 0;  // of the compilation, also when it happened long ago
};

struct BuilderOptions {
  llvm::ArrayRef<MemoryHeader> headers;  // must outlive the builder
  std::string build_identity;            // hash over all templates and the generator: part of the key
  std::string library_version;           // for provenance alone
};

// What an artifact's key is made of, by name in the order hashed; `explain` compares them.
struct KeyIngredient {
  std::string name;  // "format", "build", "source", "options", "target", "nvrtc"
  std::string value;
};

// Thread-safe. One builder serves any number of threads; two that want the same kernel share one compilation, and so do two processes.
class Builder {
 public:
  Builder(std::shared_ptr<Store> store, BuilderOptions options);
  ~Builder();

  struct GetOptions {
    bool may_compile = true;  // false (stream capture): a miss is the error kCompileInCapture
  };
  // Without NVRTC a kernel that any compiler made for this store is found all the same.
  // Error kMissing: not stored and no NVRTC; kCompileFailed (with the path of the source, kept in the store's directory); kInvalidArgument
  // (target unknown to NVRTC); kCompileInCapture.
  llvm::Expected<std::shared_ptr<const Artifact>> get(const KernelSource& source, const Target& target) {
    return get(source, target, GetOptions());
  }
  llvm::Expected<std::shared_ptr<const Artifact>> get(const KernelSource& source, const Target& target, const GetOptions& options);
  // All of them, on up to `threads` threads (0: one per core); the first error in order, if any.
  llvm::Expected<std::vector<std::shared_ptr<const Artifact>>> get_all(llvm::ArrayRef<KernelSource> sources, const Target& target,
                                                                       unsigned threads = 0);

  // Key of a kernel and what it was made from. Error kMissing without NVRTC (its identity is in the key).
  llvm::Expected<std::string> key(const KernelSource& source, const Target& target);
  llvm::Expected<std::vector<KeyIngredient>> key_ingredients(const KernelSource& source, const Target& target);

  // The compiler, found at the first call.
  llvm::Expected<std::shared_ptr<Nvrtc>> nvrtc();
  // Loads the compiler on a thread of its own and has it compile an empty kernel: the 15 to 20 ms that the first compilation of a process
  // takes more pass while the caller initialises the driver, say. Whatever goes wrong shows when a kernel is compiled.
  void prepare_compiler();
  Store& store() { return *store_; }

 private:
  struct Flight;
  class Landing;
  using ArtifactPtr = std::shared_ptr<const Artifact>;
  std::vector<KeyIngredient> ingredients(const KernelSource& source, const Target& target, llvm::StringRef compiler) const;
  llvm::Expected<ArtifactPtr> get_by_key(const KernelSource& source, const Target& target, const std::string& key, bool may_compile);
  llvm::Expected<ArtifactPtr> get_without_compiler(const KernelSource& source, const Target& target, llvm::Error missing);
  llvm::Expected<ArtifactPtr> look_up_or_compile(const KernelSource& source, const Target& target, const std::string& key,
                                                 bool may_compile);
  llvm::Expected<ArtifactPtr> compile(const KernelSource& source, const Target& target, const std::string& key);

  std::shared_ptr<Store> store_;
  BuilderOptions options_;
  std::mutex mutex_;  // guards the rest
  std::shared_ptr<Nvrtc> nvrtc_;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights_;
  std::thread preparation_;  // joined in the destructor
};

}  // namespace tilewright
