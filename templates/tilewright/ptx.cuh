// tilewright/ptx.cuh
// The only asm of the project: each function is named after its instruction and says the PTX ISA version and the SM it needs. Addresses
// are generic pointers to global memory, whose value is the global address. No other meaning lives here.
#pragma once

namespace tw {

using u8 = unsigned char;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

}  // namespace tw

#ifdef TILEWRIGHT_HOST
#include "tilewright/host/ptx.h"  // the same functions, for the CPU
#else

namespace tw::ptx {

// ---- conversion -------------------------------------------------------------------------------------------------------------------

// cvt.f32.f16: exact. PTX 1.0, sm_53.
__device__ __forceinline__ float cvt_f32_f16(u16 bits) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
  return result;
}

// cvt.rn.f16.f32: nearest even. PTX 1.0, sm_53.
__device__ __forceinline__ u16 cvt_rn_f16_f32(float value) {
  u16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
}

// cvt.rn.bf16.f32: nearest even. PTX 7.0, sm_80.
__device__ __forceinline__ u16 cvt_rn_bf16_f32(float value) {
  u16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
}

// cvt.rn.f16x2.f32: `low` in the low half. PTX 7.0, sm_80.
__device__ __forceinline__ u32 cvt_rn_f16x2_f32(float low, float high) {
  u32 result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

// cvt.rn.bf16x2.f32: `low` in the low half. PTX 7.0, sm_80.
__device__ __forceinline__ u32 cvt_rn_bf16x2_f32(float low, float high) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

// cvt.rzi.s32.f32: towards zero, saturating. PTX 1.0, sm_10.
__device__ __forceinline__ i32 cvt_rzi_s32_f32(float value) {
  i32 result;
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return result;
}

// cvt.rzi.s64.f32: towards zero, saturating. PTX 1.0, sm_10.
__device__ __forceinline__ i64 cvt_rzi_s64_f32(float value) {
  i64 result;
  asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(result) : "f"(value));
  return result;
}

// ---- arithmetic -------------------------------------------------------------------------------------------------------------------

// max.NaN.f32: NaN when either side is. PTX 7.0, sm_80.
__device__ __forceinline__ float max_nan_f32(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// min.NaN.f32: NaN when either side is. PTX 7.0, sm_80.
__device__ __forceinline__ float min_nan_f32(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// ex2.approx.ftz.f32: 2^value, relative error below 2^-22; 0 below the normal range, infinity above. PTX 1.4, sm_10.
__device__ __forceinline__ float ex2_approx_ftz_f32(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// rcp.approx.ftz.f32: 1 / value within 1 unit in the last place; infinity for 0, 0 beyond 2^126. PTX 1.4, sm_10.
__device__ __forceinline__ float rcp_approx_ftz_f32(float value) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// ---- global memory ----------------------------------------------------------------------------------------------------------------
// ld.global.nc: data that no thread of the grid writes. Not volatile: the compiler may move and merge them. PTX 3.1, sm_35.

__device__ __forceinline__ u32 ld_global_nc_u8(const void* address) {
  u32 result;
  asm("ld.global.nc.u8 %0, [%1];" : "=r"(result) : "l"(address));
  return result;
}

__device__ __forceinline__ u16 ld_global_nc_u16(const void* address) {
  u16 result;
  asm("ld.global.nc.u16 %0, [%1];" : "=h"(result) : "l"(address));
  return result;
}

__device__ __forceinline__ u32 ld_global_nc_u32(const void* address) {
  u32 result;
  asm("ld.global.nc.u32 %0, [%1];" : "=r"(result) : "l"(address));
  return result;
}

__device__ __forceinline__ void ld_global_nc_v2_u32(const void* address, u32 (&words)[2]) {
  asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(address));
}

__device__ __forceinline__ void ld_global_nc_v4_u32(const void* address, u32 (&words)[4]) {
  asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "l"(address));
}

// ld.global under a predicate: without `wanted` nothing is read and the words keep their values. For the compiler this is one instruction,
// where a branch around a load would be blocks of their own: those take NVRTC twice the time and keep loads from being issued together.

__device__ __forceinline__ void ld_global_u8_if(bool wanted, const void* address, u32& word) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p ld.global.u8 %0, [%1];\n}" : "+r"(word) : "l"(address), "r"(u32{wanted}));
}

__device__ __forceinline__ void ld_global_u16_if(bool wanted, const void* address, u16& word) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p ld.global.u16 %0, [%1];\n}" : "+h"(word) : "l"(address), "r"(u32{wanted}));
}

__device__ __forceinline__ void ld_global_u32_if(bool wanted, const void* address, u32& word) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p ld.global.u32 %0, [%1];\n}" : "+r"(word) : "l"(address), "r"(u32{wanted}));
}

__device__ __forceinline__ void ld_global_v2_u32_if(bool wanted, const void* address, u32 (&words)[2]) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\n@p ld.global.v2.u32 {%0, %1}, [%2];\n}"
               : "+r"(words[0]), "+r"(words[1])
               : "l"(address), "r"(u32{wanted}));
}

__device__ __forceinline__ void ld_global_v4_u32_if(bool wanted, const void* address, u32 (&words)[4]) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
               : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
               : "l"(address), "r"(u32{wanted}));
}

// st.global: PTX 1.0 (vectors 2.0), sm_10.
__device__ __forceinline__ void st_global_u8(void* address, u32 value) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void st_global_u16(void* address, u16 value) {
  asm volatile("st.global.u16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}

__device__ __forceinline__ void st_global_u32(void* address, u32 value) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void st_global_v2_u32(void* address, const u32 (&words)[2]) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(words[0]), "r"(words[1]) : "memory");
}

__device__ __forceinline__ void st_global_v4_u32(void* address, const u32 (&words)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// st.global under a predicate.
__device__ __forceinline__ void st_global_u8_if(bool wanted, void* address, u32 value) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p st.global.u8 [%0], %1;\n}" ::"l"(address), "r"(value), "r"(u32{wanted})
               : "memory");
}

__device__ __forceinline__ void st_global_u16_if(bool wanted, void* address, u16 value) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p st.global.u16 [%0], %1;\n}" ::"l"(address), "h"(value), "r"(u32{wanted})
               : "memory");
}

__device__ __forceinline__ void st_global_u32_if(bool wanted, void* address, u32 value) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p st.global.u32 [%0], %1;\n}" ::"l"(address), "r"(value), "r"(u32{wanted})
               : "memory");
}

__device__ __forceinline__ void st_global_v2_u32_if(bool wanted, void* address, const u32 (&words)[2]) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\n@p st.global.v2.u32 [%0], {%1, %2};\n}" ::"l"(address), "r"(words[0]),
               "r"(words[1]), "r"(u32{wanted})
               : "memory");
}

__device__ __forceinline__ void st_global_v4_u32_if(bool wanted, void* address, const u32 (&words)[4]) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n@p st.global.v4.u32 [%0], {%1, %2, %3, %4};\n}" ::"l"(address), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(u32{wanted})
               : "memory");
}

// ---- words that blocks pass to each other -----------------------------------------------------------------------------------------

// ld.relaxed.gpu.global.u64: one atomic word, never a stale copy from L1. PTX 6.0, sm_70.
__device__ __forceinline__ u64 ld_relaxed_gpu_global_u64(const u64* address) {
  u64 result;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(result) : "l"(address) : "memory");
  return result;
}

// st.relaxed.gpu.global.u64: one atomic word. PTX 6.0, sm_70.
__device__ __forceinline__ void st_relaxed_gpu_global_u64(u64* address, u64 value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

// ---- matrix instructions ----------------------------------------------------------------------------------------------------------

// cvt.rn.tf32.f32: nearest even; the low 13 bits of the result are 0. PTX 7.8, sm_90 (older ones have no such instruction).
__device__ __forceinline__ u32 cvt_rn_tf32_f32(float value) {
  u32 result;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return result;
}

// mma.sync.m16n8k8 tf32: d += a * b, f32 accumulation. Lane = 4 * g + t holds rows g (a[0], a[2]) and g + 8 (a[1], a[3]) at columns t and
// t + 4, b at rows t and t + 4 of column g, d at rows g (d[0], d[1]) and g + 8 (d[2], d[3]) of columns 2 t and 2 t + 1. PTX 7.0, sm_80.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// mma.sync.m16n8k16 f16: as m16n8k8 tf32, each operand word holding columns (rows of b) 2 t and 2 t + 1, second half 8 further. PTX 7.0,
// sm_80.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// mma.sync.m16n8k16 bf16: as f16. PTX 7.0, sm_80.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tw::ptx

#endif
