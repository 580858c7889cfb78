// tilewright/host/ptx.h
// What each function of ptx.cuh means on the CPU, written from the PTX ISA; a test holds the two lists of functions side by side. Bits are
// the hardware's unless a comment says otherwise. Included by ptx.cuh alone, which names the types.
#pragma once

#include "tilewright/host/abi.h"

namespace tw::ptx {
namespace host_detail {

inline constexpr u32 kNanBits = 0x7fffffffu;  // canonical NaN of f32
inline constexpr u16 kNanHalf = 0x7fffu;      // of f16 and bf16

// Moves `magnitude` right by `shift` bits, to nearest even. 0 < shift < 64.
inline u64 shift_right_to_even(u64 magnitude, int shift) {
  const u64 kept = magnitude >> shift, rest = magnitude - (kept << shift), half = u64{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

inline float widen_f16(u16 bits) {
  const u32 sign = static_cast<u32>(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
  if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | fraction << 13);
  const float value = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -value : value;
}

inline u16 narrow_f16(float value) {
  const u32 bits = __builtin_bit_cast(u32, value), magnitude = bits & 0x7fffffffu;
  const u16 sign = static_cast<u16>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return kNanHalf;
  if (magnitude >= 0x47800000u) return static_cast<u16>(sign | 0x7c00u);  // 65536 and above
  if (magnitude < 0x33000000u) return sign;                               // below half the least subnormal
  const int exponent = static_cast<int>(magnitude >> 23);
  const u64 significand = (magnitude & 0x7fffffu) | 0x800000u;
  // Below 2^-14 the result is subnormal, in units of 2^-24. A carry runs into the exponent as it should.
  if (exponent < 113) return static_cast<u16>(sign | shift_right_to_even(significand, 126 - exponent));
  return static_cast<u16>(sign + (static_cast<u32>(exponent - 113) << 10) + shift_right_to_even(significand, 13));
}

inline u16 narrow_bf16(float value) {
  const u32 bits = __builtin_bit_cast(u32, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return kNanHalf;
  return static_cast<u16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float widen_bf16(u16 bits) { return __builtin_bit_cast(float, static_cast<u32>(bits) << 16); }

template <typename T>
TW_HOST_PLAIN inline T load(const void* address, ::tw::host::Access kind, const void* where) {
  ::tw::host::table->access(address, sizeof(T), kind, where);
  T value;
  __builtin_memcpy(&value, address, sizeof(T));
  return value;
}

template <typename T>
TW_HOST_PLAIN inline void store(void* address, const T& value, const void* where) {
  ::tw::host::table->access(address, sizeof(T), ::tw::host::Access::kWrite, where);
  __builtin_memcpy(address, &value, sizeof(T));
}

TW_HOST_PRIMITIVE u32 load_slack(const void* address) { return load<u32>(address, ::tw::host::Access::kSlackRead, TW_HOST_WHERE); }

struct Vector2 {
  u32 word[2];
};
struct Vector4 {
  u32 word[4];
};

}  // namespace host_detail

// ---- conversion ---------------------------------------------------------------------------------------------------------------------

// Payloads of NaN are kept.
__forceinline__ float cvt_f32_f16(u16 bits) { return host_detail::widen_f16(bits); }
__forceinline__ u16 cvt_rn_f16_f32(float value) { return host_detail::narrow_f16(value); }
__forceinline__ u16 cvt_rn_bf16_f32(float value) { return host_detail::narrow_bf16(value); }
__forceinline__ u32 cvt_rn_f16x2_f32(float low, float high) {
  return host_detail::narrow_f16(low) | static_cast<u32>(host_detail::narrow_f16(high)) << 16;
}
__forceinline__ u32 cvt_rn_bf16x2_f32(float low, float high) {
  return host_detail::narrow_bf16(low) | static_cast<u32>(host_detail::narrow_bf16(high)) << 16;
}
__forceinline__ u32 cvt_rn_tf32_f32(float value) {
  const u32 bits = __builtin_bit_cast(u32, value);
  return value == value ? (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu : 0x7fffe000u;
}
// NaN becomes 0 and the least number.
__forceinline__ i32 cvt_rzi_s32_f32(float value) {
  if (value != value) return 0;
  return value >= 0x1p31f ? 0x7fffffff : value < -0x1p31f ? -0x7fffffff - 1 : static_cast<i32>(value);
}
__forceinline__ i64 cvt_rzi_s64_f32(float value) {
  constexpr i64 kLeast = -0x7fffffffffffffffll - 1;
  if (value != value) return kLeast;
  return value >= 0x1p63f ? 0x7fffffffffffffffll : value < -0x1p63f ? kLeast : static_cast<i64>(value);
}

// ---- arithmetic ---------------------------------------------------------------------------------------------------------------------

// -0 is less than +0.
__forceinline__ float max_nan_f32(float a, float b) {
  if (a != a || b != b) return __builtin_bit_cast(float, host_detail::kNanBits);
  if (a == b) return __builtin_bit_cast(float, __builtin_bit_cast(u32, a) & __builtin_bit_cast(u32, b));
  return a > b ? a : b;
}
__forceinline__ float min_nan_f32(float a, float b) {
  if (a != a || b != b) return __builtin_bit_cast(float, host_detail::kNanBits);
  if (a == b) return __builtin_bit_cast(float, __builtin_bit_cast(u32, a) | __builtin_bit_cast(u32, b));
  return a < b ? a : b;
}

// Correctly rounded but for double's own error: within the hardware's 2^-22, not its bits.
__forceinline__ float ex2_approx_ftz_f32(float value) {
  if (value != value) return __builtin_bit_cast(float, host_detail::kNanBits);
  if (value < -126.0f) return 0.0f;
  if (value >= 128.0f) return __builtin_bit_cast(float, 0x7f800000u);
  return static_cast<float>(::exp2(static_cast<double>(value)));
}

// Correctly rounded; results and operands below the normal range are 0.
__forceinline__ float rcp_approx_ftz_f32(float value) {
  if (value != value) return __builtin_bit_cast(float, host_detail::kNanBits);
  const u32 sign = __builtin_bit_cast(u32, value) & 0x80000000u, magnitude = __builtin_bit_cast(u32, value) & 0x7fffffffu;
  if (magnitude < 0x00800000u) return __builtin_bit_cast(float, sign | 0x7f800000u);
  const float result = 1.0f / value;
  return (__builtin_bit_cast(u32, result) & 0x7fffffffu) < 0x00800000u ? __builtin_bit_cast(float, sign) : result;
}

// ---- global memory ------------------------------------------------------------------------------------------------------------------

TW_HOST_PRIMITIVE u32 ld_global_nc_u8(const void* address) {
  return host_detail::load<u8>(address, ::tw::host::Access::kConstantRead, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE u16 ld_global_nc_u16(const void* address) {
  return host_detail::load<u16>(address, ::tw::host::Access::kConstantRead, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE u32 ld_global_nc_u32(const void* address) {
  return host_detail::load<u32>(address, ::tw::host::Access::kConstantRead, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void ld_global_nc_v2_u32(const void* address, u32 (&words)[2]) {
  const auto loaded = host_detail::load<host_detail::Vector2>(address, ::tw::host::Access::kConstantRead, TW_HOST_WHERE);
  for (int i = 0; i < 2; ++i) words[i] = loaded.word[i];
}
TW_HOST_PRIMITIVE void ld_global_nc_v4_u32(const void* address, u32 (&words)[4]) {
  const auto loaded = host_detail::load<host_detail::Vector4>(address, ::tw::host::Access::kConstantRead, TW_HOST_WHERE);
  for (int i = 0; i < 4; ++i) words[i] = loaded.word[i];
}

TW_HOST_PRIMITIVE void ld_global_u8_if(bool wanted, const void* address, u32& word) {
  if (wanted) word = host_detail::load<u8>(address, ::tw::host::Access::kRead, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void ld_global_u16_if(bool wanted, const void* address, u16& word) {
  if (wanted) word = host_detail::load<u16>(address, ::tw::host::Access::kRead, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void ld_global_u32_if(bool wanted, const void* address, u32& word) {
  if (wanted) word = host_detail::load<u32>(address, ::tw::host::Access::kRead, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void ld_global_v2_u32_if(bool wanted, const void* address, u32 (&words)[2]) {
  if (!wanted) return;
  const auto loaded = host_detail::load<host_detail::Vector2>(address, ::tw::host::Access::kRead, TW_HOST_WHERE);
  for (int i = 0; i < 2; ++i) words[i] = loaded.word[i];
}
TW_HOST_PRIMITIVE void ld_global_v4_u32_if(bool wanted, const void* address, u32 (&words)[4]) {
  if (!wanted) return;
  const auto loaded = host_detail::load<host_detail::Vector4>(address, ::tw::host::Access::kRead, TW_HOST_WHERE);
  for (int i = 0; i < 4; ++i) words[i] = loaded.word[i];
}

TW_HOST_PRIMITIVE void st_global_u8(void* address, u32 value) { host_detail::store(address, static_cast<u8>(value), TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void st_global_u16(void* address, u16 value) { host_detail::store(address, value, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void st_global_u32(void* address, u32 value) { host_detail::store(address, value, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void st_global_v2_u32(void* address, const u32 (&words)[2]) {
  host_detail::store(address, host_detail::Vector2{{words[0], words[1]}}, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void st_global_v4_u32(void* address, const u32 (&words)[4]) {
  host_detail::store(address, host_detail::Vector4{{words[0], words[1], words[2], words[3]}}, TW_HOST_WHERE);
}

TW_HOST_PRIMITIVE void st_global_u8_if(bool wanted, void* address, u32 value) {
  if (wanted) host_detail::store(address, static_cast<u8>(value), TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void st_global_u16_if(bool wanted, void* address, u16 value) {
  if (wanted) host_detail::store(address, static_cast<u16>(value), TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void st_global_u32_if(bool wanted, void* address, u32 value) {
  if (wanted) host_detail::store(address, static_cast<u32>(value), TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void st_global_v2_u32_if(bool wanted, void* address, const u32 (&words)[2]) {
  if (wanted) host_detail::store(address, host_detail::Vector2{{words[0], words[1]}}, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void st_global_v4_u32_if(bool wanted, void* address, const u32 (&words)[4]) {
  if (wanted) host_detail::store(address, host_detail::Vector4{{words[0], words[1], words[2], words[3]}}, TW_HOST_WHERE);
}

// ---- words that blocks pass to each other -------------------------------------------------------------------------------------------

TW_HOST_PRIMITIVE u64 ld_relaxed_gpu_global_u64(const u64* address) {
  ::tw::host::table->access(address, 8, ::tw::host::Access::kAtomicRead, TW_HOST_WHERE);
  const u64 value = __atomic_load_n(address, __ATOMIC_RELAXED);
  ::tw::host::table->yield(TW_HOST_WHERE);
  return value;
}
TW_HOST_PRIMITIVE void st_relaxed_gpu_global_u64(u64* address, u64 value) {
  ::tw::host::table->access(address, 8, ::tw::host::Access::kAtomicWrite, TW_HOST_WHERE);
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
}

// ---- matrix instructions ------------------------------------------------------------------------------------------------------------
// Products are exact in double and so, nearly, is their sum, which is rounded to f32 once. The hardware keeps fewer bits while it adds.

namespace host_detail {

struct Mma {
  float* d;
  const u32* a;
  u32 b[2];
};

inline double tf32_value(u32 bits) { return static_cast<double>(__builtin_bit_cast(float, bits & ~0x1fffu)); }

// A and B as plain matrices, d += a * b. kDepth columns of a: word `pair` of lane 4 g + t holds columns t + 4 pair (tf32), or 2 t + 8 pair
// and the next (16-bit).
template <int kDepth, float (*kWiden)(u16)>
TW_HOST_PLAIN inline void combine_mma(void* const* lanes, unsigned) {
  double a[16][kDepth], b[kDepth][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Mma& mine = *static_cast<const Mma*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int pair = 0; pair < 2; ++pair) {
      if constexpr (kDepth == 8) {
        const int k = t + 4 * pair;
        a[g][k] = tf32_value(mine.a[2 * pair]);
        a[g + 8][k] = tf32_value(mine.a[2 * pair + 1]);
        b[k][g] = tf32_value(mine.b[pair]);
      } else {
        for (int e = 0; e < 2; ++e) {
          const int k = 2 * t + 8 * pair + e;
          a[g][k] = kWiden(static_cast<u16>(mine.a[2 * pair] >> 16 * e));
          a[g + 8][k] = kWiden(static_cast<u16>(mine.a[2 * pair + 1] >> 16 * e));
          b[k][g] = kWiden(static_cast<u16>(mine.b[pair] >> 16 * e));
        }
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    float* const d = static_cast<const Mma*>(lanes[lane])->d;
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + 8 * (i / 2), column = 2 * t + i % 2;
      double sum = static_cast<double>(d[i]);
      for (int k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][column];
      d[i] = static_cast<float>(sum);
    }
  }
}

template <int kDepth, float (*kWiden)(u16)>
TW_HOST_PLAIN inline void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const char* name, const void* where) {
  Mma operands{d, a, {b0, b1}};
  ::tw::host::table->converge(0xffffffffu, combine_mma<kDepth, kWiden>, &operands, false, name, where);
}

}  // namespace host_detail

TW_HOST_PRIMITIVE void mma_m16n8k8_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  host_detail::mma<8, host_detail::widen_f16>(d, a, b0, b1, "mma.sync.m16n8k8", TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void mma_m16n8k16_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  host_detail::mma<16, host_detail::widen_f16>(d, a, b0, b1, "mma.sync.m16n8k16 f16", TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void mma_m16n8k16_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  host_detail::mma<16, host_detail::widen_bf16>(d, a, b0, b1, "mma.sync.m16n8k16 bf16", TW_HOST_WHERE);
}

}  // namespace tw::ptx
