// tilewright/host/checks.h
// The compiler's thread sanitizer calls a function at every access to memory. These are our own: each asks the executor, which knows
// tensors and shared memory. Nothing of the sanitizer's library is linked.
#pragma once

#include "tilewright/host/abi.h"

namespace tw::host {
#ifdef TILEWRIGHT_HOST_CHECKS
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif
}  // namespace tw::host

#ifdef TILEWRIGHT_HOST_CHECKS

#define TW_HOST_CHECK_ACCESS(name, bytes, kind) \
  TW_HOST_PLAIN void __tsan_##name(void* address) { ::tw::host::table->access(address, bytes, ::tw::host::Access::kind, TW_HOST_WHERE); }

extern "C" {
TW_HOST_PLAIN void __tsan_init() {}
TW_HOST_PLAIN void __tsan_func_entry(void*) {}
TW_HOST_PLAIN void __tsan_func_exit() {}

TW_HOST_CHECK_ACCESS(read1, 1, kRead)
TW_HOST_CHECK_ACCESS(read2, 2, kRead)
TW_HOST_CHECK_ACCESS(read4, 4, kRead)
TW_HOST_CHECK_ACCESS(read8, 8, kRead)
TW_HOST_CHECK_ACCESS(read16, 16, kRead)
TW_HOST_CHECK_ACCESS(write1, 1, kWrite)
TW_HOST_CHECK_ACCESS(write2, 2, kWrite)
TW_HOST_CHECK_ACCESS(write4, 4, kWrite)
TW_HOST_CHECK_ACCESS(write8, 8, kWrite)
TW_HOST_CHECK_ACCESS(write16, 16, kWrite)
// Parts of objects that need less alignment than the access has bytes: the compiler chose the width, not the kernel.
TW_HOST_CHECK_ACCESS(unaligned_read2, 2, kPackedRead)
TW_HOST_CHECK_ACCESS(unaligned_read4, 4, kPackedRead)
TW_HOST_CHECK_ACCESS(unaligned_read8, 8, kPackedRead)
TW_HOST_CHECK_ACCESS(unaligned_read16, 16, kPackedRead)
TW_HOST_CHECK_ACCESS(unaligned_write2, 2, kPackedWrite)
TW_HOST_CHECK_ACCESS(unaligned_write4, 4, kPackedWrite)
TW_HOST_CHECK_ACCESS(unaligned_write8, 8, kPackedWrite)
TW_HOST_CHECK_ACCESS(unaligned_write16, 16, kPackedWrite)
TW_HOST_CHECK_ACCESS(vptr_read, 8, kRead)
// A loop that reads a volatile word waits for somebody to write it.
#define TW_HOST_CHECK_VOLATILE(bytes)                                                           \
  TW_HOST_PLAIN void __tsan_volatile_read##bytes(void* address) {                               \
    ::tw::host::table->access(address, bytes, ::tw::host::Access::kAtomicRead, TW_HOST_WHERE);  \
    ::tw::host::table->yield(TW_HOST_WHERE);                                                    \
  }                                                                                             \
  TW_HOST_PLAIN void __tsan_volatile_write##bytes(void* address) {                              \
    ::tw::host::table->access(address, bytes, ::tw::host::Access::kAtomicWrite, TW_HOST_WHERE); \
  }
TW_HOST_CHECK_VOLATILE(1)
TW_HOST_CHECK_VOLATILE(2)
TW_HOST_CHECK_VOLATILE(4)
TW_HOST_CHECK_VOLATILE(8)
TW_HOST_CHECK_VOLATILE(16)
#undef TW_HOST_CHECK_VOLATILE
// A compound assignment: one read and one write of the same object.
TW_HOST_CHECK_ACCESS(read_write1, 1, kWrite)
TW_HOST_CHECK_ACCESS(read_write2, 2, kWrite)
TW_HOST_CHECK_ACCESS(read_write4, 4, kWrite)
TW_HOST_CHECK_ACCESS(read_write8, 8, kWrite)
TW_HOST_CHECK_ACCESS(read_write16, 16, kWrite)

TW_HOST_PLAIN void __tsan_vptr_update(void** address, void*) {
  ::tw::host::table->access(address, 8, ::tw::host::Access::kWrite, TW_HOST_WHERE);
}

// Copies of whole objects.
TW_HOST_PLAIN void __tsan_read_range(void* address, unsigned long bytes) {
  ::tw::host::table->access(address, bytes, ::tw::host::Access::kPackedRead, TW_HOST_WHERE);
}
TW_HOST_PLAIN void __tsan_write_range(void* address, unsigned long bytes) {
  ::tw::host::table->access(address, bytes, ::tw::host::Access::kPackedWrite, TW_HOST_WHERE);
}
TW_HOST_PLAIN void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  ::tw::host::table->access(from, bytes, ::tw::host::Access::kPackedRead, TW_HOST_WHERE);
  ::tw::host::table->access(to, bytes, ::tw::host::Access::kPackedWrite, TW_HOST_WHERE);
  return __builtin_memcpy(to, from, bytes);
}
TW_HOST_PLAIN void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
  ::tw::host::table->access(from, bytes, ::tw::host::Access::kPackedRead, TW_HOST_WHERE);
  ::tw::host::table->access(to, bytes, ::tw::host::Access::kPackedWrite, TW_HOST_WHERE);
  return __builtin_memmove(to, from, bytes);
}
TW_HOST_PLAIN void* __tsan_memset(void* to, int value, unsigned long bytes) {
  ::tw::host::table->access(to, bytes, ::tw::host::Access::kPackedWrite, TW_HOST_WHERE);
  return __builtin_memset(to, value, bytes);
}
}

#undef TW_HOST_CHECK_ACCESS

#endif
