// tilewright/host/mbarrier.h
// An mbarrier on the CPU: its state in the 64 bits that the hardware's opaque one takes.
#pragma once

#include "tilewright/host/abi.h"

extern "C" int snprintf(char*, unsigned long, const char*, ...) noexcept;

namespace tw::ptx::host_detail {

struct MbarrierState {
  u64 pending : 20, expected : 20;  // arrivals
  u64 phase : 1;                    // parity of the one that is under way
  u64 valid : 1;
  u64 bytes : 22;  // of transactions that are still to come, modulo 2^22
};
static_assert(sizeof(MbarrierState) == 8);
inline constexpr u32 kMostArrivals = (1u << 20) - 1;

TW_HOST_PLAIN inline MbarrierState mbarrier_load(const u64* barrier) { return __builtin_bit_cast(MbarrierState, *barrier); }
TW_HOST_PLAIN inline void mbarrier_store(u64* barrier, MbarrierState state) {
  if (state.pending == 0 && state.bytes == 0) {
    state.phase ^= 1u;
    state.pending = state.expected;
  }
  *barrier = __builtin_bit_cast(u64, state);
}

TW_HOST_PLAIN inline void mbarrier_check(const void* barrier, ::tw::host::Access kind, const void* where) {
  ::tw::host::table->access(barrier, 8, kind, where);
}

TW_HOST_PLAIN inline void mbarrier_expect(u64* barrier, u32 bytes) {
  MbarrierState state = mbarrier_load(barrier);
  state.bytes += bytes;
  *barrier = __builtin_bit_cast(u64, state);  // an expectation ends no phase
}

TW_HOST_PLAIN inline void mbarrier_arrive_once(u64* barrier, const void* where) {
  MbarrierState state = mbarrier_load(barrier);
  if (state.pending == 0) ::tw::host::table->fail("mbarrier.arrive: more arrivals than the phase expects", where);
  ::tw::host::table->release(barrier);
  --state.pending;
  mbarrier_store(barrier, state);
}

// A transaction has ended. Returns the parity of the phase that it belongs to.
TW_HOST_PLAIN inline u32 mbarrier_complete(u64* barrier, u32 bytes) {
  MbarrierState state = mbarrier_load(barrier);
  const u32 parity = state.phase;
  state.bytes -= bytes;
  mbarrier_store(barrier, state);
  return parity;
}

struct MbarrierWait {
  const u64* barrier;
  u32 parity;
  char text[160];  // what a report says of a thread that waits
};

TW_HOST_PLAIN inline bool mbarrier_ready(const void* waiting) {
  auto& wait = *static_cast<MbarrierWait*>(const_cast<void*>(waiting));
  const MbarrierState state = mbarrier_load(wait.barrier);
  if (state.phase != wait.parity) return true;
  const int bytes = static_cast<int>(static_cast<u32>(state.bytes) << 10) >> 10;
  snprintf(wait.text, sizeof(wait.text), "mbarrier.try_wait.parity %u: the phase lacks %u of %u arrivals and %d bytes of transactions",
           wait.parity, static_cast<u32>(state.pending), static_cast<u32>(state.expected), bytes);
  return false;
}

TW_HOST_PLAIN inline bool mbarrier_passed(u64* barrier, u32 parity) {
  if (mbarrier_load(barrier).phase == parity) return false;
  ::tw::host::table->settle_object(barrier, parity);
  ::tw::host::table->acquire(barrier);
  return true;
}

TW_HOST_PLAIN inline bool mbarrier_try(u64* barrier, u32 parity, const void* where) {
  mbarrier_check(barrier, ::tw::host::Access::kBarrier, where);
  MbarrierWait wait{barrier, parity & 1u, {}};
  if (!mbarrier_ready(&wait)) {
    // The wait may end early: whoever does not repeat it has not waited.
    if (::tw::host::table->random(2) == 0) {
      ::tw::host::table->yield(where);
      return false;
    }
    ::tw::host::table->wait_until(mbarrier_ready, &wait, wait.text, where);
  }
  return mbarrier_passed(barrier, parity & 1u);
}

}  // namespace tw::ptx::host_detail
