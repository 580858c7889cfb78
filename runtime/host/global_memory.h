// The tensors that a kernel on the CPU may touch, each between fences, and which of their bytes have been written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "templates/tilewright/host/abi.h"

namespace tilewright {

enum class RegionKind : std::uint8_t { kInput, kOutput, kWorkspace };

struct RegionSpec {
  std::string name;
  RegionKind kind = RegionKind::kInput;
  std::uint64_t bytes = 0;
  std::uint32_t element_bytes = 1;
  llvm::SmallVector<std::int64_t, 6> shape;  // row-major, to name an element; empty: by its number alone
  std::uint32_t shift_bytes = 0;             // off the alignment of 256 bytes that memory of a device has
};

// One tensor. Pages on both sides are not accessible.
class Region {
 public:
  explicit Region(RegionSpec spec);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  const RegionSpec& spec() const { return spec_; }
  char* data() const { return data_; }
  bool valid() const { return mapping_ != nullptr; }  // false: out of memory

  // Bytes [offset, offset + bytes) count as written before the launch that comes.
  void mark_initialized();
  std::uint8_t* written() { return written_.data(); }
  // First element of which a byte was never written.
  std::optional<std::uint64_t> first_unwritten(std::uint64_t& count) const;
  // "x[1, 5]", or "x[4096], past its end (4096 elements)" for an offset outside.
  std::string element_text(std::int64_t offset) const;

 private:
  RegionSpec spec_;
  char* mapping_ = nullptr;
  std::uint64_t mapping_bytes_ = 0;
  char* data_ = nullptr;
  std::vector<std::uint8_t> written_;  // per byte: 0 never, 1 before, else the number of the launch that wrote
};

// Thread-safe for accesses; regions are added before a launch.
class GlobalMemory {
 public:
  static constexpr std::uint8_t kBefore = 1;

  // Null when the memory cannot be had.
  Region* add(RegionSpec spec);
  llvm::ArrayRef<std::unique_ptr<Region>> regions() const { return regions_; }
  // Tells the writes of the next launch from those before. sees_all: every access of it will be shown to check().
  void begin_launch(bool sees_all);
  // Whether no launch so far has made accesses that check() has not seen: only then is what it has not seen written unwritten.
  bool sees_all() const { return sees_all_; }

  // What is wrong with an access; nullopt when nothing is. A good write is noted. `outside`: the address belongs to nothing here.
  std::optional<std::string> check(std::uintptr_t address, std::uint64_t bytes, tw::host::Access kind, bool& outside);
  // The region next to an address, for messages.
  std::string nearest_text(std::uintptr_t address) const;

 private:
  std::vector<std::unique_ptr<Region>> regions_;
  std::uint8_t launch_ = kBefore;
  bool sees_all_ = true;
};

}  // namespace tilewright
