// A kernel's shared object loaded into this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "runtime/files.h"
#include "runtime/host/elf_symbols.h"
#include "templates/tilewright/host/abi.h"

namespace tilewright {

// Runs of code behind an address: innermost first, "tilewright/row.cuh:253 in merge_softmax".
using CodeLines = std::vector<std::string>;

// Thread-safe after loading. Everything it hands out lives as long as it does.
class KernelObject {
 public:
  // `bytes` is what the compiler made; they are written to a private temporary directory, removed with this object.
  // Error kIo: no temporary directory; kCorrupt: the loader refuses it, or it is not a kernel's object of this version.
  static llvm::Expected<std::unique_ptr<KernelObject>> load(llvm::StringRef bytes);
  ~KernelObject();
  KernelObject(const KernelObject&) = delete;
  KernelObject& operator=(const KernelObject&) = delete;

  void bind(const tw::host::Executor& table) const { bind_(&table); }
  void run_thread(const void* const* parameters) const { entry_(parameters); }

  // `__shared__` variables, and where the calling OS thread's copy of them begins (null when there are none).
  const std::vector<ThreadLocalSymbol>& shared_variables() const { return shared_variables_; }
  char* shared_block() const;
  // Whether its plain accesses to memory are shown to the executor, and not only those of primitives.
  bool instrumented() const { return instrumented_; }
  // Whether an address lies in the object's code or constants.
  bool contains(const void* address) const { return reinterpret_cast<std::uintptr_t>(address) - image_begin_ < image_bytes_; }
  // By addr2line or llvm-symbolizer; symbol and offset where neither is installed.
  CodeLines code_lines(const void* address) const;

 private:
  KernelObject() = default;
  llvm::Error open(llvm::StringRef bytes);

  TemporaryDirectory directory_;
  std::string path_;
  void* handle_ = nullptr;
  void (*bind_)(const tw::host::Executor*) = nullptr;
  void (*entry_)(const void* const*) = nullptr;
  std::vector<ThreadLocalSymbol> shared_variables_;
  bool instrumented_ = false;
  std::uintptr_t load_bias_ = 0, image_begin_ = 0, image_bytes_ = 0;
};

}  // namespace tilewright
