// tilewright/types.cuh
// The names of element types on the device. Storage types (f16, bf16) carry bits only; arithmetic happens in a compute type: float for
// float, f16 and bf16; i32, i64 and bool for themselves. No header of any toolkit is needed. Any sm_80 or newer.
#pragma once

#include "tilewright/ptx.cuh"

namespace tw {

// IEEE half and bfloat16 as memory holds them.
struct alignas(2) f16 {
  u16 bits;
};
struct alignas(2) bf16 {
  u16 bits;
};

inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);
inline constexpr float kNan = __builtin_bit_cast(float, 0x7fc00000u);

// The type in which elements stored as T are computed with.
template <typename T>
struct ComputeOf {
  using Type = T;
};
template <>
struct ComputeOf<f16> {
  using Type = float;
};
template <>
struct ComputeOf<bf16> {
  using Type = float;
};
template <typename T>
using Compute = typename ComputeOf<T>::Type;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(f16 value) { return ptx::cvt_f32_f16(value.bits); }
__device__ __forceinline__ float to_float(bf16 value) { return __builtin_bit_cast(float, static_cast<u32>(value.bits) << 16); }

// Rounds to nearest even; NaN stays NaN, values beyond the range become infinity.
template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float value) {
  return f16{ptx::cvt_rn_f16_f32(value)};
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float value) {
  return bf16{ptx::cvt_rn_bf16_f32(value)};
}

// Largest and smallest value of a compute type: what min and max of nothing are.
template <typename T>
__device__ __forceinline__ constexpr T highest();
template <>
__device__ __forceinline__ constexpr float highest<float>() {
  return kInfinity;
}
template <>
__device__ __forceinline__ constexpr i32 highest<i32>() {
  return 0x7fffffff;
}
template <>
__device__ __forceinline__ constexpr i64 highest<i64>() {
  return 0x7fffffffffffffffll;
}

template <typename T>
__device__ __forceinline__ constexpr T lowest() {
  return -highest<T>() - T(1);
}
template <>
__device__ __forceinline__ constexpr float lowest<float>() {
  return -kInfinity;
}

}  // namespace tw
