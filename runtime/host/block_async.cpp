// What takes effect later in a block, and what the blocks of a cluster do together.
#include <cstring>

#include "runtime/error.h"
#include "runtime/host/block.h"

namespace tilewright {

using tw::host::Access;
using tw::host::Group;

void Block::defer(const EffectKind& kind, const void* operands, unsigned long bytes) {
  Effect effect{kind, current_, kind.group == Group::kObject ? 0 : fibers_[current_].open_group[static_cast<unsigned>(kind.group)], 0, {}};
  if (bytes > effect.operands.size()) return fail({"a deferred effect has more than 256 bytes of operands", {{"", kind.where}}});
  std::memcpy(effect.operands.data(), operands, bytes);
  effects_.push_back(effect);
}

void Block::settle(Group group, unsigned keep) {
  const unsigned open = fibers_[current_].open_group[static_cast<unsigned>(group)];
  const auto wanted = [&](const Effect& effect) {
    return effect.thread == current_ && effect.kind.group == group && effect.number + keep < open;
  };
  for (std::size_t i = 0; i < effects_.size();) {
    if (wanted(effects_[i])) {
      apply_effect(i);
    } else {
      ++i;
    }
  }
  for (std::size_t i = 0; i < applied_.size();) {
    if (wanted(applied_[i])) {
      finish_effect(i);
    } else {
      ++i;
    }
  }
}

void Block::settle_object(const void* object, unsigned tag) {
  // On behalf of the copies themselves: what the thread that waits has done besides is not ordered by them.
  lander_ = order_.copies();
  bool any = false;
  for (std::size_t i = 0; i < applied_.size();) {
    if (applied_[i].kind.object == object && applied_[i].tag == tag) {
      finish_effect(i);
      any = true;
    } else {
      ++i;
    }
  }
  if (any) order_.release(object, lander_);
  lander_ = kCurrent;
}

// The data moves, on behalf of the thread that asked for it.
void Block::apply_effect(std::size_t index) {
  Effect effect = effects_[index];
  effects_.erase(effects_.begin() + static_cast<std::ptrdiff_t>(index));
  const unsigned running = current_, rank = rank_;
  current_ = effect.thread;
  enter_rank(rank_of(effect.thread));
  effect.tag = effect.kind.apply(effect.operands.data());
  current_ = running;
  if (rank < ranks_) enter_rank(rank);
  applied_.push_back(effect);
}

void Block::finish_effect(std::size_t index) {
  const Effect effect = applied_[index];
  applied_.erase(applied_.begin() + static_cast<std::ptrdiff_t>(index));
  effect.kind.finish(effect.operands.data());
}

// All threads have returned. What a block's shared memory is the source or the target of must be over by then; cp.async counts for nothing
// then, as nobody can have read what it wrote.
bool Block::end_effects() {
  while (!effects_.empty()) apply_effect(0);
  if (launch_.failed()) return false;
  for (const Effect& effect : applied_) {
    if (effect.kind.group == Group::kCpAsync) continue;
    const tw::host::Dim3 b = rank_index_[rank_of(effect.thread)];
    launch_.report({fmt::format("block ({}, {}, {}): ends while {} of thread {} is in flight: no wait has seen its end", b.x, b.y, b.z,
                                effect.kind.name, effect.thread % block_threads_),
                    {{"", effect.kind.where}}});
    return false;
  }
  return true;
}

void Block::flight(const void* address, unsigned long bytes, bool writes, const char* name, const void* where) {
  if (bytes == 0) return;
  access(address, bytes, writes ? Access::kAsyncWrite : Access::kAsyncRead, where);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (SharedMemory* const shared = shared_of(at)) shared->begin_flight(at, bytes, writes, name, where);
}

void Block::land(const void* address, unsigned long bytes, bool writes, bool async_proxy, const void* where) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (SharedMemory* const shared = shared_of(at))
    shared->end_flight(at, bytes, writes, async_proxy, lander_ == kCurrent ? current_ : lander_, where, order_);
}

void Block::fence_proxy(bool only_barriers) {
  for (const auto& shared : shared_) shared->fence_proxy(only_barriers, current_, order_);
}

void* Block::memory(unsigned long bytes) {
  std::vector<std::uint64_t>& memory = fibers_[current_].memory;
  if (memory.empty()) memory.assign((bytes + 7) / 8, 0);
  return memory.data();
}

void* Block::map_shared(const void* address, unsigned rank, const void* where) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (rank >= ranks_) {
    fail({fmt::format("mapa: block {} of a cluster of {}", rank, ranks_), {{"", where}}});
    return nullptr;
  }
  SharedMemory* const shared = shared_of(at);
  if (shared == nullptr || !shared->covers_dynamic(at)) {
    fail({shared == nullptr ? "mapa: the address is not in shared memory"
                            : "mapa: a shared variable has no address in other blocks on the CPU; take dynamic shared memory",
          {{"", where}}});
    return nullptr;
  }
  return shared_[rank]->dynamic() + (at - reinterpret_cast<std::uintptr_t>(shared->dynamic()));
}

// Arrivals are counted over the life of the cluster: each thread arrives and waits in turns.
void Block::cluster_arrive(bool releases, const void* where) {
  Fiber& fiber = fibers_[current_];
  if (fiber.cluster_arrivals % 2 != 0) return fail({"barrier.cluster.arrive twice without a barrier.cluster.wait between", {{"", where}}});
  ++fiber.cluster_arrivals;
  if (releases) order_.release(cluster_object(), current_);
  ++cluster_arrived_;
  end_cluster_phase();
}

// Threads that have returned are not waited for.
void Block::end_cluster_phase() {
  if (cluster_arrived_ == 0 || cluster_arrived_ + cluster_gone_ < threads_) return;
  cluster_arrived_ = 0;
  ++cluster_phase_;
  idle_yields_ = 0;
}

void Block::cluster_wait(bool acquires, const void* where) {
  Fiber& fiber = fibers_[current_];
  if (fiber.cluster_arrivals % 2 == 0) return fail({"barrier.cluster.wait without a barrier.cluster.arrive", {{"", where}}});
  struct Wait {
    const unsigned* phase;
    unsigned wanted;
  };
  const Wait wait{&cluster_phase_, fiber.cluster_arrivals / 2 + 1};
  ++fiber.cluster_arrivals;
  wait_until(
      [](const void* state) {
        const auto& mine = *static_cast<const Wait*>(state);
        return static_cast<int>(*mine.phase - mine.wanted) >= 0;
      },
      &wait, "barrier.cluster.wait", where);
  if (acquires) order_.acquire(cluster_object(), current_);
}

}  // namespace tilewright
