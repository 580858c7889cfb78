// tilewright/ptx_async.cuh
// Asm of copies that run beside the threads, of mbarriers, clusters and matrices in shared memory: as in ptx.cuh each function is named
// after its instruction and says its PTX ISA version and SM. Addresses are generic; those of shared memory are converted here. Apart from
// ptx.cuh, as its text costs NVRTC time that most kernels need not spend.
#pragma once

#include "tilewright/ptx.cuh"

namespace tw {

// What the host's encode_tensor_map() fills; a kernel takes it as a __grid_constant__ parameter or points to it in global memory.
struct alignas(64) TensorMap {
  u64 words[16];
};

}  // namespace tw

#ifdef TILEWRIGHT_HOST
#include "tilewright/host/ptx_async.h"  // the same functions, for the CPU
#else

namespace tw::ptx {

namespace detail {

__device__ __forceinline__ u32 shared_address(const void* generic) { return static_cast<u32>(__cvta_generic_to_shared(generic)); }

}  // namespace detail

// ---- cp.async -----------------------------------------------------------------------------------------------------------------------

// cp.async.ca.shared.global: kBytes 4, 8 or 16, of which the first `source_bytes` are read and the rest become zero. PTX 7.0, sm_80.
template <int kBytes>
__device__ __forceinline__ void cp_async_ca(void* shared, const void* global, u32 source_bytes = kBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(detail::shared_address(shared)), "l"(global), "n"(kBytes),
               "r"(source_bytes)
               : "memory");
}

// cp.async.cg.shared.global: 16 bytes, past L1. PTX 7.0, sm_80.
__device__ __forceinline__ void cp_async_cg(void* shared, const void* global, u32 source_bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(detail::shared_address(shared)), "l"(global), "r"(source_bytes)
               : "memory");
}

// cp.async.commit_group: closes this thread's group. PTX 7.0, sm_80.
__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// cp.async.wait_group: all but the kKeep youngest closed groups have ended. PTX 7.0, sm_80.
template <int kKeep>
__device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kKeep) : "memory");
}

// cp.async.wait_all: closes the group and waits for all. PTX 7.0, sm_80.
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// ---- mbarrier -----------------------------------------------------------------------------------------------------------------------

// mbarrier.init: each phase expects `arrivals`. PTX 7.0, sm_80.
__device__ __forceinline__ void mbarrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(detail::shared_address(barrier)), "r"(arrivals) : "memory");
}

// mbarrier.inval: the word is ordinary memory again. PTX 7.0, sm_80.
__device__ __forceinline__ void mbarrier_inval(u64* barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(detail::shared_address(barrier)) : "memory");
}

// mbarrier.arrive: one arrival, release at block scope. PTX 7.0, sm_80.
__device__ __forceinline__ void mbarrier_arrive(u64* barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(detail::shared_address(barrier)) : "memory");
}

// mbarrier.arrive.release.cluster on a barrier that mapa() found in any block of the cluster. PTX 8.0, sm_90.
__device__ __forceinline__ void mbarrier_arrive_cluster(u64* barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(detail::shared_address(barrier)) : "memory");
}

// mbarrier.expect_tx: the phase also waits for `bytes` bytes. PTX 8.0, sm_90.
__device__ __forceinline__ void mbarrier_expect_tx(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(detail::shared_address(barrier)), "r"(bytes) : "memory");
}

// mbarrier.arrive.expect_tx: both. PTX 8.0, sm_90.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u64* barrier, u32 bytes) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(detail::shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

// mbarrier.test_wait.parity: whether the phase of this parity has ended. Does not wait. PTX 7.1, sm_80.
__device__ __forceinline__ bool mbarrier_test_wait_parity(u64* barrier, u32 parity) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(detail::shared_address(barrier)), "r"(parity)
               : "memory");
  return done != 0;
}

// mbarrier.try_wait.parity: the same, after a wait of bounded length. To be repeated until it is true. PTX 7.8, sm_90.
__device__ __forceinline__ bool mbarrier_try_wait_parity(u64* barrier, u32 parity) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(detail::shared_address(barrier)), "r"(parity)
               : "memory");
  return done != 0;
}

// mbarrier.try_wait.parity.acquire.cluster: sees what other blocks of the cluster did before they arrived. PTX 8.0, sm_90.
__device__ __forceinline__ bool mbarrier_try_wait_parity_cluster(u64* barrier, u32 parity) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(detail::shared_address(barrier)), "r"(parity)
               : "memory");
  return done != 0;
}

// fence.mbarrier_init: initialised mbarriers are seen by the cluster and by copies. PTX 8.0, sm_90.
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// fence.proxy.async: what the threads wrote to shared memory is seen by bulk copies and wgmma. PTX 8.0, sm_90.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- bulk copies --------------------------------------------------------------------------------------------------------------------
// Addresses and sizes are multiples of 16 bytes.

// cp.async.bulk.shared::cluster.global: counted in bytes by the mbarrier. PTX 8.0, sm_90.
__device__ __forceinline__ void cp_async_bulk_shared_global(void* shared, const void* global, u32 bytes, u64* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(detail::shared_address(shared)),
      "l"(global), "r"(bytes), "r"(detail::shared_address(barrier))
      : "memory");
}

// cp.async.bulk.global.shared::cta: part of this thread's open bulk group. PTX 8.0, sm_90.
__device__ __forceinline__ void cp_async_bulk_global_shared(void* global, const void* shared, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(detail::shared_address(shared)), "r"(bytes)
               : "memory");
}

// cp.async.bulk.commit_group: closes this thread's bulk group. PTX 8.0, sm_90.
__device__ __forceinline__ void cp_async_bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// cp.async.bulk.wait_group: all but the kKeep youngest closed groups have ended. PTX 8.0, sm_90.
template <int kKeep>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kKeep) : "memory");
}

// cp.async.bulk.wait_group.read: they have read their sources. PTX 8.0, sm_90.
template <int kKeep>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kKeep) : "memory");
}

// ---- tensor copies ------------------------------------------------------------------------------------------------------------------

// prefetch.tensormap. PTX 8.0, sm_90.
__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

// cp.async.bulk.tensor, tiled, global to shared: the box at `at` (innermost dimension first), zero outside of the tensor; the mbarrier
// counts the whole box. `shared` is aligned to 128 bytes, or to the swizzle's 1024. PTX 8.0, sm_90.
template <int kRank>
__device__ __forceinline__ void cp_async_bulk_tensor_shared_global(void* shared, const TensorMap* map, const i32 (&at)[kRank],
                                                                   u64* barrier) {
  static_assert(kRank >= 1 && kRank <= 5);
  const u32 to = detail::shared_address(shared), counts = detail::shared_address(barrier);
  if constexpr (kRank == 1) {
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(to),
                 "l"(map), "r"(at[0]), "r"(counts)
                 : "memory");
  }
  if constexpr (kRank == 2) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(at[0]), "r"(at[1]), "r"(counts)
                 : "memory");
  }
  if constexpr (kRank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
        "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(counts)
        : "memory");
  }
  if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
        "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(counts)
        : "memory");
  }
  if constexpr (kRank == 5) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(
            to),
        "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(counts)
        : "memory");
  }
}

// cp.async.bulk.tensor, tiled, shared to global: what lies outside of the tensor is not written. Part of the open bulk group. PTX 8.0,
// sm_90.
template <int kRank>
__device__ __forceinline__ void cp_async_bulk_tensor_global_shared(const TensorMap* map, const i32 (&at)[kRank], const void* shared) {
  static_assert(kRank >= 1 && kRank <= 5);
  const u32 from = detail::shared_address(shared);
  if constexpr (kRank == 1) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];" ::"l"(map), "r"(at[0]), "r"(from)
                 : "memory");
  }
  if constexpr (kRank == 2) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(at[0]), "r"(at[1]),
                 "r"(from)
                 : "memory");
  }
  if constexpr (kRank == 3) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(at[0]), "r"(at[1]),
                 "r"(at[2]), "r"(from)
                 : "memory");
  }
  if constexpr (kRank == 4) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map), "r"(at[0]),
                 "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(from)
                 : "memory");
  }
  if constexpr (kRank == 5) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(map), "r"(at[0]),
                 "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(from)
                 : "memory");
  }
}

// ---- matrices in shared memory ------------------------------------------------------------------------------------------------------
// 8 x 8 matrices of 16-bit elements. Lane 8 m + i names row i of matrix m, 16 bytes; lane 4 g + t holds of each matrix columns 2 t and
// 2 t + 1 of row g, or with trans rows 2 t and 2 t + 1 of column g.

// ldmatrix.sync.aligned.m8n8.x1.shared.b16. PTX 6.5, sm_75.
__device__ __forceinline__ void ldmatrix_x1(u32 (&words)[1], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(words[0]) : "r"(detail::shared_address(row)) : "memory");
}

// ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16. PTX 6.5, sm_75.
__device__ __forceinline__ void ldmatrix_x1_trans(u32 (&words)[1], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(words[0]) : "r"(detail::shared_address(row)) : "memory");
}

// ldmatrix.sync.aligned.m8n8.x2.shared.b16. PTX 6.5, sm_75.
__device__ __forceinline__ void ldmatrix_x2(u32 (&words)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(detail::shared_address(row))
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16. PTX 6.5, sm_75.
__device__ __forceinline__ void ldmatrix_x2_trans(u32 (&words)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(detail::shared_address(row))
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x4.shared.b16. PTX 6.5, sm_75.
__device__ __forceinline__ void ldmatrix_x4(u32 (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(detail::shared_address(row))
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16. PTX 6.5, sm_75.
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(detail::shared_address(row))
               : "memory");
}

// stmatrix.sync.aligned.m8n8.x1.shared.b16. PTX 7.8, sm_90.
__device__ __forceinline__ void stmatrix_x1(void* row, const u32 (&words)[1]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(detail::shared_address(row)), "r"(words[0]) : "memory");
}

// stmatrix.sync.aligned.m8n8.x1.trans.shared.b16. PTX 7.8, sm_90.
__device__ __forceinline__ void stmatrix_x1_trans(void* row, const u32 (&words)[1]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(detail::shared_address(row)), "r"(words[0]) : "memory");
}

// stmatrix.sync.aligned.m8n8.x2.shared.b16. PTX 7.8, sm_90.
__device__ __forceinline__ void stmatrix_x2(void* row, const u32 (&words)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(detail::shared_address(row)), "r"(words[0]), "r"(words[1])
               : "memory");
}

// stmatrix.sync.aligned.m8n8.x2.trans.shared.b16. PTX 7.8, sm_90.
__device__ __forceinline__ void stmatrix_x2_trans(void* row, const u32 (&words)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(detail::shared_address(row)), "r"(words[0]),
               "r"(words[1])
               : "memory");
}

// stmatrix.sync.aligned.m8n8.x4.shared.b16. PTX 7.8, sm_90.
__device__ __forceinline__ void stmatrix_x4(void* row, const u32 (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(detail::shared_address(row)), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// stmatrix.sync.aligned.m8n8.x4.trans.shared.b16. PTX 7.8, sm_90.
__device__ __forceinline__ void stmatrix_x4_trans(void* row, const u32 (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(detail::shared_address(row)), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// ---- named barriers -----------------------------------------------------------------------------------------------------------------

// bar.sync: `threads` threads, a multiple of 32, meet at barrier `id` (0 to 15). PTX 1.0, sm_20.
__device__ __forceinline__ void bar_sync(u32 id, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// bar.arrive: counts, and does not wait. PTX 2.0, sm_20.
__device__ __forceinline__ void bar_arrive(u32 id, u32 threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// ---- clusters -----------------------------------------------------------------------------------------------------------------------

// %cluster_ctarank: the block's place in its cluster. PTX 7.8, sm_90.
__device__ __forceinline__ u32 cluster_ctarank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// %cluster_nctarank: blocks of the cluster. PTX 7.8, sm_90.
__device__ __forceinline__ u32 cluster_nctarank() {
  u32 count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}

// barrier.cluster.arrive.release. PTX 7.8, sm_90.
__device__ __forceinline__ void barrier_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }

// barrier.cluster.arrive.relaxed: orders no memory. PTX 8.0, sm_90.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }

// barrier.cluster.wait.acquire. PTX 7.8, sm_90.
__device__ __forceinline__ void barrier_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// mapa: the same place in the shared memory of block `rank` of the cluster, as a generic address. PTX 7.8, sm_90.
__device__ __forceinline__ void* mapa(const void* address, u32 rank) {
  void* mapped;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(address), "r"(rank));
  return mapped;
}

// ld.shared::cluster.u32 at an address that mapa() found. PTX 7.8, sm_90.
__device__ __forceinline__ u32 ld_shared_cluster_u32(const void* address) {
  u32 value;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(detail::shared_address(address)) : "memory");
  return value;
}

// st.shared::cluster.u32. PTX 7.8, sm_90.
__device__ __forceinline__ void st_shared_cluster_u32(void* address, u32 value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(detail::shared_address(address)), "r"(value) : "memory");
}

// st.async.shared::cluster.u32: counted as 4 bytes by an mbarrier of the same block. PTX 8.1, sm_90.
__device__ __forceinline__ void st_async_u32(void* address, u32 value, u64* barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(detail::shared_address(address)),
               "r"(value), "r"(detail::shared_address(barrier))
               : "memory");
}

// ---- dependent launches -------------------------------------------------------------------------------------------------------------

// griddepcontrol.wait: the kernels that this one depends on have ended, their memory is seen. PTX 7.8, sm_90.
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// griddepcontrol.launch_dependents: kernels that depend on this one may begin. PTX 7.8, sm_90.
__device__ __forceinline__ void griddepcontrol_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace tw::ptx

#endif
