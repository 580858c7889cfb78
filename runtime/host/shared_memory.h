// Shared memory of one resident block: its variables and its dynamic part, who touched each word last, and what was written at all.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/host/happens_before.h"
#include "runtime/host/kernel_object.h"

namespace tilewright {

// A fault with the places in the kernel's code that have part in it.
struct Finding {
  struct Place {
    std::string label;  // "first write, by thread (3, 0, 0)"
    const void* where = nullptr;
  };
  std::string what;
  std::vector<Place> places;
};

class SharedMemory {
 public:
  // To be made on the OS thread that runs the block: the variables are that thread's own.
  SharedMemory(const KernelObject& object, std::uint64_t dynamic_bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  bool valid() const { return valid_; }
  char* dynamic() const { return areas_[1].begin; }
  // Everything is unwritten again, and NaN.
  void reset();

  // Whether an address is here or so near that nobody else can be meant.
  bool covers(std::uintptr_t address) const;
  // An access of `bytes` bytes by `thread`; a fault, or nullopt. To be called before the access happens, once every earlier access has.
  std::optional<Finding> check(std::uintptr_t address, std::uint64_t bytes, tw::host::Access kind, unsigned thread, const void* where,
                               const HappensBefore& order);
  // A write that collides with another thread's is none when it changes nothing. Whether there is one to look at, and the look.
  bool has_suspect() const { return suspect_bytes_ != 0; }
  std::optional<Finding> settle_suspect();

 private:
  struct Mark {
    Moment moment;
    std::uint8_t bytes = 0;  // of the word, one bit each; 0: nobody
    bool atomic = false;
    const void* where = nullptr;
  };
  // Four bytes.
  struct Word {
    std::uint64_t block = 0;  // number of the block that these are of
    Mark write, read, other_read;
    std::uint8_t written = 0;
  };
  struct Area {
    char* begin = nullptr;
    std::uint64_t bytes = 0;
    std::vector<Word> words;
  };

  const Area* area_of(std::uintptr_t address) const;
  Word& word_at(Area& area, std::uint64_t index);
  std::string place_text(std::uintptr_t address) const;
  std::optional<std::string> bounds_fault(std::uintptr_t address, std::uint64_t bytes, const char* verb) const;
  Finding race(std::uintptr_t address, const Mark& first, const char* first_verb, unsigned thread, const char* verb,
               const void* where) const;

  const std::vector<ThreadLocalSymbol>& variables_;
  bool valid_ = false;
  std::array<Area, 2> areas_;  // variables, dynamic
  char* mapping_ = nullptr;
  std::uint64_t mapping_bytes_ = 0;
  std::uint64_t block_ = 0;
  std::uintptr_t suspect_ = 0;
  std::uint64_t suspect_bytes_ = 0;
  std::array<char, 16> suspect_old_{};
  Finding suspect_finding_;
};

}  // namespace tilewright
