// tilewright/math.cuh
// Elementwise functions that CUDA has not by itself, on f32 and integers. Floating functions are accurate to a few units in the last place
// where the result is not tiny, keep NaN, and take their limits at the infinities. CUDA's own (expf, logf, tanhf, erff, ...) are
// used under their names. Any sm_80 or newer.
#pragma once

#include "tilewright/ptx.cuh"
#include "tilewright/types.cuh"

namespace tw {

inline constexpr float kLog2E = 1.4426950408889634f;

// NaN when either side is NaN.
__device__ __forceinline__ float max_nan(float a, float b) { return ptx::max_nan_f32(a, b); }
__device__ __forceinline__ float min_nan(float a, float b) { return ptx::min_nan_f32(a, b); }

// exp(x) for x <= 0 or small, as softmax needs it: relative error below 3e-7 + 1.2e-7 * |x|; 0 below -87.3.
__device__ __forceinline__ float exp_fast(float x) { return ptx::ex2_approx_ftz_f32(x * kLog2E); }

// a / b for b = 0 or in [1, 2^126), a count or a sum of exponentials: within 1 unit in the last place. IEEE division brings a hundred
// instructions for the range in which this one fails.
__device__ __forceinline__ float div_count(float a, float b) {
  const float reciprocal = ptx::rcp_approx_ftz_f32(b);
  const float quotient = a * reciprocal;
  const float rest = fmaf(-quotient, b, a);
  // NaN where the quotient is infinite or NaN already.
  return rest == rest ? fmaf(rest, reciprocal, quotient) : quotient;
}

__device__ __forceinline__ float rsqrt(float x) { return rsqrtf(x); }
__device__ __forceinline__ float reciprocal(float x) { return 1.0f / x; }
__device__ __forceinline__ float relu(float x) { return ptx::max_nan_f32(x, 0.0f); }

// Through exp(-|x|), which cannot overflow: small results keep their relative accuracy.
__device__ __forceinline__ float sigmoid(float x) {
  const float t = expf(-fabsf(x));
  const float r = 1.0f / (1.0f + t);
  return x < 0.0f ? t * r : r;
}

// The gates below give NaN for -infinity, which is -infinity times 0, as their definitions and PyTorch do.
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }

// x * Phi(x) = x/2 * erfc(-x / sqrt 2): no cancellation for negative x.
__device__ __forceinline__ float gelu(float x) { return x * (0.5f * erfcf(x * -0.7071067811865476f)); }

// x/2 * (1 + tanh(u)) = x * sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3).
__device__ __forceinline__ float gelu_tanh(float x) { return x * sigmoid(1.5957691216057308f * fmaf(0.044715f * x * x, x, x)); }

// Truncates, saturates at the type's ends, and gives 0 for NaN.
template <typename T>
__device__ __forceinline__ T cast_int(float x) {
  if (x != x) return T(0);
  if constexpr (sizeof(T) == 8) return ptx::cvt_rzi_s64_f32(x);
  return ptx::cvt_rzi_s32_f32(x);
}

// Integers: i32, i64 (and bool, which C++ promotes).
// Integers wrap, which C++ says of unsigned ones alone.
template <typename T>
__device__ __forceinline__ T add_int(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
}
template <typename T>
__device__ __forceinline__ T sub_int(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) - static_cast<u64>(b));
}
template <typename T>
__device__ __forceinline__ T mul_int(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
}
template <typename T>
__device__ __forceinline__ T neg_int(T a) {
  return sub_int(T(0), a);
}
template <typename T>
__device__ __forceinline__ T abs_int(T x) {
  return x < T(0) ? neg_int(x) : x;
}
template <typename T>
__device__ __forceinline__ T relu_int(T x) {
  return x > T(0) ? x : T(0);
}
template <typename T>
__device__ __forceinline__ T min_int(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
__device__ __forceinline__ T max_int(T a, T b) {
  return a < b ? b : a;
}
// Truncates toward zero; x / 0 is 0, and the least integer over -1 wraps to itself.
template <typename T>
__device__ __forceinline__ T div_int(T a, T b) {
  if (b == T(0)) return T(0);
  if (b == T(-1)) return neg_int(a);
  return a / b;
}

}  // namespace tw
