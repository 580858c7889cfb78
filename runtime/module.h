// A compiled kernel as the driver and the tools see it: facts read from the file itself, and loading it into a context.
#pragma once

#include <cstdint>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "runtime/device.h"
#include "runtime/driver.h"

namespace tilewright {

// What one kernel of a cubin uses. Read from the ELF file: needs neither a GPU nor a tool of the toolkit.
struct CubinFacts {
  std::uint32_t registers = 0;            // per thread
  std::uint32_t static_shared_bytes = 0;  // per block, beside the launch's dynamic bytes; without the 1 KiB the system reserves
  std::uint32_t local_bytes = 0;          // stack frame per thread: arrays in local memory and spills; 0 for a good kernel
  std::uint32_t constant_bytes = 0;       // bank 0: the system's launch block and the parameters
  std::uint32_t parameter_bytes = 0;
  std::uint32_t code_bytes = 0;
  std::uint32_t max_threads = 0;  // from __launch_bounds__; 0 = not stated
};

// Facts of kernel `entry`. Error kCorrupt: not a cubin, or damaged (every offset is checked); kInvalidArgument: no such kernel (names those
// present).
llvm::Expected<CubinFacts> read_cubin_facts(llvm::StringRef cubin, llvm::StringRef entry);

// A loaded module; unloads itself in the context it was loaded in, if that still exists.
class Module {
 public:
  // Loads a cubin, or PTX (null-terminated as std::string is), into the current context. `what` names it in errors.
  // Error kDriver: with the JIT's log for PTX; kUnsupported: made for another architecture than the current device.
  static llvm::Expected<Module> load(const Driver& driver, const std::string& image, llvm::StringRef what);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();
  // Also makes the driver load the function now: with lazy loading the first launch would otherwise do it, which is not capture-safe.
  llvm::Expected<CUfunction> function(llvm::StringRef name) const;

 private:
  Module(const Driver& driver, CUmodule module, CUcontext context, std::uint64_t context_id)
      : driver_(&driver), module_(module), context_(context), context_id_(context_id) {}
  const Driver* driver_;
  CUmodule module_;
  CUcontext context_;
  std::uint64_t context_id_;  // another context may come to have the address of a destroyed one
};

}  // namespace tilewright
