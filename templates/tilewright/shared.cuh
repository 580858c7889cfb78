// tilewright/shared.cuh
// Shared memory whose meaning the two compilers have to be told apart. Any sm_80 or newer.
#pragma once

#include "tilewright/ptx.cuh"

namespace tw {

// Dynamic shared memory of the block: what the launch asks for, aligned to 16 bytes.
__device__ __forceinline__ u32* dynamic_shared_words() {
#ifdef TILEWRIGHT_HOST
  return reinterpret_cast<u32*>(host::dynamic_shared());
#else
  extern __shared__ __attribute__((aligned(16))) u32 words[];
  return words;
#endif
}

// A word that may lie where nobody has written, or where somebody is writing, as long as its value is then not used.
__device__ __forceinline__ u32 load_slack_word(const void* address) {
#ifdef TILEWRIGHT_HOST
  return ptx::host_detail::load_slack(address);
#else
  return *static_cast<const u32*>(address);
#endif
}

}  // namespace tw
