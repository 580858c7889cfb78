// What makes a fiber of a block wait, and what ends the waiting.
#include <chrono>
#include <cstring>
#include <thread>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"
#include "runtime/host/block.h"

namespace tilewright {
namespace {

constexpr unsigned kMostBarriers = 16;
constexpr unsigned kMostRuns = 8;       // of threads in one place that a message lists
constexpr std::uint32_t kPatience = 8;  // turns given away before a block counts as stalled

std::string place_text(const char* file, unsigned line) {
  llvm::StringRef name = file;
  if (name.starts_with("./")) name = name.drop_front(2);
  const std::size_t tilewright = name.find("tilewright/");
  if (tilewright != llvm::StringRef::npos) name = name.drop_front(tilewright);
  return fmt::format("{}:{}", name, line);
}

}  // namespace

unsigned Block::lanes_of_warp(unsigned warp) const {
  const unsigned count = size_of_warp(warp);
  return count == 32 ? ~0u : (1u << count) - 1;
}

void Block::barrier(unsigned id, unsigned threads, bool waits, const char* file, unsigned line, const void* where) {
  Fiber& fiber = fibers_[current_];
  fiber.barrier = id, fiber.file = file, fiber.line = line, fiber.where = where;
  fiber.name = id == 0 && threads == 0 ? "__syncthreads" : waits ? "bar.sync" : "bar.arrive";
  if (id >= kMostBarriers) return fail({fmt::format("{} {}: a block has barriers 0 to 15", fiber.name, id), {{"", where}}});
  if (threads % 32 != 0) return fail({fmt::format("{}: {} threads are no multiple of a warp", fiber.name, threads), {{"", where}}});
  Barrier& barrier = barriers_[rank_][id];
  const unsigned expected = threads == 0 ? block_threads_ : std::min(threads, block_threads_);
  // Threads that have only arrived may have returned since.
  const auto gone = rank_done_[rank_] -
                    static_cast<unsigned>(llvm::count_if(barrier.arrived, [&](unsigned i) { return fibers_[i].state == State::kDone; }));
  if (expected == block_threads_ && gone > 0) {
    return fail({fmt::format("barrier divergence: waits at {}, which {} threads that have returned never reach", waits_text(fiber),
                             rank_done_[rank_]),
                 {{"waiting", where}}});
  }
  if (!barrier.arrived.empty()) {
    const unsigned other = barrier.arrived.front();
    if (barrier.expected != expected)
      return fail({fmt::format("barrier {}: {} threads expected here, {} by thread {}", id, expected, barrier.expected, other),
                   {{"here", where}, {"there", barrier.where}}});
    // One textual barrier must be reached by all: this is what PTX asks of barrier 0 without a count, and what compilers rely on.
    if (threads == 0 && (barrier.line != line || std::strcmp(barrier.file, file) != 0)) {
      return fail({fmt::format("barrier divergence: waits at {}, thread {} at {}", waits_text(fiber), other, waits_text(fibers_[other])),
                   {{"here", where}, {"there", barrier.where}}});
    }
  }
  barrier.expected = expected, barrier.file = file, barrier.line = line, barrier.where = where;
  barrier.arrived.push_back(static_cast<std::uint16_t>(current_));
  if (waits) barrier.waiting.push_back(static_cast<std::uint16_t>(current_));
  if (barrier.arrived.size() == expected) return finish_barrier(barrier);
  if (!waits) return;
  fiber.state = State::kBarrier;
  switch_out();
}

void Block::finish_barrier(Barrier& barrier) {
  settle_suspects();
  if (barrier.waiting.size() == threads_) {  // never in a cluster of several blocks
    order_.full_barrier();
  } else {
    order_.join(barrier.arrived, barrier.waiting);
  }
  const auto count = static_cast<std::uint32_t>(barrier.waiting.size());
  const std::uint32_t turn = count > 0 ? random_.below(count) : 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const unsigned fiber = barrier.waiting[(i + turn) % count];
    if (fiber != current_) make_ready(fiber);
  }
  barrier.arrived.clear();
  barrier.waiting.clear();
}

void Block::converge(unsigned mask, tw::host::Combine combine, void* operands, bool orders_memory, const char* name, const void* where) {
  settle_suspects();
  Fiber& fiber = fibers_[current_];
  const unsigned warp = warp_of(current_), first = first_of_warp(warp), lane = 1u << lane_of(current_), present = lanes_of_warp(warp);
  // The usual full mask in a warp that has fewer threads.
  if (mask == ~0u) mask = present;
  fiber.name = name, fiber.where = where, fiber.mask = mask;
  if ((mask & lane) == 0) return fail({fmt::format("{} with mask {:#010x}, which leaves out the lane itself", name, mask), {{"", where}}});
  if ((mask & ~present) != 0 || (mask & warp_done_[warp]) != 0)
    return fail({fmt::format("warp divergence: {} with mask {:#010x}, of which lanes {:#010x} have returned or never were", name, mask,
                             (mask & ~present) | (mask & warp_done_[warp])),
                 {{"", where}}});
  const unsigned waiting = warp_pending_[warp] & mask;
  if (waiting != 0) {
    const unsigned other = first + static_cast<unsigned>(__builtin_ctz(waiting));
    if (fibers_[other].mask != mask || fibers_[other].combine != combine) {
      return fail({fmt::format("warp divergence: {} with mask {:#010x} while thread {} waits at {} with mask {:#010x}", name, mask, other,
                               fibers_[other].name, fibers_[other].mask),
                   {{"here", where}, {"there", fibers_[other].where}}});
    }
  }
  fiber.combine = combine;
  fiber.operands = operands;
  if (((waiting | lane) & mask) != mask) {
    warp_pending_[warp] |= lane;
    fiber.state = State::kWarp;
    switch_out();
    return;
  }
  std::array<void*, 32> lanes{};
  llvm::SmallVector<std::uint16_t, 32> members;
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1) == 0) continue;
    lanes[i] = fibers_[first + i].operands;
    members.push_back(static_cast<std::uint16_t>(first + i));
  }
  in_combine_ = true;
  combine(lanes.data(), mask);
  in_combine_ = false;
  if (orders_memory) order_.join(members, members);
  warp_pending_[warp] &= ~mask;
  for (const std::uint16_t member : members) {
    if (member != current_) make_ready(member);
  }
}

void Block::wait_until(tw::host::Ready ready, const void* state, const char* name, const void* where) {
  Fiber& fiber = fibers_[current_];
  fiber.ready = ready, fiber.ready_state = state, fiber.name = name, fiber.where = where;
  while (!ready(state)) {
    fiber.state = State::kPredicate;
    ++predicates_;
    switch_out();
  }
}

bool Block::wake_predicates() {
  bool woken = false;
  for (unsigned i = 0; i < threads_; ++i) {
    if (fibers_[i].state != State::kPredicate) continue;
    enter_rank(rank_of(i));
    if (!fibers_[i].ready(fibers_[i].ready_state)) continue;
    --predicates_;
    make_ready(i);
    woken = true;
  }
  return woken;
}

void Block::yield(const void* where) {
  fibers_[current_].where = where;
  fibers_[current_].name = "a loop that reads a word until it changes";
  if (wrote_) launch_.note_progress(), wrote_ = false;
  // Every thread that can run has come here since anything else happened.
  if (++idle_yields_ > queued_) {
    idle_yields_ = 0;
    const unsigned rank = rank_;
    if (!(predicates_ > 0 && wake_predicates()) && !effects_.empty()) apply_any_effect();
    enter_rank(rank);
    wait_for_others();
  }
  if (queued_ == 0 && !launch_.failed()) return;
  enqueue(current_);
  switch_out();
}

void Block::set_stalled(bool stalled) {
  if (stalled != stalled_) launch_.set_stalled(stalled);
  stalled_ = stalled;
}

// Nothing happens here until another block writes what the threads poll.
void Block::wait_for_others() {
  const std::uint64_t progress = launch_.progress();
  stalls_ = progress == seen_progress_ ? stalls_ + 1 : 0;
  seen_progress_ = progress;
  if (launch_.gave_up()) {
    return fail(
        {fmt::format("deadlock: waits for a word that no block will write; {}", threads_text()), {{"waiting", fibers_[current_].where}}});
  }
  set_stalled(stalls_ > kPatience);
  launch_.end_turn();
  if (stalled_) std::this_thread::sleep_for(std::chrono::microseconds(200));
  launch_.take_turn();
}

std::string Block::waits_text(const Fiber& fiber) const {
  switch (fiber.state) {
    case State::kDone:
      return "have returned";
    case State::kWarp:
      return fmt::format("{} with mask {:#010x}", fiber.name, fiber.mask);
    case State::kPredicate:
      return fiber.name;
    case State::kRunnable:
    case State::kBarrier:
      break;
  }
  if (fiber.file == nullptr || *fiber.file == '\0') return fiber.name;
  return fmt::format("{} ({})", fiber.name, place_text(fiber.file, fiber.line));
}

// Who is where: runs of threads in the same place.
std::string Block::threads_text() const {
  std::string text;
  unsigned runs = 0;
  for (unsigned first = 0; first < threads_;) {
    if (++runs > kMostRuns) return text + "; and more";
    const auto place = [&](unsigned i) {
      if (fibers_[i].state == State::kRunnable) return std::string("run");
      if (fibers_[i].state == State::kDone) return std::string("have returned");
      return "wait at " + waits_text(fibers_[i]);
    };
    unsigned last = first;
    while (last + 1 < threads_ && rank_of(last + 1) == rank_of(first) && place(last + 1) == place(first)) ++last;
    if (!text.empty()) text += "; ";
    if (ranks_ > 1 && first % block_threads_ == 0) text += fmt::format("block {} of the cluster: ", rank_of(first));
    const unsigned from = first % block_threads_, to = last % block_threads_;
    text += from == to ? fmt::format("thread {}: {}", from, place(first)) : fmt::format("threads {} to {}: {}", from, to, place(first));
    first = last + 1;
  }
  return text;
}

void Block::report_deadlock() {
  Finding finding{fmt::format("deadlock: no thread of the block can run: {}", threads_text()), {}};
  const void* named = nullptr;
  for (unsigned i = 0; i < threads_; ++i) {
    if (fibers_[i].state == State::kDone || fibers_[i].where == named || finding.places.size() == 3) continue;
    named = fibers_[i].where;
    finding.places.push_back({fmt::format("thread {}", i % block_threads_), named});
  }
  const tw::host::Dim3 b = view_.block_idx;
  finding.what = fmt::format("block ({}, {}, {}): {}", b.x, b.y, b.z, finding.what);
  launch_.report(std::move(finding));
}

}  // namespace tilewright
