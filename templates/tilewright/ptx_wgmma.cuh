// tilewright/ptx_wgmma.cuh
// Asm of wgmma: matrix products of a warpgroup (4 warps in a row, the first a multiple of 4), D[64, n] += A[64, k] B[k, n] with f32
// accumulators. Warp w, lane 4 g + t holds of D rows 16 w + g (d[4 j], d[4 j + 1]) and 16 w + g + 8 (d[4 j + 2], d[4 j + 3]) at columns 8 j
// + 2 t and the next; of A in registers what mma.sync holds of its 16 rows. From wgmma_mma_async to the wait for its group nobody may touch
// the accumulators or write A's registers, and ptxas does not see to that: write them after the wait alone.
#pragma once

#include "tilewright/ptx_async.cuh"

namespace tw {

// Where chunks of 16 bytes lie in shared memory: as in a tensor map, in the order of a descriptor's field.
enum class WgmmaSwizzle : u32 { kNone = 0, k128B = 1, k64B = 2, k32B = 3 };

}  // namespace tw

#ifdef TILEWRIGHT_HOST
#include "tilewright/host/ptx_wgmma.h"  // the same functions, for the CPU
#else

namespace tw::ptx {

// A matrix in shared memory, of tiles of 8 rows (of the m or n dimension) by 16 bytes of k, or the other way round where m or n is
// contiguous. K-major: `stride_bytes` from 8 rows to the next 8, `leading_bytes` from 16 bytes of k to the next, which only no swizzle
// uses. MN-major: `stride_bytes` from 8 values of k to the next 8 and `leading_bytes` from one swizzle's width of m or n to the next;
// without swizzle the two change places. For k further along, add its bytes / 16.
__device__ __forceinline__ u64 wgmma_descriptor(const void* shared, u32 leading_bytes, u32 stride_bytes, WgmmaSwizzle swizzle) {
  return u64{(detail::shared_address(shared) & 0x3ffffu) >> 4} | u64{(leading_bytes & 0x3ffffu) >> 4} << 16 |
         u64{(stride_bytes & 0x3ffffu) >> 4} << 32 | static_cast<u64>(swizzle) << 62;
}

// wgmma.fence: before the first wgmma_mma_async, and whenever other instructions have touched its registers. PTX 8.0, sm_90a.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// wgmma.commit_group. PTX 8.0, sm_90a.
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// wgmma.wait_group: all but the kKeep youngest groups have ended. PTX 8.0, sm_90a.
template <int kKeep>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kKeep) : "memory");
}

// No instruction: the compiler moves no access to these registers past it. To stand after a wait, before what it waited for is used.
template <int kCount>
__device__ __forceinline__ void wgmma_keep_order(float (&registers)[kCount]) {
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

namespace detail {

// One specialisation for each n: the text of the instruction must be a literal.
template <int kN>
struct Wgmma;

// clang-format off
#define TW_WGMMA(n, d, a, a_or_b, b, p_shared, p_registers, ...)                                                                         \
  template <>                                                                                                                            \
  struct Wgmma<n> {                                                                                                                      \
    static __device__ __forceinline__ void tf32(float (&acc)[n / 2], const u32 (&ar)[4], u64 bd, u32 scale) {                            \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_registers ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n                          \
                   "k8.f32.tf32.tf32 {" d "}, {" a "}, " b ", p, 1, 1;\n}"                                                               \
                   : __VA_ARGS__ : "r"(ar[0]), "r"(ar[1]), "r"(ar[2]), "r"(ar[3]), "l"(bd), "r"(scale) : "memory");                       \
    }                                                                                                                                    \
    static __device__ __forceinline__ void tf32(float (&acc)[n / 2], u64 ad, u64 bd, u32 scale) {                                        \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_shared ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n                             \
                   "k8.f32.tf32.tf32 {" d "}, " a_or_b ", p, 1, 1;\n}"                                                                   \
                   : __VA_ARGS__ : "l"(ad), "l"(bd), "r"(scale) : "memory");                                                             \
    }                                                                                                                                    \
    TW_WGMMA_HALF(n, f16, d, a, a_or_b, b, p_shared, p_registers, __VA_ARGS__)                                                           \
    TW_WGMMA_HALF(n, bf16, d, a, a_or_b, b, p_shared, p_registers, __VA_ARGS__)                                                          \
  };
#define TW_WGMMA_HALF(n, type, d, a, a_or_b, b, p_shared, p_registers, ...)                                                              \
  template <int kMajorB>                                                                                                                 \
  static __device__ __forceinline__ void type(float (&acc)[n / 2], const u32 (&ar)[4], u64 bd, u32 scale) {                              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_registers ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n                            \
                 "k16.f32." #type "." #type " {" d "}, {" a "}, " b ", p, 1, 1, " TW_WGMMA_NEXT_##n ";\n}"                                \
                 : __VA_ARGS__ : "r"(ar[0]), "r"(ar[1]), "r"(ar[2]), "r"(ar[3]), "l"(bd), "r"(scale), "n"(kMajorB) : "memory");           \
  }                                                                                                                                      \
  template <int kMajorA, int kMajorB>                                                                                                    \
  static __device__ __forceinline__ void type(float (&acc)[n / 2], u64 ad, u64 bd, u32 scale) {                                          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_shared ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n                               \
                 "k16.f32." #type "." #type " {" d "}, " a_or_b ", p, 1, 1, " TW_WGMMA_NEXT_SHARED_##n ";\n}"                            \
                 : __VA_ARGS__ : "l"(ad), "l"(bd), "r"(scale), "n"(kMajorA), "n"(kMajorB) : "memory");                                   \
  }

#define TW_WGMMA_NEXT_8 "%10"
#define TW_WGMMA_NEXT_SHARED_8 "%7, %8"
TW_WGMMA(8, "%0, %1, %2, %3",
         "%4, %5, %6, %7", "%4, %5", "%8", "%6", "%9",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]))
#undef TW_WGMMA_NEXT_8
#undef TW_WGMMA_NEXT_SHARED_8
#define TW_WGMMA_NEXT_16 "%14"
#define TW_WGMMA_NEXT_SHARED_16 "%11, %12"
TW_WGMMA(16, "%0, %1, %2, %3, %4, %5, %6, %7",
         "%8, %9, %10, %11", "%8, %9", "%12", "%10", "%13",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]))
#undef TW_WGMMA_NEXT_16
#undef TW_WGMMA_NEXT_SHARED_16
#define TW_WGMMA_NEXT_24 "%18"
#define TW_WGMMA_NEXT_SHARED_24 "%15, %16"
TW_WGMMA(24, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11",
         "%12, %13, %14, %15", "%12, %13", "%16", "%14", "%17",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
         "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]))
#undef TW_WGMMA_NEXT_24
#undef TW_WGMMA_NEXT_SHARED_24
#define TW_WGMMA_NEXT_32 "%22"
#define TW_WGMMA_NEXT_SHARED_32 "%19, %20"
TW_WGMMA(32, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15",
         "%16, %17, %18, %19", "%16, %17", "%20", "%18", "%21",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
         "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]))
#undef TW_WGMMA_NEXT_32
#undef TW_WGMMA_NEXT_SHARED_32
#define TW_WGMMA_NEXT_40 "%26"
#define TW_WGMMA_NEXT_SHARED_40 "%23, %24"
TW_WGMMA(40, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19",
         "%20, %21, %22, %23", "%20, %21", "%24", "%22", "%25",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
         "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
         "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]))
#undef TW_WGMMA_NEXT_40
#undef TW_WGMMA_NEXT_SHARED_40
#define TW_WGMMA_NEXT_48 "%30"
#define TW_WGMMA_NEXT_SHARED_48 "%27, %28"
TW_WGMMA(48, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23",
         "%24, %25, %26, %27", "%24, %25", "%28", "%26", "%29",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
         "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
         "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]))
#undef TW_WGMMA_NEXT_48
#undef TW_WGMMA_NEXT_SHARED_48
#define TW_WGMMA_NEXT_64 "%38"
#define TW_WGMMA_NEXT_SHARED_64 "%35, %36"
TW_WGMMA(64, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, "
         "%25, %26, %27, %28, %29, %30, %31",
         "%32, %33, %34, %35", "%32, %33", "%36", "%34", "%37",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
         "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
         "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]),
         "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]),
         "+f"(acc[30]), "+f"(acc[31]))
#undef TW_WGMMA_NEXT_64
#undef TW_WGMMA_NEXT_SHARED_64
#define TW_WGMMA_NEXT_72 "%42"
#define TW_WGMMA_NEXT_SHARED_72 "%39, %40"
TW_WGMMA(72, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, "
         "%25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35",
         "%36, %37, %38, %39", "%36, %37", "%40", "%38", "%41",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
         "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
         "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]),
         "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]),
         "+f"(acc[30]), "+f"(acc[31]), "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]))
#undef TW_WGMMA_NEXT_72
#undef TW_WGMMA_NEXT_SHARED_72
#define TW_WGMMA_NEXT_96 "%54"
#define TW_WGMMA_NEXT_SHARED_96 "%51, %52"
TW_WGMMA(96, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, "
         "%25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47",
         "%48, %49, %50, %51", "%48, %49", "%52", "%50", "%53",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
         "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
         "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]),
         "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]),
         "+f"(acc[30]), "+f"(acc[31]), "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]),
         "+f"(acc[37]), "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]),
         "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]))
#undef TW_WGMMA_NEXT_96
#undef TW_WGMMA_NEXT_SHARED_96
#define TW_WGMMA_NEXT_128 "%70"
#define TW_WGMMA_NEXT_SHARED_128 "%67, %68"
TW_WGMMA(128, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, "
         "%25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
         "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63",
         "%64, %65, %66, %67", "%64, %65", "%68", "%66", "%69",
         "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
         "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
         "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]),
         "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]),
         "+f"(acc[30]), "+f"(acc[31]), "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]),
         "+f"(acc[37]), "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]),
         "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]), "+f"(acc[48]), "+f"(acc[49]), "+f"(acc[50]),
         "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]), "+f"(acc[56]), "+f"(acc[57]),
         "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]), "+f"(acc[62]), "+f"(acc[63]))
#undef TW_WGMMA_NEXT_128
#undef TW_WGMMA_NEXT_SHARED_128
#undef TW_WGMMA_HALF
#undef TW_WGMMA
// clang-format on

}  // namespace detail

// wgmma.mma_async.m64nNk8.f32.tf32.tf32, n = kN: A in registers or K-major in shared memory, B K-major in shared memory; d = a * b without
// `accumulate`. The low 13 bits of operands are ignored: round first. PTX 8.0, sm_90a.
template <int kN>
__device__ __forceinline__ void wgmma_mma_async_tf32(float (&d)[kN / 2], const u32 (&a)[4], u64 b, bool accumulate) {
  detail::Wgmma<kN>::tf32(d, a, b, u32{accumulate});
}
template <int kN>
__device__ __forceinline__ void wgmma_mma_async_tf32(float (&d)[kN / 2], u64 a, u64 b, bool accumulate) {
  detail::Wgmma<kN>::tf32(d, a, b, u32{accumulate});
}

// wgmma.mma_async.m64nNk16.f32.f16.f16: a major of 0 is K-major, 1 is MN-major. PTX 8.0, sm_90a.
template <int kN, int kMajorB = 0>
__device__ __forceinline__ void wgmma_mma_async_f16(float (&d)[kN / 2], const u32 (&a)[4], u64 b, bool accumulate) {
  detail::Wgmma<kN>::template f16<kMajorB>(d, a, b, u32{accumulate});
}
template <int kN, int kMajorA = 0, int kMajorB = 0>
__device__ __forceinline__ void wgmma_mma_async_f16(float (&d)[kN / 2], u64 a, u64 b, bool accumulate) {
  detail::Wgmma<kN>::template f16<kMajorA, kMajorB>(d, a, b, u32{accumulate});
}

// wgmma.mma_async.m64nNk16.f32.bf16.bf16: a major of 0 is K-major, 1 is MN-major. PTX 8.0, sm_90a.
template <int kN, int kMajorB = 0>
__device__ __forceinline__ void wgmma_mma_async_bf16(float (&d)[kN / 2], const u32 (&a)[4], u64 b, bool accumulate) {
  detail::Wgmma<kN>::template bf16<kMajorB>(d, a, b, u32{accumulate});
}
template <int kN, int kMajorA = 0, int kMajorB = 0>
__device__ __forceinline__ void wgmma_mma_async_bf16(float (&d)[kN / 2], u64 a, u64 b, bool accumulate) {
  detail::Wgmma<kN>::template bf16<kMajorA, kMajorB>(d, a, b, u32{accumulate});
}

}  // namespace tw::ptx

#endif
