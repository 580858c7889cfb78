// tilewright/host/ptx_async.h
// What each function of ptx_async.cuh means on the CPU, written from the PTX ISA. A copy moves its data at a moment drawn from the seed;
// until a wait has seen its end nobody may touch what it writes, or write what it reads.
#pragma once

#include "tilewright/host/mbarrier.h"
#include "tilewright/host/ptx_matrix.h"
#include "tilewright/host/tensor_map.h"

namespace tw::ptx {

namespace host_detail {

using ::tw::host::Access;
using ::tw::host::Group;

TW_HOST_PLAIN inline void check_aligned(const void* address, unsigned long bytes, const char* message, const void* where) {
  if (reinterpret_cast<unsigned long>(address) % bytes != 0) ::tw::host::table->fail(message, where);
}

// A copy of a run of bytes.
struct Copy {
  unsigned char* to;
  const unsigned char* from;
  u32 bytes, zeros;
  u64* barrier;
  const void* where;
};

TW_HOST_PLAIN inline unsigned copy_bytes(const void* operands) {
  const Copy& copy = *static_cast<const Copy*>(operands);
  __builtin_memcpy(copy.to, copy.from, copy.bytes);
  __builtin_memset(copy.to + copy.bytes, 0, copy.zeros);
  return copy.barrier == nullptr ? 0 : mbarrier_complete(copy.barrier, copy.bytes);
}
TW_HOST_PLAIN inline void land_cp_async(const void* operands) {
  const Copy& copy = *static_cast<const Copy*>(operands);
  ::tw::host::table->land(copy.to, copy.bytes + copy.zeros, true, false, copy.where);
}
TW_HOST_PLAIN inline void land_bulk_load(const void* operands) {
  const Copy& copy = *static_cast<const Copy*>(operands);
  ::tw::host::table->land(copy.to, copy.bytes, true, true, copy.where);
}
TW_HOST_PLAIN inline void land_bulk_store(const void* operands) {
  const Copy& copy = *static_cast<const Copy*>(operands);
  ::tw::host::table->land(copy.from, copy.bytes, false, true, copy.where);
}

TW_HOST_PLAIN inline void cp_async(void* shared, const void* global, u32 bytes, u32 source_bytes, const void* where) {
  const auto* const table = ::tw::host::table;
  check_aligned(shared, bytes, "cp.async: the address in shared memory is not a multiple of the size", where);
  check_aligned(global, bytes, "cp.async: the address in global memory is not a multiple of the size", where);
  if (source_bytes > bytes) table->fail("cp.async: more bytes to read than the copy has", where);
  if (source_bytes > 0) table->access(global, source_bytes, Access::kPackedRead, where);
  table->flight(shared, bytes, true, "cp.async", where);
  const Copy copy{
      static_cast<unsigned char*>(shared), static_cast<const unsigned char*>(global), source_bytes, bytes - source_bytes, nullptr, where};
  table->defer(Group::kCpAsync, nullptr, copy_bytes, land_cp_async, &copy, sizeof(copy), "cp.async", where);
}

}  // namespace host_detail

// ---- cp.async -----------------------------------------------------------------------------------------------------------------------

template <int kBytes>
TW_HOST_PRIMITIVE void cp_async_ca(void* shared, const void* global, u32 source_bytes = kBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  host_detail::cp_async(shared, global, kBytes, source_bytes, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void cp_async_cg(void* shared, const void* global, u32 source_bytes = 16) {
  host_detail::cp_async(shared, global, 16, source_bytes, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void cp_async_commit_group() { ::tw::host::table->commit(::tw::host::Group::kCpAsync); }
template <int kKeep>
TW_HOST_PRIMITIVE void cp_async_wait_group() {
  ::tw::host::table->settle(::tw::host::Group::kCpAsync, kKeep);
}
TW_HOST_PRIMITIVE void cp_async_wait_all() {
  ::tw::host::table->commit(::tw::host::Group::kCpAsync);
  ::tw::host::table->settle(::tw::host::Group::kCpAsync, 0);
}

// ---- mbarrier -----------------------------------------------------------------------------------------------------------------------

TW_HOST_PRIMITIVE void mbarrier_init(u64* barrier, u32 arrivals) {
  host_detail::mbarrier_check(barrier, ::tw::host::Access::kBarrierInit, TW_HOST_WHERE);
  if (arrivals == 0 || arrivals > host_detail::kMostArrivals)
    ::tw::host::table->fail("mbarrier.init: 1 to 2^20 - 1 arrivals are possible", TW_HOST_WHERE);
  *barrier = __builtin_bit_cast(u64, host_detail::MbarrierState{arrivals, arrivals, 0, 1, 0});
}
TW_HOST_PRIMITIVE void mbarrier_inval(u64* barrier) {
  host_detail::mbarrier_check(barrier, ::tw::host::Access::kBarrierInval, TW_HOST_WHERE);
  *barrier = ~u64{0};
}
TW_HOST_PRIMITIVE void mbarrier_arrive(u64* barrier) {
  host_detail::mbarrier_check(barrier, ::tw::host::Access::kBarrier, TW_HOST_WHERE);
  host_detail::mbarrier_arrive_once(barrier, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void mbarrier_arrive_cluster(u64* barrier) {
  host_detail::mbarrier_check(barrier, ::tw::host::Access::kBarrier, TW_HOST_WHERE);
  host_detail::mbarrier_arrive_once(barrier, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void mbarrier_expect_tx(u64* barrier, u32 bytes) {
  host_detail::mbarrier_check(barrier, ::tw::host::Access::kBarrier, TW_HOST_WHERE);
  host_detail::mbarrier_expect(barrier, bytes);
}
TW_HOST_PRIMITIVE void mbarrier_arrive_expect_tx(u64* barrier, u32 bytes) {
  host_detail::mbarrier_check(barrier, ::tw::host::Access::kBarrier, TW_HOST_WHERE);
  host_detail::mbarrier_expect(barrier, bytes);
  host_detail::mbarrier_arrive_once(barrier, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE bool mbarrier_test_wait_parity(u64* barrier, u32 parity) {
  host_detail::mbarrier_check(barrier, ::tw::host::Access::kBarrier, TW_HOST_WHERE);
  if (host_detail::mbarrier_passed(barrier, parity & 1u)) return true;
  ::tw::host::table->yield(TW_HOST_WHERE);  // it will be repeated
  return false;
}
TW_HOST_PRIMITIVE bool mbarrier_try_wait_parity(u64* barrier, u32 parity) {
  return host_detail::mbarrier_try(barrier, parity, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE bool mbarrier_try_wait_parity_cluster(u64* barrier, u32 parity) {
  return host_detail::mbarrier_try(barrier, parity, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void fence_mbarrier_init() { ::tw::host::table->fence_proxy(true); }
TW_HOST_PRIMITIVE void fence_proxy_async() { ::tw::host::table->fence_proxy(false); }

// ---- bulk copies --------------------------------------------------------------------------------------------------------------------

namespace host_detail {

TW_HOST_PLAIN inline void check_bulk(const void* shared, const void* global, u32 bytes, const void* where) {
  check_aligned(shared, 16, "cp.async.bulk: the address in shared memory is not a multiple of 16", where);
  check_aligned(global, 16, "cp.async.bulk: the address in global memory is not a multiple of 16", where);
  if (bytes == 0 || bytes % 16 != 0) ::tw::host::table->fail("cp.async.bulk: the size is not a multiple of 16", where);
}

}  // namespace host_detail

TW_HOST_PRIMITIVE void cp_async_bulk_shared_global(void* shared, const void* global, u32 bytes, u64* barrier) {
  using namespace host_detail;
  constexpr const char* kName = "cp.async.bulk";
  const auto* const table = ::tw::host::table;
  check_bulk(shared, global, bytes, TW_HOST_WHERE);
  mbarrier_check(barrier, Access::kBarrierAsync, TW_HOST_WHERE);
  table->access(global, bytes, Access::kPackedRead, TW_HOST_WHERE);
  table->flight(shared, bytes, true, kName, TW_HOST_WHERE);
  const Copy copy{static_cast<unsigned char*>(shared), static_cast<const unsigned char*>(global), bytes, 0, barrier, TW_HOST_WHERE};
  table->defer(Group::kObject, barrier, copy_bytes, land_bulk_load, &copy, sizeof(copy), kName, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void cp_async_bulk_global_shared(void* global, const void* shared, u32 bytes) {
  using namespace host_detail;
  constexpr const char* kName = "cp.async.bulk";
  const auto* const table = ::tw::host::table;
  check_bulk(shared, global, bytes, TW_HOST_WHERE);
  table->access(global, bytes, Access::kPackedWrite, TW_HOST_WHERE);
  table->flight(shared, bytes, false, kName, TW_HOST_WHERE);
  const Copy copy{static_cast<unsigned char*>(global), static_cast<const unsigned char*>(shared), bytes, 0, nullptr, TW_HOST_WHERE};
  table->defer(Group::kBulk, nullptr, copy_bytes, land_bulk_store, &copy, sizeof(copy), kName, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void cp_async_bulk_commit_group() { ::tw::host::table->commit(::tw::host::Group::kBulk); }
template <int kKeep>
TW_HOST_PRIMITIVE void cp_async_bulk_wait_group() {
  ::tw::host::table->settle(::tw::host::Group::kBulk, kKeep);
}
template <int kKeep>
TW_HOST_PRIMITIVE void cp_async_bulk_wait_group_read() {
  ::tw::host::table->settle(::tw::host::Group::kBulk, kKeep);
}

// ---- tensor copies ------------------------------------------------------------------------------------------------------------------

namespace host_detail {

using ::tw::host::HostTensorMap;

// The map itself: the kernel's parameter may be gone when the data moves.
struct TensorCopy {
  HostTensorMap map;
  unsigned char* shared;
  u64* barrier;
  const void* where;
  i32 at[5];
  bool stores;
};

TW_HOST_PLAIN inline u32 box_elements(const HostTensorMap& map) {
  u32 count = 1;
  for (int d = 0; d < map.rank; ++d) count *= map.box[d];
  return count;
}

// each(byte of the box in shared memory before the swizzle, address in global memory or null outside of the tensor, bytes), row by row of
// the innermost dimension.
template <typename Each>
TW_HOST_PLAIN inline void for_box(const TensorCopy& copy, Each each) {
  const HostTensorMap& map = copy.map;
  const u32 width = map.box[0], rows = box_elements(map) / width, size = map.element_bytes;
  for (u32 row = 0; row < rows; ++row) {
    unsigned char* address = map.base;
    bool inside = true;
    for (u32 d = 1, rest = row; d < map.rank; ++d) {
      const i64 at = i64{copy.at[d]} + rest % map.box[d];
      rest /= map.box[d];
      inside = inside && at >= 0 && static_cast<u64>(at) < map.dims[d];
      address += at * static_cast<i64>(map.strides[d - 1]);
    }
    const i64 first = copy.at[0], last = static_cast<i64>(map.dims[0]);
    const auto clamp = [&](i64 x) TW_HOST_PLAIN { return static_cast<u32>(x < 0 ? 0 : x > width ? width : x); };
    const u32 begin = inside ? clamp(-first) : width, end = inside ? clamp(last - first) : width;
    if (begin > 0) each(row * width * size, nullptr, begin * size);
    if (begin < end) each((row * width + begin) * size, address + (first + begin) * size, (end - begin) * size);
    if (end < width && end >= begin) each((row * width + end) * size, nullptr, (width - end) * size);
  }
}

TW_HOST_PLAIN inline unsigned copy_tensor(const void* operands) {
  const TensorCopy& copy = *static_cast<const TensorCopy*>(operands);
  const auto base = reinterpret_cast<unsigned long>(copy.shared);
  for_box(copy, [&](u32 offset, unsigned char* global, u32 bytes) TW_HOST_PLAIN {
    for (u32 i = 0; i < bytes; ++i) {
      auto* const shared = reinterpret_cast<unsigned char*>(::tw::host::swizzled(base + offset + i, copy.map.swizzle));
      if (copy.stores && global != nullptr) global[i] = *shared;
      if (!copy.stores)
        *shared = global != nullptr ? global[i] : static_cast<unsigned char>(copy.map.fill_bits >> i % copy.map.element_bytes * 8);
    }
  });
  return copy.stores ? 0 : mbarrier_complete(copy.barrier, box_elements(copy.map) * copy.map.element_bytes);
}
TW_HOST_PLAIN inline void land_tensor(const void* operands) {
  const TensorCopy& copy = *static_cast<const TensorCopy*>(operands);
  ::tw::host::table->land(copy.shared, box_elements(copy.map) * copy.map.element_bytes, !copy.stores, true, copy.where);
}

TW_HOST_PLAIN inline void tensor_copy(TensorCopy& copy, const TensorMap* given, int rank) {
  constexpr const char* kName = "cp.async.bulk.tensor";
  const auto* const table = ::tw::host::table;
  table->access(given, sizeof(HostTensorMap), Access::kPackedRead, copy.where);
  __builtin_memcpy(&copy.map, given, sizeof(HostTensorMap));
  if (copy.map.magic != HostTensorMap::kMagic) table->fail("cp.async.bulk.tensor: not a tensor map made for the CPU", copy.where);
  if (copy.map.rank != rank) table->fail("cp.async.bulk.tensor: the tensor map has another rank", copy.where);
  const unsigned long alignment = copy.map.swizzle == ::tw::host::Swizzle::kNone ? 128 : 128ul << static_cast<int>(copy.map.swizzle);
  check_aligned(copy.shared, alignment,
                "cp.async.bulk.tensor: the address in shared memory is not a multiple of 128 or of the swizzle's repeat (256, 512, 1024)",
                copy.where);
  if (!copy.stores) mbarrier_check(copy.barrier, Access::kBarrierAsync, copy.where);
  for_box(copy, [&](u32, unsigned char* global, u32 bytes) TW_HOST_PLAIN {
    if (global != nullptr) table->access(global, bytes, copy.stores ? Access::kPackedWrite : Access::kPackedRead, copy.where);
  });
  table->flight(copy.shared, box_elements(copy.map) * copy.map.element_bytes, !copy.stores, kName, copy.where);
  table->defer(copy.stores ? Group::kBulk : Group::kObject, copy.barrier, copy_tensor, land_tensor, &copy, sizeof(copy), kName, copy.where);
}

}  // namespace host_detail

// A tensor map in memory is all that is needed here.
TW_HOST_PRIMITIVE void prefetch_tensormap(const TensorMap*) {}

template <int kRank>
TW_HOST_PRIMITIVE void cp_async_bulk_tensor_shared_global(void* shared, const TensorMap* map, const i32 (&at)[kRank], u64* barrier) {
  static_assert(kRank >= 1 && kRank <= 5);
  host_detail::TensorCopy copy{{}, static_cast<unsigned char*>(shared), barrier, TW_HOST_WHERE, {}, false};
  for (int d = 0; d < kRank; ++d) copy.at[d] = at[d];
  host_detail::tensor_copy(copy, map, kRank);
}
template <int kRank>
TW_HOST_PRIMITIVE void cp_async_bulk_tensor_global_shared(const TensorMap* map, const i32 (&at)[kRank], const void* shared) {
  static_assert(kRank >= 1 && kRank <= 5);
  host_detail::TensorCopy copy{{}, static_cast<unsigned char*>(const_cast<void*>(shared)), nullptr, TW_HOST_WHERE, {}, true};
  for (int d = 0; d < kRank; ++d) copy.at[d] = at[d];
  host_detail::tensor_copy(copy, map, kRank);
}

// ---- named barriers -----------------------------------------------------------------------------------------------------------------

TW_HOST_PRIMITIVE void bar_sync(u32 id, u32 threads, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  ::tw::host::table->barrier(id, threads, true, file, line, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void bar_arrive(u32 id, u32 threads, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  ::tw::host::table->barrier(id, threads, false, file, line, TW_HOST_WHERE);
}

// ---- clusters -----------------------------------------------------------------------------------------------------------------------

TW_HOST_PRIMITIVE u32 cluster_ctarank() { return ::tw::host::table->thread()->cluster_rank; }
TW_HOST_PRIMITIVE u32 cluster_nctarank() {
  const ::tw::host::Dim3 dims = ::tw::host::table->thread()->cluster_dim;
  return dims.x * dims.y * dims.z;
}
TW_HOST_PRIMITIVE void barrier_cluster_arrive() { ::tw::host::table->cluster_arrive(true, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void barrier_cluster_arrive_relaxed() { ::tw::host::table->cluster_arrive(false, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void barrier_cluster_wait() { ::tw::host::table->cluster_wait(true, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void* mapa(const void* address, u32 rank) { return ::tw::host::table->map_shared(address, rank, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE u32 ld_shared_cluster_u32(const void* address) {
  return host_detail::load<u32>(address, ::tw::host::Access::kRead, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void st_shared_cluster_u32(void* address, u32 value) { host_detail::store(address, value, TW_HOST_WHERE); }

namespace host_detail {

struct AsyncStore {
  u32* to;
  u32 value;
  u64* barrier;
  const void* where;
};
TW_HOST_PLAIN inline unsigned store_word(const void* operands) {
  const AsyncStore& store = *static_cast<const AsyncStore*>(operands);
  *store.to = store.value;
  return mbarrier_complete(store.barrier, 4);
}
TW_HOST_PLAIN inline void land_word(const void* operands) {
  const AsyncStore& store = *static_cast<const AsyncStore*>(operands);
  ::tw::host::table->land(store.to, 4, true, true, store.where);
}

}  // namespace host_detail

TW_HOST_PRIMITIVE void st_async_u32(void* address, u32 value, u64* barrier) {
  using namespace host_detail;
  check_aligned(address, 4, "st.async: the address is not a multiple of 4", TW_HOST_WHERE);
  mbarrier_check(barrier, Access::kBarrierAsync, TW_HOST_WHERE);
  ::tw::host::table->flight(address, 4, true, "st.async", TW_HOST_WHERE);
  const AsyncStore store{static_cast<u32*>(address), value, barrier, TW_HOST_WHERE};
  ::tw::host::table->defer(Group::kObject, barrier, store_word, land_word, &store, sizeof(store), "st.async", TW_HOST_WHERE);
}

// ---- dependent launches -------------------------------------------------------------------------------------------------------------

// Kernels run one after the other here: what is waited for is over.
TW_HOST_PRIMITIVE void griddepcontrol_wait() {}
TW_HOST_PRIMITIVE void griddepcontrol_launch_dependents() {}

}  // namespace tw::ptx
