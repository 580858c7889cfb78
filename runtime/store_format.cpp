// The bytes of a store entry's file.
#include <algorithm>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "runtime/error.h"
#include "runtime/hash.h"
#include "runtime/store.h"

namespace tilewright {
namespace {

constexpr llvm::StringLiteral kMagic = "TWKERNEL";
constexpr std::uint32_t kFlagPtx = 1;
constexpr std::size_t kKeyAt = 16, kSizesAt = 48, kHeaderBytes = 72, kChecksumBytes = 32;

template <typename Integer>
void append(std::string& out, Integer value) {
  std::array<char, sizeof(Integer)> bytes;
  llvm::support::endian::write<Integer, llvm::endianness::little>(bytes.data(), value);
  out.append(bytes.data(), bytes.size());
}

template <typename Integer>
Integer read(llvm::StringRef bytes, std::size_t offset) {
  return llvm::support::endian::read<Integer, llvm::endianness::little>(bytes.data() + offset);
}

llvm::Error corrupt(llvm::StringRef what) { return make_error(Status::kCorrupt, "store entry: {}", what); }

llvm::StringRef text_of(const Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

}  // namespace

llvm::StringRef origin_name(Origin origin) {
  switch (origin) {
    case Origin::kMemory:
      return "memory";
    case Origin::kDirectory:
      return "directory";
    case Origin::kLayer:
      return "layer";
    case Origin::kCompiled:
      return "compiled";
  }
  return "unknown";
}

std::string encode_entry(const StoreEntry& entry) {
  std::string out;
  out.reserve(kHeaderBytes + entry.bytes() + kChecksumBytes);
  out += kMagic;
  append<std::uint32_t>(out, kStoreFormatVersion);
  append<std::uint32_t>(out, entry.is_ptx ? kFlagPtx : 0);
  std::string key;
  if (!llvm::tryGetFromHex(entry.key, key)) key.clear();
  key.resize(32);
  out += key;
  append<std::uint64_t>(out, entry.provenance.size());
  append<std::uint64_t>(out, entry.source.size());
  append<std::uint64_t>(out, entry.binary.size());
  out += entry.provenance;
  out += entry.source;
  out += entry.binary;
  out += text_of(blake3(out));
  return out;
}

llvm::Expected<StoreEntry> decode_entry(llvm::StringRef bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes) return corrupt("too short");
  if (!bytes.starts_with(kMagic)) return corrupt("not one (first bytes differ)");
  if (const auto version = read<std::uint32_t>(bytes, 8); version != kStoreFormatVersion) {
    return corrupt(fmt::format("format version {}, this library reads {}", version, kStoreFormatVersion));
  }
  const std::uint64_t payload = bytes.size() - kHeaderBytes - kChecksumBytes;
  std::array<std::uint64_t, 3> sizes;
  std::uint64_t left = payload;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = read<std::uint64_t>(bytes, kSizesAt + 8 * i);
    if (sizes[i] > left) return corrupt("truncated");
    left -= sizes[i];
  }
  if (left != 0) return corrupt("longer than its header says");
  if (text_of(blake3(bytes.drop_back(kChecksumBytes))) != bytes.take_back(kChecksumBytes)) return corrupt("checksum differs");
  StoreEntry entry;
  entry.key = llvm::toHex(bytes.substr(kKeyAt, 32), /*LowerCase=*/true);
  entry.is_ptx = (read<std::uint32_t>(bytes, 12) & kFlagPtx) != 0;
  entry.provenance = bytes.substr(kHeaderBytes, sizes[0]).str();
  entry.source = bytes.substr(kHeaderBytes + sizes[0], sizes[1]).str();
  entry.binary = bytes.substr(kHeaderBytes + sizes[0] + sizes[1], sizes[2]).str();
  return entry;
}

}  // namespace tilewright
