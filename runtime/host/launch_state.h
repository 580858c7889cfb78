// What the resident blocks of one launch share: the order of blocks, who may run, the first fault.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/host/global_memory.h"
#include "runtime/host/kernel_object.h"
#include "runtime/host/shared_memory.h"
#include "runtime/random.h"
#include "templates/tilewright/host/abi.h"

namespace tilewright {

struct HostLaunch {
  std::string kernel;  // for messages
  tw::host::Dim3 grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
  const void* const* parameters = nullptr;
};

struct ExecuteOptions {
  std::uint64_t seed = 1;
  unsigned threads = 0;        // OS threads that run at a time (0: one per core); with 1 a seed replays everything
  bool check_accesses = true;  // what instrumented code says is looked at
  double time_limit_s = 0;     // 0: none
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};  // called from any thread
};

// The same numbers for the same seed and place.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t place) : state_(seed * kSplitMixStep + place * 0xd1b54a32d192ed03u) {}
  std::uint64_t next() { return splitmix64(state_); }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>((next() >> 32) * bound >> 32); }

 private:
  std::uint64_t state_;
};

class LaunchState {
 public:
  LaunchState(const KernelObject& object, const HostLaunch& launch, GlobalMemory& memory, const ExecuteOptions& options, unsigned turns);

  const KernelObject& object() const { return object_; }
  const HostLaunch& launch() const { return launch_; }
  GlobalMemory& memory() const { return memory_; }
  const ExecuteOptions& options() const { return options_; }
  // Blocks or, where they are larger, clusters: what is resident together.
  std::uint64_t units() const { return units_; }
  unsigned blocks_per_unit() const { return launch_.cluster.x * launch_.cluster.y * launch_.cluster.z; }

  // The next unit to run, in an order drawn from the seed; nullopt when all are given out.
  std::optional<std::uint64_t> next_unit();
  bool all_given_out() const { return next_.load(std::memory_order_relaxed) >= units_; }
  void unit_done();

  // At most `turns` resident blocks run at a time; the others wait in the order in which they came.
  void take_turn();
  void end_turn();

  // Something happened that another block may wait for.
  void note_progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

  // Residents that only poll words of global memory.
  void set_stalled(bool stalled) { stalled_.fetch_add(stalled ? 1 : -1); }
  int stalled() const { return stalled_.load(); }
  // No block is left that could write what the stalled ones wait for.
  void give_up() { gave_up_.store(true); }
  bool gave_up() const { return gave_up_.load(std::memory_order_relaxed); }
  void add_residents(int count) { residents_.fetch_add(count); }
  int residents() const { return residents_.load(); }

  // The first fault ends the launch; later ones are echoes of it.
  void report(Finding finding);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  std::optional<Finding> take_finding();
  bool out_of_time() const;

 private:
  const KernelObject& object_;
  const HostLaunch& launch_;
  GlobalMemory& memory_;
  const ExecuteOptions& options_;
  std::uint64_t units_, factor_ = 1, offset_ = 0;
  std::atomic<std::uint64_t> next_{0}, done_{0}, progress_{0};
  std::atomic<int> stalled_{0}, residents_{0};
  std::atomic<bool> failed_{false}, gave_up_{false};
  std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::deque<std::uint64_t> waiting_;
  std::uint64_t ticket_ = 0;
  unsigned free_turns_;
  std::optional<Finding> finding_;
};

}  // namespace tilewright
