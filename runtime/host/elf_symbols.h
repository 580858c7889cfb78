// Thread-local variables of a shared object: what `__shared__` variables of a kernel become on the CPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

struct ThreadLocalSymbol {
  std::string name;          // as the source spells it: "shared" of tw::row_detail::softmax<...>(...)::shared
  std::uint64_t offset = 0;  // from the start of the object's thread-local block
  std::uint64_t bytes = 0;
};

// Sorted by offset; only what has a size. Error kCorrupt: not a 64-bit little-endian ELF file with a symbol table.
llvm::Expected<std::vector<ThreadLocalSymbol>> thread_local_symbols(llvm::StringRef elf);

}  // namespace tilewright
