#include "runtime/host/shared_memory.h"

#include <sys/mman.h>

#include <cstring>

#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr std::uint64_t kFence = 1 << 20;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kNear = 1 << 16;  // further from a variable, an address is somebody else's

using Access = tw::host::Access;

bool is_write(Access kind) { return kind == Access::kWrite || kind == Access::kPackedWrite; }
bool is_packed(Access kind) { return kind == Access::kPackedRead || kind == Access::kPackedWrite; }

}  // namespace

SharedMemory::SharedMemory(const KernelObject& object, std::uint64_t dynamic_bytes) : variables_(object.shared_variables()) {
  if (!variables_.empty()) {
    areas_[0].begin = object.shared_block();
    if (areas_[0].begin == nullptr) return;
    for (const ThreadLocalSymbol& variable : variables_) areas_[0].bytes = std::max(areas_[0].bytes, variable.offset + variable.bytes);
  }
  const std::uint64_t inside = (dynamic_bytes + kPage) / kPage * kPage;
  mapping_bytes_ = inside + 2 * kFence;
  void* mapping = ::mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = static_cast<char*>(mapping);
  if (::mprotect(mapping_ + kFence, inside, PROT_READ | PROT_WRITE) != 0) return;
  areas_[1].begin = mapping_ + kFence;
  areas_[1].bytes = dynamic_bytes;
  for (Area& area : areas_) area.words.resize((area.bytes + 3) / 4);
  valid_ = true;
}

SharedMemory::~SharedMemory() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
}

void SharedMemory::reset() {
  ++block_;
  suspect_bytes_ = 0;
  for (const ThreadLocalSymbol& variable : variables_) std::memset(areas_[0].begin + variable.offset, 0xff, variable.bytes);
  std::memset(areas_[1].begin, 0xff, areas_[1].bytes);
}

const SharedMemory::Area* SharedMemory::area_of(std::uintptr_t address) const {
  const auto variables = reinterpret_cast<std::uintptr_t>(areas_[0].begin);
  if (variables != 0 && address - (variables - kNear) < areas_[0].bytes + 2 * kNear) return &areas_[0];
  if (address - reinterpret_cast<std::uintptr_t>(mapping_) < mapping_bytes_) return &areas_[1];
  return nullptr;
}

bool SharedMemory::covers(std::uintptr_t address) const { return area_of(address) != nullptr; }

SharedMemory::Word& SharedMemory::word_at(Area& area, std::uint64_t index) {
  Word& word = area.words[index];
  if (word.block != block_) {
    word = Word{};
    word.block = block_;
  }
  return word;
}

std::string SharedMemory::place_text(std::uintptr_t address) const {
  const Area& area = *area_of(address);
  const auto offset = static_cast<std::int64_t>(address - reinterpret_cast<std::uintptr_t>(area.begin));
  if (&area == &areas_[1]) return fmt::format("byte {} of dynamic shared memory ({} bytes)", offset, area.bytes);
  const ThreadLocalSymbol* nearest = &variables_.front();
  for (const ThreadLocalSymbol& variable : variables_) {
    if (static_cast<std::int64_t>(variable.offset) <= offset) nearest = &variable;
  }
  return fmt::format("byte {} of shared variable {} ({} bytes)", offset - static_cast<std::int64_t>(nearest->offset), nearest->name,
                     nearest->bytes);
}

std::optional<std::string> SharedMemory::bounds_fault(std::uintptr_t address, std::uint64_t bytes, const char* verb) const {
  const Area& area = *area_of(address);
  const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(area.begin);
  bool inside = false;
  if (&area == &areas_[1]) {
    inside = offset < area.bytes && bytes <= area.bytes - offset;
  } else {
    for (const ThreadLocalSymbol& variable : variables_)
      inside |= offset - variable.offset < variable.bytes && bytes <= variable.bytes - (offset - variable.offset);
  }
  if (inside) return std::nullopt;
  return fmt::format("out of bounds: {} of {} bytes at {}", verb, bytes, place_text(address));
}

Finding SharedMemory::race(std::uintptr_t address, const Mark& first, const char* first_verb, unsigned thread, const char* verb,
                           const void* where) const {
  Finding finding;
  finding.what = fmt::format("race at {}: {} by thread {} and {} by thread {} with no barrier between them", place_text(address),
                             first_verb, first.moment.thread, verb, thread);
  finding.places.push_back({fmt::format("{} by thread {}", first_verb, first.moment.thread), first.where});
  finding.places.push_back({fmt::format("{} by thread {}", verb, thread), where});
  return finding;
}

std::optional<Finding> SharedMemory::check(std::uintptr_t address, std::uint64_t bytes, Access kind, unsigned thread, const void* where,
                                           const HappensBefore& order) {
  const char* const verb = is_write(kind) ? "write" : kind == Access::kAtomic || kind == Access::kAtomicRead ? "atomic access" : "read";
  if (auto fault = bounds_fault(address, bytes, verb)) return Finding{std::move(*fault), {{"", where}}};
  if (!is_packed(kind) && (bytes & (bytes - 1)) == 0 && (address & (bytes - 1)) != 0) {
    return Finding{fmt::format("misaligned {} of {} bytes at {}, {} past a multiple of {}", verb, bytes, place_text(address),
                               address & (bytes - 1), bytes),
                   {{"", where}}};
  }
  if (kind == Access::kSlackRead) return std::nullopt;
  auto& area = const_cast<Area&>(*area_of(address));
  const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(area.begin);
  const bool atomic = kind == Access::kAtomic || kind == Access::kAtomicRead, writes = is_write(kind) || kind == Access::kAtomic;
  const Mark* conflict = nullptr;
  const char* conflict_verb = "";
  for (std::uint64_t at = offset; at < offset + bytes; at = at / 4 * 4 + 4) {
    Word& word = word_at(area, at / 4);
    const std::uint64_t end = std::min(offset + bytes, at / 4 * 4 + 4);
    const auto mask = static_cast<std::uint8_t>(((1u << (end - at)) - 1) << at % 4);
    // Of a packed object's words those that are padding need not have been written.
    if (!is_write(kind) && (is_packed(kind) ? word.written == 0 && bytes <= 4 : (word.written & mask) != mask))
      return Finding{fmt::format("{} of {} bytes at {}, which nobody has written", verb, bytes, place_text(address)), {{"", where}}};
    const auto conflicts = [&](const Mark& mark) {
      return (mark.bytes & mask) != 0 && !(atomic && mark.atomic) && !order.ordered(mark.moment, thread);
    };
    if (conflicts(word.write)) conflict = &word.write, conflict_verb = word.write.atomic ? "atomic access" : "write";
    if (writes && conflicts(word.read)) conflict = &word.read, conflict_verb = "read";
    if (writes && conflicts(word.other_read)) conflict = &word.other_read, conflict_verb = "read";
    if (conflict != nullptr) {
      Finding finding = race(address, *conflict, conflict_verb, thread, verb, where);
      if (!is_write(kind) || bytes > suspect_old_.size()) return finding;
      suspect_ = address;
      suspect_bytes_ = bytes;
      std::memcpy(suspect_old_.data(), reinterpret_cast<const void*>(address), bytes);
      suspect_finding_ = std::move(finding);
      conflict = nullptr;
    }
    const Mark mark{order.now(thread), mask, atomic, where};
    if (writes) {
      word.write = mark;
      word.written |= mask;
    } else if (word.read.bytes == 0 || order.ordered(word.read.moment, thread)) {
      word.read = mark;
    } else {
      word.other_read = mark;
    }
  }
  return std::nullopt;
}

std::optional<Finding> SharedMemory::settle_suspect() {
  const std::uint64_t bytes = suspect_bytes_;
  suspect_bytes_ = 0;
  if (std::memcmp(suspect_old_.data(), reinterpret_cast<const void*>(suspect_), bytes) == 0) return std::nullopt;
  return std::move(suspect_finding_);
}

}  // namespace tilewright
