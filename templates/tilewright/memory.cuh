// tilewright/memory.cuh
// Global memory by vectors: V adjacent elements of storage type T, read into or written from values of T's compute type, in as few
// accesses of at most 16 bytes as there can be. Reads go through ld.global.nc: nobody may write what a kernel reads here.
// V * sizeof(T) is a power of two and the address a multiple of min(16, V * sizeof(T)). Any sm_80 or newer.
#pragma once

#include "tilewright/ptx.cuh"
#include "tilewright/types.cuh"

namespace tw {
namespace memory_detail {

// 32-bit words that kBytes bytes occupy; less than four bytes lie in the low end of one word.
template <int kBytes>
inline constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4;

template <int kBytes>
__device__ __forceinline__ void load_words(const void* address, u32 (&words)[kWords<kBytes>]) {
  static_assert((kBytes & (kBytes - 1)) == 0 && kBytes <= 16, "memory: an access is 1, 2, 4, 8 or 16 bytes");
  if constexpr (kBytes == 1) words[0] = ptx::ld_global_nc_u8(address);
  if constexpr (kBytes == 2) words[0] = ptx::ld_global_nc_u16(address);
  if constexpr (kBytes == 4) words[0] = ptx::ld_global_nc_u32(address);
  if constexpr (kBytes == 8) ptx::ld_global_nc_v2_u32(address, words);
  if constexpr (kBytes == 16) ptx::ld_global_nc_v4_u32(address, words);
}

template <int kBytes>
__device__ __forceinline__ void store_words(void* address, const u32 (&words)[kWords<kBytes>]) {
  static_assert((kBytes & (kBytes - 1)) == 0 && kBytes <= 16, "memory: an access is 1, 2, 4, 8 or 16 bytes");
  if constexpr (kBytes == 1) ptx::st_global_u8(address, words[0]);
  if constexpr (kBytes == 2) ptx::st_global_u16(address, static_cast<u16>(words[0]));
  if constexpr (kBytes == 4) ptx::st_global_u32(address, words[0]);
  if constexpr (kBytes == 8) ptx::st_global_v2_u32(address, words);
  if constexpr (kBytes == 16) ptx::st_global_v4_u32(address, words);
}

template <int kBytes>
__device__ __forceinline__ void load_words_if(bool wanted, const void* address, u32 (&words)[kWords<kBytes>]) {
  static_assert((kBytes & (kBytes - 1)) == 0 && kBytes <= 16, "memory: an access is 1, 2, 4, 8 or 16 bytes");
  if constexpr (kBytes == 1) ptx::ld_global_u8_if(wanted, address, words[0]);
  if constexpr (kBytes == 2) {
    u16 half = static_cast<u16>(words[0]);
    ptx::ld_global_u16_if(wanted, address, half);
    words[0] = half;
  }
  if constexpr (kBytes == 4) ptx::ld_global_u32_if(wanted, address, words[0]);
  if constexpr (kBytes == 8) ptx::ld_global_v2_u32_if(wanted, address, words);
  if constexpr (kBytes == 16) ptx::ld_global_v4_u32_if(wanted, address, words);
}

template <int kBytes>
__device__ __forceinline__ void store_words_if(bool wanted, void* address, const u32 (&words)[kWords<kBytes>]) {
  static_assert((kBytes & (kBytes - 1)) == 0 && kBytes <= 16, "memory: an access is 1, 2, 4, 8 or 16 bytes");
  if constexpr (kBytes == 1) ptx::st_global_u8_if(wanted, address, words[0]);
  if constexpr (kBytes == 2) ptx::st_global_u16_if(wanted, address, static_cast<u16>(words[0]));
  if constexpr (kBytes == 4) ptx::st_global_u32_if(wanted, address, words[0]);
  if constexpr (kBytes == 8) ptx::st_global_v2_u32_if(wanted, address, words);
  if constexpr (kBytes == 16) ptx::st_global_v4_u32_if(wanted, address, words);
}

template <typename T>
struct Tag {};

// Element k of the words, widened to the compute type.
__device__ __forceinline__ float unpack(Tag<float>, const u32* words, int k) { return __builtin_bit_cast(float, words[k]); }
__device__ __forceinline__ float unpack(Tag<f16>, const u32* words, int k) {
  return to_float(f16{static_cast<u16>(words[k / 2] >> (k % 2 * 16))});
}
__device__ __forceinline__ float unpack(Tag<bf16>, const u32* words, int k) {
  return __builtin_bit_cast(float, k % 2 == 0 ? words[k / 2] << 16 : words[k / 2] & 0xffff0000u);
}
__device__ __forceinline__ i32 unpack(Tag<i32>, const u32* words, int k) { return static_cast<i32>(words[k]); }
__device__ __forceinline__ i64 unpack(Tag<i64>, const u32* words, int k) {
  return static_cast<i64>(static_cast<u64>(words[2 * k + 1]) << 32 | words[2 * k]);
}
__device__ __forceinline__ bool unpack(Tag<bool>, const u32* words, int k) { return (words[k / 4] >> (k % 4 * 8) & 0xff) != 0; }

// Rounds kCount values to T and packs them.
template <int kCount, int kWordCount>
__device__ __forceinline__ void pack(Tag<float>, const float* values, u32 (&words)[kWordCount]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) words[k] = __builtin_bit_cast(u32, values[k]);
}
template <int kCount, int kWordCount>
__device__ __forceinline__ void pack(Tag<f16>, const float* values, u32 (&words)[kWordCount]) {
  if constexpr (kCount == 1) {
    words[0] = ptx::cvt_rn_f16_f32(values[0]);
  } else {
#pragma unroll
    for (int k = 0; k < kCount / 2; ++k) words[k] = ptx::cvt_rn_f16x2_f32(values[2 * k], values[2 * k + 1]);
  }
}
template <int kCount, int kWordCount>
__device__ __forceinline__ void pack(Tag<bf16>, const float* values, u32 (&words)[kWordCount]) {
  if constexpr (kCount == 1) {
    words[0] = ptx::cvt_rn_bf16_f32(values[0]);
  } else {
#pragma unroll
    for (int k = 0; k < kCount / 2; ++k) words[k] = ptx::cvt_rn_bf16x2_f32(values[2 * k], values[2 * k + 1]);
  }
}
template <int kCount, int kWordCount>
__device__ __forceinline__ void pack(Tag<i32>, const i32* values, u32 (&words)[kWordCount]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) words[k] = static_cast<u32>(values[k]);
}
template <int kCount, int kWordCount>
__device__ __forceinline__ void pack(Tag<i64>, const i64* values, u32 (&words)[kWordCount]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    words[2 * k] = static_cast<u32>(values[k]);
    words[2 * k + 1] = static_cast<u32>(static_cast<u64>(values[k]) >> 32);
  }
}
template <int kCount, int kWordCount>
__device__ __forceinline__ void pack(Tag<bool>, const bool* values, u32 (&words)[kWordCount]) {
#pragma unroll
  for (int w = 0; w < kWordCount; ++w) words[w] = 0;
#pragma unroll
  for (int k = 0; k < kCount; ++k) words[k / 4] |= (values[k] ? 1u : 0u) << (k % 4 * 8);
}

// Elements of one access when V elements of T are wanted.
template <int V, typename T>
inline constexpr int kPerAccess = V* static_cast<int>(sizeof(T)) <= 16 ? V : 16 / static_cast<int>(sizeof(T));

}  // namespace memory_detail

// v[k] = address[k] for k in [0, V).
template <int V, typename T>
__device__ __forceinline__ void load_vector(const T* address, Compute<T> (&v)[V]) {
  constexpr int kElems = memory_detail::kPerAccess<V, T>;
  constexpr int kBytes = kElems * static_cast<int>(sizeof(T));
#pragma unroll
  for (int first = 0; first < V; first += kElems) {
    u32 words[memory_detail::kWords<kBytes>];
    memory_detail::load_words<kBytes>(address + first, words);
#pragma unroll
    for (int k = 0; k < kElems; ++k) v[first + k] = memory_detail::unpack(memory_detail::Tag<T>{}, words, k);
  }
}

// address[k] = v[k] rounded to T, for k in [0, V).
template <int V, typename T>
__device__ __forceinline__ void store_vector(T* address, const Compute<T> (&v)[V]) {
  constexpr int kElems = memory_detail::kPerAccess<V, T>;
  constexpr int kBytes = kElems * static_cast<int>(sizeof(T));
#pragma unroll
  for (int first = 0; first < V; first += kElems) {
    u32 words[memory_detail::kWords<kBytes>];
    memory_detail::pack<kElems>(memory_detail::Tag<T>{}, v + first, words);
    memory_detail::store_words<kBytes>(address + first, words);
  }
}

// As load_vector where `wanted`; else reads nothing, and v is all zeros.
template <int V, typename T>
__device__ __forceinline__ void load_vector_if(bool wanted, const T* address, Compute<T> (&v)[V]) {
  constexpr int kElems = memory_detail::kPerAccess<V, T>;
  constexpr int kBytes = kElems * static_cast<int>(sizeof(T));
#pragma unroll
  for (int first = 0; first < V; first += kElems) {
    u32 words[memory_detail::kWords<kBytes>] = {};
    memory_detail::load_words_if<kBytes>(wanted, address + first, words);
#pragma unroll
    for (int k = 0; k < kElems; ++k) v[first + k] = memory_detail::unpack(memory_detail::Tag<T>{}, words, k);
  }
}

// As store_vector where `wanted`; else writes nothing.
template <int V, typename T>
__device__ __forceinline__ void store_vector_if(bool wanted, T* address, const Compute<T> (&v)[V]) {
  constexpr int kElems = memory_detail::kPerAccess<V, T>;
  constexpr int kBytes = kElems * static_cast<int>(sizeof(T));
#pragma unroll
  for (int first = 0; first < V; first += kElems) {
    u32 words[memory_detail::kWords<kBytes>];
    memory_detail::pack<kElems>(memory_detail::Tag<T>{}, v + first, words);
    memory_detail::store_words_if<kBytes>(wanted, address + first, words);
  }
}

// One value for all V.
template <int V, typename C>
__device__ __forceinline__ void splat_vector(C value, C (&v)[V]) {
#pragma unroll
  for (int k = 0; k < V; ++k) v[k] = value;
}

// One element, widened.
template <typename T>
__device__ __forceinline__ Compute<T> load_scalar(const T* address) {
  Compute<T> v[1];
  load_vector<1>(address, v);
  return v[0];
}

// One element, rounded to T.
template <typename T>
__device__ __forceinline__ void store_scalar(T* address, Compute<T> value) {
  const Compute<T> v[1] = {value};
  store_vector<1>(address, v);
}

// One element where `wanted`, else 0.
template <typename T>
__device__ __forceinline__ Compute<T> load_scalar_if(bool wanted, const T* address) {
  Compute<T> v[1];
  load_vector_if<1>(wanted, address, v);
  return v[0];
}

template <typename T>
__device__ __forceinline__ void store_scalar_if(bool wanted, T* address, Compute<T> value) {
  const Compute<T> v[1] = {value};
  store_vector_if<1>(wanted, address, v);
}

// One element of a floating type with its bits untouched; zero bits where not `wanted`.
__device__ __forceinline__ float load_raw(const float* address) { return load_scalar(address); }
__device__ __forceinline__ f16 load_raw(const f16* address) { return f16{ptx::ld_global_nc_u16(address)}; }
__device__ __forceinline__ bf16 load_raw(const bf16* address) { return bf16{ptx::ld_global_nc_u16(address)}; }
__device__ __forceinline__ float load_raw_if(bool wanted, const float* address) { return load_scalar_if(wanted, address); }
template <typename T>  // f16 or bf16
__device__ __forceinline__ T load_raw_if(bool wanted, const T* address) {
  u16 bits = 0;
  ptx::ld_global_u16_if(wanted, address, bits);
  return T{bits};
}

}  // namespace tw
