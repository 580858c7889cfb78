#include "runtime/host/fiber_stacks.h"

#include <sys/mman.h>

namespace tilewright {
namespace {

constexpr std::uint64_t kGuard = 4096;

}  // namespace

FiberStacks::FiberStacks(unsigned count, std::uint64_t bytes) : count_(count), bytes_(bytes), stride_(bytes + kGuard) {
  void* mapping = ::mmap(nullptr, count_ * stride_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = static_cast<char*>(mapping);
  for (unsigned i = 0; i < count_; ++i) ::mprotect(mapping_ + i * stride_, kGuard, PROT_NONE);
}

FiberStacks::~FiberStacks() {
  if (mapping_ != nullptr) ::munmap(mapping_, count_ * stride_);
}

char* FiberStacks::low(unsigned index) const { return mapping_ + index * stride_ + kGuard; }

int FiberStacks::owner(std::uintptr_t address) const {
  const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(mapping_);
  if (offset >= count_ * stride_) return -1;
  return static_cast<int>(offset / stride_);
}

}  // namespace tilewright
