// The device templates inside the library, and the identity of the library itself. Both are written at build time by
// cmake/write_embedded.cmake.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tilewright {

// One file of templates/. Both strings have static lifetime, and a zero byte follows the last character of each.
struct EmbeddedFile {
  llvm::StringRef name;  // as generated source includes it: "tilewright/row.cuh"
  llvm::StringRef text;
};

// Every templates/tilewright/**/*.cuh, sorted by name in byte order. Thread-safe.
llvm::ArrayRef<EmbeddedFile> embedded_templates();

// Every templates/tilewright/host/*.h, likewise: what a host compiler needs besides.
llvm::ArrayRef<EmbeddedFile> embedded_host_headers();

// 64 hexadecimal digits: SHA-256 over the version and over name and content of every file of templates/tilewright, codegen,
// ops and runtime. Part of every store key, so that a kernel of other templates or another generator is never taken for
// ours. The same for every checkout, compiler, build type and time of the same sources.
llvm::StringRef build_identity();

}  // namespace tilewright
