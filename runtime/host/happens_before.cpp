#include "runtime/host/happens_before.h"

#include <algorithm>

namespace tilewright {

void HappensBefore::reset() {
  ++epoch_;
  objects_.clear();
}

void HappensBefore::absorb(Known& known, const Clocks& clocks) {
  if (known.epoch != epoch_) {
    known.epoch = epoch_;
    known.clocks.assign(clocks_.size(), 0);
  }
  for (std::size_t i = 0; i < clocks.size(); ++i) known.clocks[i] = std::max(known.clocks[i], clocks[i]);
}

// What `thread` knows, itself included; its next moments are not part of that.
void HappensBefore::gather(unsigned thread, Clocks& into) {
  const Known& known = known_[thread];
  if (known.epoch == epoch_) {
    for (std::size_t i = 0; i < known.clocks.size(); ++i) into[i] = std::max(into[i], known.clocks[i]);
  }
  into[thread] = std::max(into[thread], clocks_[thread]);
  ++clocks_[thread];
}

void HappensBefore::join(llvm::ArrayRef<std::uint16_t> arrived, llvm::ArrayRef<std::uint16_t> waiting) {
  Clocks all(clocks_.size(), 0);
  for (const std::uint16_t thread : arrived) gather(thread, all);
  for (const std::uint16_t thread : waiting) absorb(known_[thread], all);
}

void HappensBefore::release(const void* object, unsigned thread) {
  Clocks all(clocks_.size(), 0);
  gather(thread, all);
  absorb(objects_[object], all);
}

void HappensBefore::acquire(const void* object, unsigned thread) {
  const auto found = objects_.find(object);
  if (found != objects_.end() && found->second.epoch == epoch_) absorb(known_[thread], found->second.clocks);
}

}  // namespace tilewright
