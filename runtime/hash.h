// BLAKE3 of labelled pieces: keys of the store and checksums of its files.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/BLAKE3.h"

namespace tilewright {

using Digest = std::array<std::uint8_t, 32>;

// BLAKE3 of plain bytes.
Digest blake3(llvm::StringRef bytes);

// Lower-case hexadecimal, 64 digits.
std::string digest_hex(const Digest& digest);

// Hashes a sequence of (label, value) pairs so that no two different sequences feed the same bytes: each piece is preceded by its length.
class KeyHasher {
 public:
  void add(llvm::StringRef label, llvm::StringRef value);
  std::string hex();  // 64 digits; add() afterwards continues

 private:
  void add_piece(llvm::StringRef bytes);
  llvm::BLAKE3 hasher_;
};

}  // namespace tilewright
