// tilewright/host/atomics.h
// Atomic operations on global and shared memory. Blocks run on different OS threads, so they are the processor's own atomics.
#pragma once

#include "tilewright/host/abi.h"

namespace tw::host {

// Replaces *address by next(old) as one indivisible access; returns old.
template <typename Value, typename Next>
TW_HOST_PLAIN inline Value atomic_update(Value* address, Next next, const void* where) {
  table->access(address, sizeof(Value), Access::kAtomic, where);
  Value old;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  for (;;) {
    Value wanted = next(old);
    if (__atomic_compare_exchange(address, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
  }
}

}  // namespace tw::host

template <typename Value>
TW_HOST_PRIMITIVE Value atomicAdd(Value* address, Value value) {
  return ::tw::host::atomic_update(
      address, [=](Value old) { return static_cast<Value>(old + value); }, TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value atomicSub(Value* address, Value value) {
  return ::tw::host::atomic_update(
      address, [=](Value old) { return static_cast<Value>(old - value); }, TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value atomicMin(Value* address, Value value) {
  return ::tw::host::atomic_update(
      address, [=](Value old) { return value < old ? value : old; }, TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value atomicMax(Value* address, Value value) {
  return ::tw::host::atomic_update(
      address, [=](Value old) { return old < value ? value : old; }, TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value atomicAnd(Value* address, Value value) {
  return ::tw::host::atomic_update(
      address, [=](Value old) { return old & value; }, TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value atomicOr(Value* address, Value value) {
  return ::tw::host::atomic_update(
      address, [=](Value old) { return old | value; }, TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value atomicXor(Value* address, Value value) {
  return ::tw::host::atomic_update(
      address, [=](Value old) { return old ^ value; }, TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value atomicExch(Value* address, Value value) {
  return ::tw::host::atomic_update(
      address, [=](Value) { return value; }, TW_HOST_WHERE);
}
template <typename Value>
TW_HOST_PRIMITIVE Value atomicCAS(Value* address, Value expected, Value value) {
  const Value old = ::tw::host::atomic_update(
      address, [=](Value seen) { return seen == expected ? value : seen; }, TW_HOST_WHERE);
  // A lock is taken in a loop: its holder must come to run.
  if (!(old == expected)) ::tw::host::table->yield(TW_HOST_WHERE);
  return old;
}
TW_HOST_PRIMITIVE unsigned atomicInc(unsigned* address, unsigned limit) {
  return ::tw::host::atomic_update(
      address, [=](unsigned old) { return old >= limit ? 0u : old + 1; }, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE unsigned atomicDec(unsigned* address, unsigned limit) {
  return ::tw::host::atomic_update(
      address, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; }, TW_HOST_WHERE);
}

// Of a narrower or wider scope: one address space and one clock of the processor's own make them the same here.
#define TW_HOST_SCOPED_ATOMIC(name)                             \
  template <typename Value>                                     \
  __forceinline__ Value name##_block(Value* at, Value value) {  \
    return name(at, value);                                     \
  }                                                             \
  template <typename Value>                                     \
  __forceinline__ Value name##_system(Value* at, Value value) { \
    return name(at, value);                                     \
  }
TW_HOST_SCOPED_ATOMIC(atomicAdd)
TW_HOST_SCOPED_ATOMIC(atomicSub)
TW_HOST_SCOPED_ATOMIC(atomicMin)
TW_HOST_SCOPED_ATOMIC(atomicMax)
TW_HOST_SCOPED_ATOMIC(atomicAnd)
TW_HOST_SCOPED_ATOMIC(atomicOr)
TW_HOST_SCOPED_ATOMIC(atomicXor)
TW_HOST_SCOPED_ATOMIC(atomicExch)
#undef TW_HOST_SCOPED_ATOMIC
template <typename Value>
__forceinline__ Value atomicCAS_block(Value* at, Value expected, Value value) {
  return atomicCAS(at, expected, value);
}
template <typename Value>
__forceinline__ Value atomicCAS_system(Value* at, Value expected, Value value) {
  return atomicCAS(at, expected, value);
}
