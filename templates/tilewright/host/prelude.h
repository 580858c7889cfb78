// tilewright/host/prelude.h
// The words of CUDA C++ for a host compiler, included before the first line of a translation unit that stays as it is. What a word does is
// the executor's business (abi.h). No header of the system is included, which keeps the compilation of a kernel short.
#pragma once

#include "tilewright/host/abi.h"

#define TILEWRIGHT_HOST 1

#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
// A block runs on one OS thread: what that thread owns is the block's.
#define __shared__ thread_local
#define __align__(bytes) alignas(bytes)

// A function that the compiler does not instrument for the checks. Clang instruments atomics in spite of no_sanitize.
#if !defined(TILEWRIGHT_HOST_CHECKS)
#define TW_HOST_PLAIN
#elif defined(__clang__)
#define TW_HOST_PLAIN __attribute__((disable_sanitizer_instrumentation))
#else
#define TW_HOST_PLAIN __attribute__((no_sanitize("thread")))
#endif
// A primitive: never inlined, so that its return address is the place in the kernel that called it.
#define TW_HOST_PRIMITIVE __attribute__((noinline, unused)) TW_HOST_PLAIN static
#define TW_HOST_WHERE __builtin_return_address(0)

namespace tw::host {

inline const Executor* table = nullptr;

// Const: within a fiber the answer is always the same.
TW_HOST_PRIMITIVE __attribute__((const)) Dim3 thread_idx() { return table->thread()->thread_idx; }
TW_HOST_PRIMITIVE __attribute__((const)) Dim3 block_idx() { return table->thread()->block_idx; }
TW_HOST_PRIMITIVE __attribute__((const)) Dim3 block_dim() { return table->thread()->block_dim; }
TW_HOST_PRIMITIVE __attribute__((const)) Dim3 grid_dim() { return table->thread()->grid_dim; }
TW_HOST_PRIMITIVE __attribute__((const)) unsigned char* dynamic_shared() { return table->thread()->dynamic_shared; }
inline constexpr int kWarpSize = 32;

template <unsigned... kIndices>
struct Indices {};
template <unsigned kCount, unsigned... kIndices>
struct MakeIndices : MakeIndices<kCount - 1, kCount - 1, kIndices...> {};
template <unsigned... kIndices>
struct MakeIndices<0, kIndices...> {
  using Type = Indices<kIndices...>;
};

template <typename... Params, unsigned... kIndices>
TW_HOST_PLAIN void call(void (*kernel)(Params...), const void* const* parameters, Indices<kIndices...>) {
  void (*volatile opaque)(Params...) = kernel;  // inlined here, the kernel would not be instrumented
  opaque(*static_cast<const Params*>(parameters[kIndices])...);
}
template <typename... Params>
void call(void (*kernel)(Params...), const void* const* parameters) {
  call(kernel, parameters, typename MakeIndices<sizeof...(Params)>::Type{});
}

}  // namespace tw::host

#define threadIdx (::tw::host::thread_idx())
#define blockIdx (::tw::host::block_idx())
#define blockDim (::tw::host::block_dim())
#define gridDim (::tw::host::grid_dim())
#define warpSize (::tw::host::kWarpSize)

#include "tilewright/host/atomics.h"
#include "tilewright/host/checks.h"
#include "tilewright/host/math.h"
#include "tilewright/host/warp.h"
