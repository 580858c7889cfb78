// Where NVRTC is, found by looking at files alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

// The library to load: $TILEWRIGHT_NVRTC, or the first of the places Nvrtc::find lists that holds one.
// Error kMissing: names what was looked for and every place, and versions that are there but too old.
llvm::Expected<std::string> find_nvrtc_file();

// The GNU build id in the notes of an ELF file as hexadecimal digits; nullopt when it has none or cannot be read. Reads one page.
std::optional<std::string> elf_build_id(llvm::StringRef path);

// Path of a library in a glibc loader cache (ld.so.cache), "" when it is not in there or the cache is of another format.
std::string find_in_loader_cache(llvm::StringRef cache_path, llvm::StringRef library);

}  // namespace tilewright
