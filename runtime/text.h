// Texts for people.
#pragma once

#include <cstdint>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "runtime/error.h"

namespace tilewright {

// "1 kernel", "3 kernels"
inline std::string count_text(std::uint64_t count, llvm::StringRef noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tilewright
