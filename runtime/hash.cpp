#include "runtime/hash.h"

#include "llvm/ADT/StringExtras.h"

namespace tilewright {

Digest blake3(llvm::StringRef bytes) {
  llvm::BLAKE3 hasher;
  hasher.update(bytes);
  return hasher.final<32>();
}

std::string digest_hex(const Digest& digest) { return llvm::toHex(llvm::ArrayRef<std::uint8_t>(digest), /*LowerCase=*/true); }

void KeyHasher::add_piece(llvm::StringRef bytes) {
  std::array<std::uint8_t, 8> length;
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<std::uint8_t>(std::uint64_t{bytes.size()} >> (8 * i));
  hasher_.update(llvm::ArrayRef<std::uint8_t>(length));
  hasher_.update(bytes);
}

void KeyHasher::add(llvm::StringRef label, llvm::StringRef value) {
  add_piece(label);
  add_piece(value);
}

std::string KeyHasher::hex() { return digest_hex(hasher_.final<32>()); }

}  // namespace tilewright
