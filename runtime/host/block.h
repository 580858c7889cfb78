// One resident block, or the blocks of one resident cluster: a fiber per CUDA thread, all on the OS thread that made it. Fibers are
// numbered through the cluster; a rank is a block's place in it.
#pragma once

#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/host/fiber_stacks.h"
#include "runtime/host/happens_before.h"
#include "runtime/host/launch_state.h"
#include "runtime/host/shared_memory.h"

namespace tilewright {

class Block {
 public:
  explicit Block(LaunchState& launch);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  bool valid() const { return valid_; }
  // Runs one block or cluster of the grid to its end, or until the launch has failed.
  void run(std::uint64_t index);

  // The block of the calling OS thread, null outside of run().
  static Block* current();
  // "kernel k, block (1, 0, 0), thread (5, 0, 0)"; for a fiber that crashes too: allocates nothing.
  void describe(char* text, std::size_t size) const;

  // ---- what a fiber calls (abi.h says what each does)
  const tw::host::Thread* thread() const { return &view_; }
  void access(const void* address, unsigned long bytes, tw::host::Access kind, const void* where) {
    if (reinterpret_cast<std::uintptr_t>(address) - stack_low_ < stack_bytes_) return;  // its own variables
    check_access(reinterpret_cast<std::uintptr_t>(address), bytes, kind, where);
  }
  void barrier(unsigned id, unsigned threads, bool waits, const char* file, unsigned line, const void* where);
  void converge(unsigned mask, tw::host::Combine combine, void* operands, bool orders_memory, const char* name, const void* where);
  void wait_until(tw::host::Ready ready, const void* state, const char* name, const void* where);
  void yield(const void* where);
  struct EffectKind {
    tw::host::Group group;
    const void* object;
    tw::host::Apply apply;
    tw::host::Finish finish;
    const char* name;
    const void* where;
  };
  void defer(const EffectKind& kind, const void* operands, unsigned long bytes);
  void commit(tw::host::Group group) { ++fibers_[current_].open_group[static_cast<unsigned>(group)]; }
  void settle(tw::host::Group group, unsigned keep);
  void settle_object(const void* object, unsigned tag);
  void flight(const void* address, unsigned long bytes, bool writes, const char* name, const void* where);
  void land(const void* address, unsigned long bytes, bool writes, bool async_proxy, const void* where);
  void fence_proxy(bool only_barriers);
  unsigned random(unsigned bound) { return random_.below(bound); }
  void* memory(unsigned long bytes);
  void* map_shared(const void* address, unsigned rank, const void* where);
  void cluster_arrive(bool releases, const void* where);
  void cluster_wait(bool acquires, const void* where);
  void release(const void* object) { order_.release(object, current_); }
  void acquire(const void* object) { order_.acquire(object, current_); }
  void fail(Finding finding);

 private:
  enum class State : std::uint8_t { kRunnable, kBarrier, kWarp, kPredicate, kDone };
  struct Fiber {
    boost::context::detail::fcontext_t context = nullptr;
    State state = State::kDone;
    tw::host::Dim3 index{};
    void* fake_stack = nullptr;  // the address sanitizer's
    // What it waits for.
    unsigned barrier = 0, mask = 0;
    tw::host::Combine combine = nullptr;
    void* operands = nullptr;
    tw::host::Ready ready = nullptr;
    const void* ready_state = nullptr;
    const char* name = "";
    const char* file = "";
    unsigned line = 0;
    const void* where = nullptr;
    std::array<unsigned, 2> open_group{};  // of deferred effects; those of smaller numbers are closed
    std::vector<std::uint64_t> memory;     // that primitives keep
    unsigned cluster_arrivals = 0;
  };
  struct Barrier {
    std::vector<std::uint16_t> arrived, waiting;
    unsigned expected = 0;
    const char* file = nullptr;
    unsigned line = 0;
    const void* where = nullptr;
  };
  struct Effect {
    EffectKind kind;
    unsigned thread, number;  // number of the group
    unsigned tag;             // what `apply` said
    alignas(16) std::array<char, 256> operands;
  };
  static constexpr unsigned kCurrent = ~0u;
  static void fiber_main(boost::context::detail::transfer_t from);

  void start_fibers();
  void schedule();
  void resume(unsigned fiber);
  void switch_out();
  void enqueue(unsigned fiber);
  void make_ready(unsigned fiber);
  void finish_barrier(Barrier& barrier);
  void check_exit();
  bool stop_now();
  void check_access(std::uintptr_t address, unsigned long bytes, tw::host::Access kind, const void* where);
  void settle_suspects();
  bool wake_predicates();
  void apply_effect(std::size_t index);
  void finish_effect(std::size_t index);
  void apply_any_effect() { apply_effect(random_.below(static_cast<std::uint32_t>(effects_.size()))); }
  bool end_effects();
  void end_cluster_phase();
  void enter_rank(unsigned rank);
  SharedMemory* shared_of(std::uintptr_t address);
  const void* cluster_object() const { return &cluster_arrived_; }
  void set_stalled(bool stalled);
  void wait_for_others();
  void report_deadlock();
  std::string waits_text(const Fiber& fiber) const;
  std::string threads_text() const;
  unsigned rank_of(unsigned fiber) const { return fiber / block_threads_; }
  unsigned warp_of(unsigned fiber) const { return rank_of(fiber) * block_warps_ + fiber % block_threads_ / 32; }
  unsigned lane_of(unsigned fiber) const { return fiber % block_threads_ % 32; }
  unsigned first_of_warp(unsigned warp) const { return warp / block_warps_ * block_threads_ + warp % block_warps_ * 32; }
  unsigned size_of_warp(unsigned warp) const { return std::min(32u, block_threads_ - warp % block_warps_ * 32); }
  unsigned lanes_of_warp(unsigned warp) const;

  LaunchState& launch_;
  const unsigned ranks_, block_threads_, block_warps_, threads_;  // threads_: of all ranks
  FiberStacks stacks_;
  std::vector<std::unique_ptr<SharedMemory>> shared_;  // by rank
  HappensBefore order_;
  std::vector<Fiber> fibers_;
  std::vector<std::uint16_t> queue_;  // a ring, each fiber in it at most once
  std::size_t head_ = 0, queued_ = 0;
  std::vector<unsigned> warp_pending_, warp_done_;  // lanes that wait in converge(), and that have returned, by warp
  std::vector<std::array<Barrier, 16>> barriers_;   // by rank
  std::vector<unsigned> rank_done_;                 // threads that have returned
  std::vector<tw::host::Dim3> rank_index_;          // blockIdx
  std::vector<Effect> effects_, applied_;
  Random random_{0, 0};
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  tw::host::Thread view_{};
  std::uintptr_t stack_low_ = 0, stack_bytes_ = 0;
  unsigned current_ = 0, done_ = 0, predicates_ = 0, rank_ = 0, cluster_arrived_ = 0, cluster_phase_ = 0, cluster_gone_ = 0;
  unsigned lander_ = kCurrent;  // who has seen the end of a flight
  std::uint32_t idle_yields_ = 0, looks_ = 0, accesses_ = 0, stalls_ = 0;
  std::uint64_t seen_progress_ = 0;
  bool in_combine_ = false, in_fiber_ = false, wrote_ = false, stalled_ = false, valid_ = false;
  void* fake_stack_ = nullptr;  // the address sanitizer's, of the scheduler
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

// The table that kernels are bound to.
const tw::host::Executor& executor_table();

}  // namespace tilewright
