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

bool is_write(Access kind) {
  return kind == Access::kWrite || kind == Access::kAtomicWrite || kind == Access::kPackedWrite || kind == Access::kAsyncWrite ||
         kind == Access::kBarrierInit || kind == Access::kBarrierInval;
}
bool is_packed(Access kind) { return kind == Access::kPackedRead || kind == Access::kPackedWrite; }
bool is_barrier(Access kind) { return kind >= Access::kBarrierInit; }
bool is_async(Access kind) { return kind == Access::kAsyncRead || kind == Access::kAsyncWrite; }
bool is_atomic(Access kind) {
  return kind == Access::kAtomic || kind == Access::kAtomicRead || kind == Access::kAtomicWrite || kind == Access::kBarrier ||
         kind == Access::kBarrierAsync;
}

}  // namespace

SharedMemory::SharedMemory(const KernelObject& object, std::uint64_t dynamic_bytes)
    : variables_(object.shared_variables()), sees_all_(object.instrumented()) {
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
  unfenced_.clear();
  for (const ThreadLocalSymbol& variable : variables_) std::memset(areas_[0].begin + variable.offset, 0xff, variable.bytes);
  std::memset(areas_[1].begin, 0xff, areas_[1].bytes);
}

void SharedMemory::save_variables() {
  saved_.resize(areas_[0].bytes);
  for (const ThreadLocalSymbol& variable : variables_)
    std::memcpy(saved_.data() + variable.offset, areas_[0].begin + variable.offset, variable.bytes);
}

void SharedMemory::restore_variables() {
  for (const ThreadLocalSymbol& variable : variables_)
    std::memcpy(areas_[0].begin + variable.offset, saved_.data() + variable.offset, variable.bytes);
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
                           const void* where, const HappensBefore& order) const {
  const std::string first_text =
      first.moment.thread == order.copies() ? "write by a copy" : fmt::format("{} by thread {}", first_verb, first.moment.thread);
  Finding finding;
  finding.what =
      fmt::format("race at {}: {} and {} by thread {} with no barrier between them", place_text(address), first_text, verb, thread);
  finding.places.push_back({first_text, first.where});
  finding.places.push_back({fmt::format("{} by thread {}", verb, thread), where});
  return finding;
}

std::optional<Finding> SharedMemory::check(std::uintptr_t address, std::uint64_t bytes, Access kind, unsigned thread, const void* where,
                                           const HappensBefore& order) {
  const char* const verb = is_barrier(kind) ? "mbarrier operation" : is_write(kind) ? "write" : is_atomic(kind) ? "atomic access" : "read";
  if (auto fault = bounds_fault(address, bytes, verb)) return Finding{std::move(*fault), {{"", where}}};
  if (!is_packed(kind) && !is_async(kind) && (bytes & (bytes - 1)) == 0 && (address & (bytes - 1)) != 0) {
    return Finding{fmt::format("misaligned {} of {} bytes at {}, {} past a multiple of {}", verb, bytes, place_text(address),
                               address & (bytes - 1), bytes),
                   {{"", where}}};
  }
  if (kind == Access::kSlackRead) return std::nullopt;
  auto& area = const_cast<Area&>(*area_of(address));
  const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(area.begin);
  const bool atomic = is_atomic(kind), writes = is_write(kind) || (atomic && kind != Access::kAtomicRead);
  const Mark* conflict = nullptr;
  const char* conflict_verb = "";
  for (std::uint64_t at = offset; at < offset + bytes; at = at / 4 * 4 + 4) {
    Word& word = word_at(area, at / 4);
    const std::uint64_t end = std::min(offset + bytes, at / 4 * 4 + 4);
    const auto mask = static_cast<std::uint8_t>(((1u << (end - at)) - 1) << at % 4);
    if (auto fault = state_fault(word, address, bytes, kind, verb, where)) return fault;
    // Of a packed object's words those that are padding need not have been written.
    if (sees_all_ && !is_write(kind) && (is_packed(kind) ? word.written == 0 && bytes <= 4 : (word.written & mask) != mask))
      return Finding{fmt::format("{} of {} bytes at {}, which nobody has written", verb, bytes, place_text(address)), {{"", where}}};
    const auto conflicts = [&](const Mark& mark) {
      return (mark.bytes & mask) != 0 && !(atomic && mark.atomic) && !order.ordered(mark.moment, thread);
    };
    if (conflicts(word.write)) conflict = &word.write, conflict_verb = word.write.atomic ? "atomic access" : "write";
    if (writes && conflicts(word.read)) conflict = &word.read, conflict_verb = "read";
    if (writes && conflicts(word.other_read)) conflict = &word.other_read, conflict_verb = "read";
    if (conflict != nullptr) {
      Finding finding = race(address, *conflict, conflict_verb, thread, verb, where, order);
      if (!is_write(kind) || is_async(kind) || is_barrier(kind) || bytes > suspect_old_.size()) return finding;
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
      if (is_barrier(kind)) word.barrier = kind != Access::kBarrierInval;
      if (is_write(kind) && kind != Access::kAsyncWrite) note_unfenced(word);
    } else if (word.read.bytes == 0 || order.ordered(word.read.moment, thread)) {
      word.read = mark;
    } else {
      word.other_read = mark;
    }
  }
  return std::nullopt;
}

// What forbids an access whoever makes it: a copy in flight, an mbarrier, a fence that is missing.
std::optional<Finding> SharedMemory::state_fault(const Word& word, std::uintptr_t address, std::uint64_t bytes, Access kind,
                                                 const char* verb, const void* where) const {
  const auto finding = [&](std::string what, const Finding::Place& other) {
    return Finding{fmt::format("{} of {} bytes at {}, {}", verb, bytes, place_text(address), what), {{verb, where}, other}};
  };
  if (word.flights_in > 0)
    return finding(fmt::format("which {} in flight writes: no wait has seen its end", word.flight), {word.flight, word.flight_where});
  if (word.flights_out > 0 && is_write(kind))
    return finding(fmt::format("which {} in flight reads: no wait has seen its end", word.flight), {word.flight, word.flight_where});
  if (is_barrier(kind) != word.barrier) {
    if (kind == Access::kBarrierInit) return std::nullopt;
    return finding(word.barrier ? "which is an mbarrier" : "where no mbarrier has been initialised", {"", nullptr});
  }
  if (kind == Access::kBarrierInit) return finding("which is an mbarrier already", {"", nullptr});
  if (word.unfenced && kind == Access::kAsyncRead) return finding("written without a fence.proxy.async since", {"write", word.write.where});
  if (word.unfenced && kind == Access::kBarrierAsync)
    return finding("initialised without a fence.mbarrier_init or fence.proxy.async since", {"initialised", word.write.where});
  return std::nullopt;
}

template <typename Each>
void SharedMemory::for_words(std::uintptr_t address, std::uint64_t bytes, Each each) {
  const Area* const found = area_of(address);
  if (found == nullptr) return;
  auto& area = const_cast<Area&>(*found);
  const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(area.begin);
  for (std::uint64_t at = offset; at < offset + bytes && at < area.bytes; at = at / 4 * 4 + 4) {
    const std::uint64_t end = std::min(offset + bytes, at / 4 * 4 + 4);
    each(word_at(area, at / 4), static_cast<std::uint8_t>(((1u << (end - at)) - 1) << at % 4));
  }
}

void SharedMemory::note_unfenced(Word& word) {
  if (word.unfenced) return;
  word.unfenced = true;
  unfenced_.push_back(&word);
}

void SharedMemory::begin_flight(std::uintptr_t address, std::uint64_t bytes, bool writes, const char* name, const void* where) {
  for_words(address, bytes, [&](Word& word, std::uint8_t) {
    ++(writes ? word.flights_in : word.flights_out);
    word.flight = name;
    word.flight_where = where;
  });
}

void SharedMemory::end_flight(std::uintptr_t address, std::uint64_t bytes, bool writes, bool async_proxy, unsigned thread,
                              const void* where, const HappensBefore& order) {
  for_words(address, bytes, [&](Word& word, std::uint8_t mask) {
    const Mark mark{order.now(thread), mask, false, where};
    if (!writes) {
      if (word.flights_out > 0) --word.flights_out;
      (word.read.bytes == 0 || order.ordered(word.read.moment, thread) ? word.read : word.other_read) = mark;
      return;
    }
    if (word.flights_in > 0) --word.flights_in;
    word.write = mark;
    word.written |= mask;
    if (!async_proxy) note_unfenced(word);
  });
}

void SharedMemory::fence_proxy(bool only_barriers, unsigned thread, const HappensBefore& order) {
  std::erase_if(unfenced_, [&](Word* word) {
    if ((only_barriers && !word->barrier) || !order.ordered(word->write.moment, thread)) return false;
    word->unfenced = false;
    return true;
  });
}

std::optional<Finding> SharedMemory::settle_suspect() {
  const std::uint64_t bytes = suspect_bytes_;
  suspect_bytes_ = 0;
  if (std::memcmp(suspect_old_.data(), reinterpret_cast<const void*>(suspect_), bytes) == 0) return std::nullopt;
  return std::move(suspect_finding_);
}

}  // namespace tilewright
