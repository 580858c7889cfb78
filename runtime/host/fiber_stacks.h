// Stacks for the fibers of a block, each below a page that must not be touched.
#pragma once

#include <cstdint>

namespace tilewright {

class FiberStacks {
 public:
  FiberStacks(unsigned count, std::uint64_t bytes);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  bool valid() const { return mapping_ != nullptr; }
  std::uint64_t bytes() const { return bytes_; }
  // Lowest address of a stack, and the end it grows from.
  char* low(unsigned index) const;
  char* top(unsigned index) const { return low(index) + bytes_; }
  // Whose stack an address lies in; -1: nobody's.
  int owner(std::uintptr_t address) const;

 private:
  unsigned count_;
  std::uint64_t bytes_, stride_;
  char* mapping_ = nullptr;
};

}  // namespace tilewright
