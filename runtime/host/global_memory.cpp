#include "runtime/host/global_memory.h"

#include <sys/mman.h>

#include <cstring>

#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFence = 1 << 20;  // address space alone: pages are never touched

using Access = tw::host::Access;

bool is_write(Access kind) {
  return kind == Access::kWrite || kind == Access::kPackedWrite || kind == Access::kAsyncWrite || kind == Access::kAtomicWrite;
}
bool is_packed(Access kind) {
  return kind == Access::kPackedRead || kind == Access::kPackedWrite || kind == Access::kAsyncRead || kind == Access::kAsyncWrite;
}

llvm::StringRef kind_text(RegionKind kind) {
  switch (kind) {
    case RegionKind::kInput:
      return "input";
    case RegionKind::kOutput:
      return "output";
    case RegionKind::kWorkspace:
      return "workspace";
  }
  return "";
}

}  // namespace

Region::Region(RegionSpec spec) : spec_(std::move(spec)) {
  const std::uint64_t inside = (spec_.bytes + spec_.shift_bytes + kPage) / kPage * kPage;
  mapping_bytes_ = inside + 2 * kFence;
  void* mapping = ::mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = static_cast<char*>(mapping);
  if (::mprotect(mapping_ + kFence, inside, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(mapping_, mapping_bytes_);
    mapping_ = nullptr;
    return;
  }
  data_ = mapping_ + kFence + spec_.shift_bytes;
  written_.assign(spec_.bytes, 0);
  // What is never written is NaN and absurd integers.
  std::memset(data_, 0xff, spec_.bytes);
}

Region::~Region() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
}

void Region::mark_initialized() { std::fill(written_.begin(), written_.end(), GlobalMemory::kBefore); }

std::optional<std::uint64_t> Region::first_unwritten(std::uint64_t& count) const {
  std::optional<std::uint64_t> first;
  count = 0;
  for (std::uint64_t element = 0; element < spec_.bytes / spec_.element_bytes; ++element) {
    if (std::memchr(written_.data() + element * spec_.element_bytes, 0, spec_.element_bytes) == nullptr) continue;
    if (!first) first = element;
    ++count;
  }
  return first;
}

std::string Region::element_text(std::int64_t offset) const {
  const auto size = static_cast<std::int64_t>(spec_.element_bytes);
  const std::int64_t element = offset >= 0 ? offset / size : -((-offset + size - 1) / size);
  const auto elements = static_cast<std::int64_t>(spec_.bytes) / size;
  if (element < 0) return fmt::format("{}[{}], before its start", spec_.name, element);
  if (element >= elements) return fmt::format("{}[{}], past its end ({} elements)", spec_.name, element, elements);
  llvm::SmallVector<std::int64_t, 6> place(spec_.shape.size());
  std::int64_t rest = element, product = 1;
  for (std::int64_t size_of_dim : spec_.shape) product *= size_of_dim;
  if (spec_.shape.empty() || product != elements) return fmt::format("{}[{}]", spec_.name, element);
  for (std::size_t d = place.size(); d-- > 0;) {
    place[d] = rest % spec_.shape[d];
    rest /= spec_.shape[d];
  }
  return fmt::format("{}[{}]", spec_.name, fmt::join(place, ", "));
}

Region* GlobalMemory::add(RegionSpec spec) {
  auto region = std::make_unique<Region>(std::move(spec));
  if (!region->valid()) return nullptr;
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

void GlobalMemory::begin_launch(bool sees_all) {
  launch_ = launch_ == 255 ? 2 : static_cast<std::uint8_t>(launch_ + 1);
  sees_all_ = sees_all_ && sees_all;
}

std::optional<std::string> GlobalMemory::check(std::uintptr_t address, std::uint64_t bytes, Access kind, bool& outside) {
  outside = false;
  for (const auto& region : regions_) {
    const RegionSpec& spec = region->spec();
    const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(region->data());
    if (offset >= spec.bytes) continue;
    const auto place = [&] { return region->element_text(static_cast<std::int64_t>(offset)); };
    if (bytes > spec.bytes - offset)
      return fmt::format("{} of {} bytes at {} reaches past the end of the {} ({} bytes)", is_write(kind) ? "write" : "read", bytes,
                         place(), kind_text(spec.kind), spec.bytes);
    if (!is_packed(kind) && (bytes & (bytes - 1)) == 0 && (address & (bytes - 1)) != 0)
      return fmt::format("misaligned {} of {} bytes at {}, whose address is {} past a multiple of {}", is_write(kind) ? "write" : "read",
                         bytes, place(), address & (bytes - 1), bytes);
    std::uint8_t* const written = region->written() + offset;
    if (is_write(kind) || kind == Access::kAtomic) {
      if (spec.kind == RegionKind::kInput) return fmt::format("write to {}, which is an input", place());
    }
    if (is_write(kind)) {
      std::memset(written, launch_, bytes);
      return std::nullopt;
    }
    if (sees_all_ && kind != Access::kSlackRead && std::memchr(written, 0, bytes) != nullptr)
      return fmt::format("read of {} bytes at {}, which nobody has written", bytes, place());
    if (kind == Access::kConstantRead && spec.kind != RegionKind::kInput && std::memchr(written, launch_, bytes) != nullptr)
      return fmt::format("ld.global.nc of {}, which the same launch writes", place());
    if (kind == Access::kAtomic) std::memset(written, launch_, bytes);
    return std::nullopt;
  }
  outside = true;
  return std::nullopt;
}

std::string GlobalMemory::nearest_text(std::uintptr_t address) const {
  const Region* nearest = nullptr;
  std::uint64_t least = UINT64_MAX;
  for (const auto& region : regions_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(region->data());
    const std::uint64_t distance = address < begin ? begin - address : address - begin - region->spec().bytes;
    if (distance < least) least = distance, nearest = region.get();
  }
  if (nearest == nullptr) return "memory of nobody";
  // Far away from everything an element's number would only confuse.
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
  if (least > kFar) return fmt::format("memory of nobody ({} is {} bytes away)", nearest->spec().name, least);
  return nearest->element_text(static_cast<std::int64_t>(address - reinterpret_cast<std::uintptr_t>(nearest->data())));
}

}  // namespace tilewright
