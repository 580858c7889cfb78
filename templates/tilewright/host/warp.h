// tilewright/host/warp.h
// Barriers, fences and the collectives of a warp. Every collective waits until all lanes that its mask names have come.
#pragma once

#include "tilewright/host/abi.h"

// ---- the block ----------------------------------------------------------------------------------------------------------------------

TW_HOST_PRIMITIVE void __syncthreads(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  ::tw::host::table->barrier(0, 0, true, file, line, TW_HOST_WHERE);
}
namespace tw::host {

// bar.sync and bar.arrive: `threads` threads, a multiple of 32, meet at barrier `id`.
TW_HOST_PRIMITIVE void bar_sync(unsigned id, unsigned threads, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  table->barrier(id, threads, true, file, line, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void bar_arrive(unsigned id, unsigned threads, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  table->barrier(id, threads, false, file, line, TW_HOST_WHERE);
}

}  // namespace tw::host

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
TW_HOST_PRIMITIVE void __nanosleep(unsigned) { ::tw::host::table->yield(TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void __trap() { ::tw::host::table->fail("__trap", TW_HOST_WHERE); }

namespace tw::host {

// The predicate of a block that reduces it: operands of one thread.
struct Vote {
  int predicate;
  unsigned result;
};

// Applies `each(operands of a lane, lane)` to the lanes of a mask.
template <typename Operands, typename Each>
TW_HOST_PLAIN inline void for_lanes(void* const* lanes, unsigned mask, Each each) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) each(*static_cast<Operands*>(lanes[lane]), lane);
  }
}

template <typename Value>
struct Shuffle {
  Value value;
  unsigned source;  // lane it wants the value of; 32: its own
  Value result;
};

template <typename Value>
TW_HOST_PLAIN inline void combine_shuffle(void* const* lanes, unsigned mask) {
  for_lanes<Shuffle<Value>>(lanes, mask, [&](Shuffle<Value>& mine, unsigned lane) {
    // A lane outside the mask has no defined value: NaN and absurd integers are what is seen at once.
    const unsigned source = mine.source >= 32 ? lane : mine.source;
    if (mask >> source & 1) {
      mine.result = static_cast<Shuffle<Value>*>(lanes[source])->value;
    } else {
      __builtin_memset(&mine.result, 0xff, sizeof(Value));
    }
  });
}

template <typename Value>
TW_HOST_PLAIN inline Value shuffle(unsigned mask, Value value, unsigned source, const char* name, const void* where) {
  Shuffle<Value> operands{value, source, value};
  table->converge(mask, combine_shuffle<Value>, &operands, false, name, where);
  return operands.result;
}

TW_HOST_PRIMITIVE unsigned lane_of_thread() {
  const Thread& thread = *table->thread();
  return ((thread.thread_idx.z * thread.block_dim.y + thread.thread_idx.y) * thread.block_dim.x + thread.thread_idx.x) & 31;
}

TW_HOST_PLAIN inline void combine_ballot(void* const* lanes, unsigned mask) {
  unsigned set = 0;
  for_lanes<Vote>(lanes, mask, [&](Vote& vote, unsigned lane) { set |= (vote.predicate != 0 ? 1u : 0u) << lane; });
  for_lanes<Vote>(lanes, mask, [&](Vote& vote, unsigned) { vote.result = set; });
}

TW_HOST_PLAIN inline unsigned ballot(unsigned mask, int predicate, const char* name, const void* where) {
  Vote vote{predicate, 0};
  table->converge(mask, combine_ballot, &vote, false, name, where);
  return vote.result;
}

struct Nothing {};
inline void combine_nothing(void* const*, unsigned) {}

template <typename Value>
struct Match {
  Value value;
  unsigned same;
};
template <typename Value>
TW_HOST_PLAIN inline void combine_match(void* const* lanes, unsigned mask) {
  for_lanes<Match<Value>>(lanes, mask, [&](Match<Value>& mine, unsigned) {
    mine.same = 0;
    for_lanes<Match<Value>>(lanes, mask, [&](Match<Value>& other, unsigned lane) {
      mine.same |= (__builtin_memcmp(&mine.value, &other.value, sizeof(Value)) == 0 ? 1u : 0u) << lane;
    });
  });
}

template <typename Value>
struct Reduction {
  Value value;
  Value result;
};
struct AddOp {
  template <typename Value>
  static Value merge(Value a, Value b) {
    return static_cast<Value>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  }
};
struct MinOp {
  template <typename Value>
  static Value merge(Value a, Value b) {
    return b < a ? b : a;
  }
};
struct MaxOp {
  template <typename Value>
  static Value merge(Value a, Value b) {
    return a < b ? b : a;
  }
};
struct AndOp {
  static unsigned merge(unsigned a, unsigned b) { return a & b; }
};
struct OrOp {
  static unsigned merge(unsigned a, unsigned b) { return a | b; }
};
struct XorOp {
  static unsigned merge(unsigned a, unsigned b) { return a ^ b; }
};
template <typename Op, typename Value>
TW_HOST_PLAIN inline void combine_reduction(void* const* lanes, unsigned mask) {
  bool first = true;
  Value total{};
  for_lanes<Reduction<Value>>(lanes, mask, [&](Reduction<Value>& mine, unsigned) {
    total = first ? mine.value : Op::merge(total, mine.value);
    first = false;
  });
  for_lanes<Reduction<Value>>(lanes, mask, [&](Reduction<Value>& mine, unsigned) { mine.result = total; });
}
template <typename Op, typename Value>
TW_HOST_PLAIN inline Value reduce(unsigned mask, Value value, const char* name, const void* where) {
  Reduction<Value> operands{value, value};
  table->converge(mask, combine_reduction<Op, Value>, &operands, false, name, where);
  return operands.result;
}

}  // namespace tw::host

// ---- the warp -----------------------------------------------------------------------------------------------------------------------

TW_HOST_PRIMITIVE void __syncwarp(unsigned mask = 0xffffffffu) {
  ::tw::host::Nothing nothing;
  ::tw::host::table->converge(mask, ::tw::host::combine_nothing, &nothing, true, "__syncwarp", TW_HOST_WHERE);
}

// Lanes of a segment of `width` exchange; outside of it a lane keeps its own value.
template <typename Value>
TW_HOST_PRIMITIVE Value __shfl_sync(unsigned mask, Value value, int source, int width = 32) {
  const unsigned lane = ::tw::host::lane_of_thread(), segment = lane & ~static_cast<unsigned>(width - 1);
  return ::tw::host::shuffle(mask, value, segment + (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1)), "__shfl_sync",
                             TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value __shfl_up_sync(unsigned mask, Value value, unsigned delta, int width = 32) {
  const unsigned lane = ::tw::host::lane_of_thread(), within = lane & static_cast<unsigned>(width - 1);
  return ::tw::host::shuffle(mask, value, within >= delta ? lane - delta : 32u, "__shfl_up_sync", TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value __shfl_down_sync(unsigned mask, Value value, unsigned delta, int width = 32) {
  const unsigned lane = ::tw::host::lane_of_thread(), within = lane & static_cast<unsigned>(width - 1);
  return ::tw::host::shuffle(mask, value, within + delta < static_cast<unsigned>(width) ? lane + delta : 32u, "__shfl_down_sync",
                             TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value __shfl_xor_sync(unsigned mask, Value value, int lanes, int width = 32) {
  const unsigned lane = ::tw::host::lane_of_thread(), source = lane ^ static_cast<unsigned>(lanes);
  // Later segments may be read from, earlier ones not: PTX's rule for bfly.
  const unsigned end = (lane & ~static_cast<unsigned>(width - 1)) + static_cast<unsigned>(width);
  return ::tw::host::shuffle(mask, value, source < end ? source : 32u, "__shfl_xor_sync", TW_HOST_WHERE);
}

TW_HOST_PRIMITIVE unsigned __ballot_sync(unsigned mask, int predicate) {
  return ::tw::host::ballot(mask, predicate, "__ballot_sync", TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE int __any_sync(unsigned mask, int predicate) {
  return ::tw::host::ballot(mask, predicate, "__any_sync", TW_HOST_WHERE) != 0;
}
TW_HOST_PRIMITIVE int __all_sync(unsigned mask, int predicate) {
  return ::tw::host::ballot(mask, predicate == 0, "__all_sync", TW_HOST_WHERE) == 0;
}
template <typename Value>
TW_HOST_PRIMITIVE unsigned __match_any_sync(unsigned mask, Value value) {
  ::tw::host::Match<Value> match{value, 0};
  ::tw::host::table->converge(mask, ::tw::host::combine_match<Value>, &match, false, "__match_any_sync", TW_HOST_WHERE);
  return match.same;
}
template <typename Value>
TW_HOST_PRIMITIVE unsigned __match_all_sync(unsigned mask, Value value, int* all) {
  ::tw::host::Match<Value> match{value, 0};
  ::tw::host::table->converge(mask, ::tw::host::combine_match<Value>, &match, false, "__match_all_sync", TW_HOST_WHERE);
  *all = match.same == mask ? 1 : 0;
  return *all ? mask : 0u;
}

template <typename Value>
TW_HOST_PRIMITIVE Value __reduce_add_sync(unsigned mask, Value value) {
  return ::tw::host::reduce<::tw::host::AddOp>(mask, value, "__reduce_add_sync", TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value __reduce_min_sync(unsigned mask, Value value) {
  return ::tw::host::reduce<::tw::host::MinOp>(mask, value, "__reduce_min_sync", TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value __reduce_max_sync(unsigned mask, Value value) {
  return ::tw::host::reduce<::tw::host::MaxOp>(mask, value, "__reduce_max_sync", TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE unsigned __reduce_and_sync(unsigned mask, unsigned value) {
  return ::tw::host::reduce<::tw::host::AndOp>(mask, value, "__reduce_and_sync", TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return ::tw::host::reduce<::tw::host::OrOp>(mask, value, "__reduce_or_sync", TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
  return ::tw::host::reduce<::tw::host::XorOp>(mask, value, "__reduce_xor_sync", TW_HOST_WHERE);
}
