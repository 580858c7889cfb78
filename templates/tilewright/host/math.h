// tilewright/host/math.h
// CUDA's mathematical functions and intrinsics. The names that C has too are libm's: correctly rounded within an ulp or so, as CUDA's are,
// but not the same bits. The intrinsics keep the rounding their names say; fast ones are as accurate as their documented error allows.
#pragma once

#include "tilewright/host/abi.h"

extern "C" {
float fabsf(float) noexcept;
float fmaf(float, float, float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float sqrtf(float) noexcept;
float expf(float) noexcept;
float exp2f(float) noexcept;
float expm1f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float log1pf(float) noexcept;
float powf(float, float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float erfcf(float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float rintf(float) noexcept;
float truncf(float) noexcept;
float copysignf(float, float) noexcept;
double fabs(double) noexcept;
double fma(double, double, double) noexcept;
double sqrt(double) noexcept;
double exp(double) noexcept;
double exp2(double) noexcept;
double log(double) noexcept;
}

// 1 / sqrt(x) in double and rounded once: within the 2 ulp that CUDA documents.
inline float rsqrtf(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }

inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}
