#include "runtime/host/block.h"

#include <dlfcn.h>

#include <cstdio>
#include <numeric>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr std::uint64_t kStackBytes = 128 << 10;
constexpr std::uint64_t kSanitizedStackBytes = 512 << 10;  // the address sanitizer puts fences between locals

thread_local Block* current_block = nullptr;

// The address sanitizer must know when the stack changes. Looked up: only a process that has it has these.
struct StackSwitch {
  using Start = void (*)(void**, const void*, std::size_t);
  using Finish = void (*)(void*, const void**, std::size_t*);
  Start start = reinterpret_cast<Start>(::dlsym(RTLD_DEFAULT, "__sanitizer_start_switch_fiber"));
  Finish finish = reinterpret_cast<Finish>(::dlsym(RTLD_DEFAULT, "__sanitizer_finish_switch_fiber"));
  bool needed() const { return start != nullptr && finish != nullptr; }
};
const StackSwitch& stack_switch() {
  static const StackSwitch kSwitch;
  return kSwitch;
}

unsigned thread_count(const HostLaunch& launch) { return launch.block.x * launch.block.y * launch.block.z; }

}  // namespace

Block* Block::current() { return current_block; }

Block::Block(LaunchState& launch)
    : launch_(launch),
      ranks_(launch.blocks_per_unit()),
      block_threads_(thread_count(launch.launch())),
      block_warps_((block_threads_ + 31) / 32),
      threads_(ranks_ * block_threads_),
      stacks_(threads_, stack_switch().needed() ? kSanitizedStackBytes : kStackBytes),
      order_(threads_),
      fibers_(threads_),
      queue_(threads_),
      warp_pending_(ranks_ * block_warps_),
      warp_done_(ranks_ * block_warps_),
      barriers_(ranks_),
      rank_done_(ranks_),
      rank_index_(ranks_) {
  valid_ = stacks_.valid();
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    shared_.push_back(std::make_unique<SharedMemory>(launch.object(), launch.launch().dynamic_shared_bytes));
    valid_ = valid_ && shared_.back()->valid();
  }
  const tw::host::Dim3 size = launch.launch().block;
  for (unsigned fiber = 0; fiber < threads_; ++fiber) {
    const unsigned i = fiber % block_threads_;
    fibers_[fiber].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
  }
  view_.block_dim = size;
  view_.grid_dim = launch.launch().grid;
  view_.cluster_dim = launch.launch().cluster;
  view_.dynamic_shared_bytes = launch.launch().dynamic_shared_bytes;
  stack_bytes_ = stacks_.bytes();
}

Block::~Block() = default;

void Block::run(std::uint64_t index) {
  const tw::host::Dim3 grid = launch_.launch().grid, cluster = launch_.launch().cluster;
  const unsigned across = grid.x / cluster.x, down = grid.y / cluster.y;
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    rank_index_[rank] = {static_cast<unsigned>(index % across) * cluster.x + rank % cluster.x,
                         static_cast<unsigned>(index / across % down) * cluster.y + rank / cluster.x % cluster.y,
                         static_cast<unsigned>(index / across / down) * cluster.z + rank / cluster.x / cluster.y};
  }
  random_ = Random(launch_.options().seed, index + 1);
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    shared_[rank]->reset();
    if (ranks_ > 1) shared_[rank]->save_variables();
    for (Barrier& barrier : barriers_[rank]) barrier.arrived.clear(), barrier.waiting.clear();
  }
  rank_ = ranks_;  // of nobody
  order_.reset();
  std::fill(warp_pending_.begin(), warp_pending_.end(), 0);
  std::fill(warp_done_.begin(), warp_done_.end(), 0);
  std::fill(rank_done_.begin(), rank_done_.end(), 0);
  effects_.clear();
  applied_.clear();
  done_ = predicates_ = 0;
  cluster_arrived_ = cluster_phase_ = cluster_gone_ = 0;
  idle_yields_ = stalls_ = 0;
  current_block = this;
  start_fibers();
  schedule();
  set_stalled(false);
  current_block = nullptr;
}

void Block::start_fibers() {
  head_ = queued_ = 0;
  // Warps in any order, each with its lanes in a row from any of them on.
  std::vector<unsigned> warps(warp_pending_.size());
  std::iota(warps.begin(), warps.end(), 0u);
  for (std::size_t i = warps.size(); i > 1; --i) std::swap(warps[i - 1], warps[random_.below(static_cast<std::uint32_t>(i))]);
  for (const unsigned warp : warps) {
    const unsigned first = first_of_warp(warp), count = size_of_warp(warp), turn = random_.below(count);
    for (unsigned lane = 0; lane < count; ++lane) {
      const unsigned i = first + (lane + turn) % count;
      Fiber& fiber = fibers_[i];
      if (fiber.context == nullptr) fiber.context = boost::context::detail::make_fcontext(stacks_.top(i), stacks_.bytes(), fiber_main);
      fiber.open_group = {};
      fiber.memory.clear();
      fiber.cluster_arrivals = 0;
      make_ready(i);
    }
  }
}

void Block::fiber_main(boost::context::detail::transfer_t from) {
  Block& block = *static_cast<Block*>(from.data);
  block.scheduler_ = from.fctx;
  if (stack_switch().needed()) stack_switch().finish(nullptr, &block.scheduler_stack_, &block.scheduler_stack_bytes_);
  for (;;) {
    block.launch_.object().run_thread(block.launch_.launch().parameters);
    block.check_exit();
    block.switch_out();
  }
}

void Block::resume(unsigned fiber) {
  current_ = fiber;
  enter_rank(rank_of(fiber));
  view_.thread_idx = fibers_[fiber].index;
  stack_low_ = reinterpret_cast<std::uintptr_t>(stacks_.low(fiber));
  const StackSwitch& asan = stack_switch();
  if (asan.needed()) asan.start(&fake_stack_, stacks_.low(fiber), stacks_.bytes());
  in_fiber_ = true;
  fibers_[fiber].context = boost::context::detail::jump_fcontext(fibers_[fiber].context, this).fctx;
  in_fiber_ = false;
  if (asan.needed()) asan.finish(fake_stack_, nullptr, nullptr);
}

// The variables in shared memory, the OS thread's own, become those of another block of the cluster.
void Block::enter_rank(unsigned rank) {
  if (rank == rank_) return;
  if (ranks_ > 1) {
    settle_suspects();
    if (rank_ < ranks_) shared_[rank_]->save_variables();
    shared_[rank]->restore_variables();
  }
  rank_ = rank;
  view_.block_idx = rank_index_[rank];
  view_.cluster_rank = rank;
  view_.dynamic_shared = reinterpret_cast<unsigned char*>(shared_[rank]->dynamic());
}

// Back to the scheduler. Returns when the fiber is resumed.
void Block::switch_out() {
  settle_suspects();
  if (wrote_) {
    wrote_ = false;
    launch_.note_progress();
  }
  Fiber& fiber = fibers_[current_];
  const StackSwitch& asan = stack_switch();
  if (asan.needed()) asan.start(&fiber.fake_stack, scheduler_stack_, scheduler_stack_bytes_);
  scheduler_ = boost::context::detail::jump_fcontext(scheduler_, nullptr).fctx;
  if (asan.needed()) asan.finish(fiber.fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
}

void Block::enqueue(unsigned fiber) { queue_[(head_ + queued_++) % threads_] = static_cast<std::uint16_t>(fiber); }

void Block::make_ready(unsigned fiber) {
  fibers_[fiber].state = State::kRunnable;
  idle_yields_ = 0;
  enqueue(fiber);
}

bool Block::stop_now() {
  if (launch_.failed()) return true;
  // The clock is looked at once in a while.
  if ((++looks_ & 0xff) == 0 && launch_.out_of_time()) {
    launch_.report(
        {fmt::format("time limit of {:.1f} s reached; an endless loop? {}", launch_.options().time_limit_s, threads_text()), {}});
    return true;
  }
  return false;
}

void Block::schedule() {
  while (done_ < threads_) {
    if (stop_now()) return;
    if (!effects_.empty() && random_.below(8) == 0) apply_any_effect();
    if (queued_ == 0) {
      if (predicates_ > 0 && wake_predicates()) continue;
      if (!effects_.empty()) {
        apply_any_effect();
        continue;
      }
      report_deadlock();
      return;
    }
    const unsigned next = queue_[head_];
    head_ = (head_ + 1) % threads_;
    --queued_;
    resume(next);
  }
  end_effects();
}

// A thread has returned from the kernel.
void Block::check_exit() {
  Fiber& fiber = fibers_[current_];
  fiber.state = State::kDone;
  ++done_;
  ++rank_done_[rank_];
  if (fiber.cluster_arrivals % 2 == 0) ++cluster_gone_;
  end_cluster_phase();
  idle_yields_ = 0;
  const unsigned warp = warp_of(current_), lane = 1u << lane_of(current_);
  warp_done_[warp] |= lane;
  for (const Barrier& barrier : barriers_[rank_]) {
    if (barrier.arrived.empty() || barrier.expected != block_threads_ || llvm::is_contained(barrier.arrived, current_)) continue;
    fail({fmt::format("barrier divergence: returns while thread {} waits at {}", barrier.arrived.front(),
                      waits_text(fibers_[barrier.arrived.front()])),
          {{"waiting", barrier.where}}});
  }
  const unsigned first = first_of_warp(warp);
  for (unsigned other = first; warp_pending_[warp] != 0 && other < first + size_of_warp(warp); ++other) {
    if (fibers_[other].state != State::kWarp || (fibers_[other].mask & lane) == 0) continue;
    fail({fmt::format("warp divergence: returns while thread {} waits for it at {} with mask {:#010x}", other, fibers_[other].name,
                      fibers_[other].mask),
          {{"waiting", fibers_[other].where}}});
  }
}

void Block::fail(Finding finding) {
  const tw::host::Dim3 b = view_.block_idx, t = view_.thread_idx;
  finding.what = fmt::format("block ({}, {}, {}), thread ({}, {}, {}): {}", b.x, b.y, b.z, t.x, t.y, t.z, finding.what);
  launch_.report(std::move(finding));
  // Never resumed: the scheduler sees that the launch has failed.
  while (in_fiber_) {
    fibers_[current_].context = nullptr;
    scheduler_ = boost::context::detail::jump_fcontext(scheduler_, nullptr).fctx;
  }
}

void Block::describe(char* text, std::size_t size) const {
  const tw::host::Dim3 b = view_.block_idx, t = view_.thread_idx;
  std::snprintf(text, size, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", launch_.launch().kernel.c_str(), b.x, b.y, b.z, t.x, t.y,
                t.z);
}

void Block::settle_suspects() {
  for (const auto& shared : shared_) {
    if (!shared->has_suspect()) continue;
    if (auto finding = shared->settle_suspect()) fail(std::move(*finding));
  }
}

SharedMemory* Block::shared_of(std::uintptr_t address) {
  if (shared_[rank_]->covers(address)) return shared_[rank_].get();
  for (const auto& shared : shared_) {
    if (shared->covers_dynamic(address)) return shared.get();
  }
  return nullptr;
}

void Block::check_access(std::uintptr_t address, unsigned long bytes, tw::host::Access kind, const void* where) {
  using tw::host::Access;
  if (in_combine_ || !launch_.options().check_accesses) return;
  settle_suspects();
  if ((++accesses_ & 0xff) == 0 && stop_now()) {
    if (in_fiber_) switch_out();
    return;
  }
  if (SharedMemory* const shared = shared_of(address)) {
    for (unsigned rank = 0; ranks_ > 1 && rank < ranks_; ++rank) {
      if (shared == shared_[rank].get() && rank_done_[rank] == block_threads_)
        return fail({fmt::format("access to shared memory of block {} of the cluster, which has ended", rank), {{"", where}}});
    }
    if (auto finding = shared->check(address, bytes, kind, current_, where, order_)) fail(std::move(*finding));
    return;
  }
  bool outside = false;
  const auto fault = launch_.memory().check(address, bytes, kind, outside);
  if (fault) return fail({*fault, {{"", where}}});
  if (!outside) {
    wrote_ = wrote_ || kind == Access::kWrite || kind == Access::kPackedWrite;
    if (kind == Access::kAtomic || kind == Access::kAtomicWrite) launch_.note_progress();
    return;
  }
  const bool writes = kind == Access::kWrite || kind == Access::kPackedWrite || kind == Access::kAtomic || kind == Access::kAtomicWrite;
  if (!writes && launch_.object().contains(reinterpret_cast<const void*>(address))) return;  // constants
  const int owner = stacks_.owner(address);
  if (owner >= 0)
    return fail({fmt::format("{} of {} bytes in local memory of thread {}", writes ? "write" : "read", bytes, owner), {{"", where}}});
  fail({fmt::format("out of bounds: {} of {} bytes at {}", writes ? "write" : "read", bytes, launch_.memory().nearest_text(address)),
        {{"", where}}});
}

}  // namespace tilewright
