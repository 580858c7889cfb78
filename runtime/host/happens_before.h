// Which accesses of a block's threads are ordered by its barriers: vector clocks, kept only between threads that something less than a
// barrier of the whole block has ordered.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace tilewright {

// A moment in the life of one thread.
struct Moment {
  std::uint32_t epoch = 0;  // number of the last barrier of the whole block before it
  std::uint32_t clock = 0;  // of the thread
  std::uint16_t thread = 0;
};

class HappensBefore {
 public:
  // One more than the threads: the copies that an object counts.
  explicit HappensBefore(unsigned threads) : clocks_(threads + 1, 1), known_(threads + 1) {}
  unsigned copies() const { return static_cast<unsigned>(clocks_.size()) - 1; }

  // Forgets everything: a new block begins.
  void reset();
  Moment now(unsigned thread) const { return {epoch_, clocks_[thread], static_cast<std::uint16_t>(thread)}; }
  // Whether everything up to `past` happened before what `thread` does now.
  bool ordered(const Moment& past, unsigned thread) const {
    if (past.epoch < epoch_ || past.thread == thread) return true;
    const Known& known = known_[thread];
    return known.epoch == epoch_ && !known.clocks.empty() && known.clocks[past.thread] >= past.clock;
  }

  void full_barrier() { ++epoch_; }
  // What any of `arrived` did is before what each of `waiting` (a part of them) does next.
  void join(llvm::ArrayRef<std::uint16_t> arrived, llvm::ArrayRef<std::uint16_t> waiting);
  void release(const void* object, unsigned thread);
  void acquire(const void* object, unsigned thread);

 private:
  using Clocks = std::vector<std::uint32_t>;
  struct Known {
    std::uint32_t epoch = 0;
    Clocks clocks;  // by thread; empty: nothing
  };
  void absorb(Known& known, const Clocks& clocks);
  void gather(unsigned thread, Clocks& into);

  std::uint32_t epoch_ = 1;
  Clocks clocks_;
  std::vector<Known> known_;
  std::unordered_map<const void*, Known> objects_;
};

}  // namespace tilewright
