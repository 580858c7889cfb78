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
  bool covers_dynamic(std::uintptr_t address) const { return address - reinterpret_cast<std::uintptr_t>(mapping_) < mapping_bytes_; }
  // The variables are the OS thread's, which the blocks of a cluster share: put aside, and back.
  void save_variables();
  void restore_variables();
  // An access of `bytes` bytes by `thread`; a fault, or nullopt. To be called before the access happens, once every earlier access has.
  std::optional<Finding> check(std::uintptr_t address, std::uint64_t bytes, tw::host::Access kind, unsigned thread, const void* where,
                               const HappensBefore& order);
  // What an access with Access::kAsyncRead or kAsyncWrite has begun: nobody may touch what is written, or write what is read. The range
  // must have passed check().
  void begin_flight(std::uintptr_t address, std::uint64_t bytes, bool writes, const char* name, const void* where);
  // Its end, seen by `thread`. async_proxy: what it wrote needs no fence for the asynchronous proxy.
  void end_flight(std::uintptr_t address, std::uint64_t bytes, bool writes, bool async_proxy, unsigned thread, const void* where,
                  const HappensBefore& order);
  // The asynchronous proxy sees what was written before this moment of `thread`; of mbarriers alone where only_barriers.
  void fence_proxy(bool only_barriers, unsigned thread, const HappensBefore& order);
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
    bool unfenced = false;                          // written by the generic proxy, and no fence since
    bool barrier = false;                           // of an mbarrier
    std::uint16_t flights_in = 0, flights_out = 0;  // copies that write it, and that read it
    const char* flight = nullptr;                   // name of the last that began, and where
    const void* flight_where = nullptr;
  };
  struct Area {
    char* begin = nullptr;
    std::uint64_t bytes = 0;
    std::vector<Word> words;
  };

  const Area* area_of(std::uintptr_t address) const;
  Word& word_at(Area& area, std::uint64_t index);
  // Each word of a range, with the bits of the bytes that are in it.
  template <typename Each>
  void for_words(std::uintptr_t address, std::uint64_t bytes, Each each);
  std::optional<Finding> state_fault(const Word& word, std::uintptr_t address, std::uint64_t bytes, tw::host::Access kind, const char* verb,
                                     const void* where) const;
  void note_unfenced(Word& word);
  std::string place_text(std::uintptr_t address) const;
  std::optional<std::string> bounds_fault(std::uintptr_t address, std::uint64_t bytes, const char* verb) const;
  Finding race(std::uintptr_t address, const Mark& first, const char* first_verb, unsigned thread, const char* verb, const void* where,
               const HappensBefore& order) const;

  const std::vector<ThreadLocalSymbol>& variables_;
  const bool sees_all_;  // every access is shown to check(): what it has not seen written is not
  bool valid_ = false;
  std::array<Area, 2> areas_;  // variables, dynamic
  char* mapping_ = nullptr;
  std::uint64_t mapping_bytes_ = 0;
  std::uint64_t block_ = 0;
  std::vector<char> saved_;
  std::vector<Word*> unfenced_;
  std::uintptr_t suspect_ = 0;
  std::uint64_t suspect_bytes_ = 0;
  std::array<char, 16> suspect_old_{};
  Finding suspect_finding_;
};

}  // namespace tilewright
