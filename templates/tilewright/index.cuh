// tilewright/index.cuh
// Arithmetic on element indices, which are i32 where every tensor is small enough and i64 otherwise. Any sm_80 or newer.
#pragma once

#include "tilewright/types.cuh"

namespace tw {

template <typename Index>
struct UnsignedOf {
  using Type = u64;
};
template <>
struct UnsignedOf<i32> {
  using Type = u32;
};
template <typename Index>
using Unsigned = typename UnsignedOf<Index>::Type;

template <typename Index>
struct Split {
  Index quotient;
  Index remainder;
};

// value / divisor and the rest, for value >= 0 and divisor > 0: unsigned division is the cheaper one.
template <typename Index>
__device__ __forceinline__ Split<Index> split(Index value, Index divisor) {
  const Unsigned<Index> v = static_cast<Unsigned<Index>>(value);
  const Unsigned<Index> d = static_cast<Unsigned<Index>>(divisor);
  const Unsigned<Index> q = v / d;
  return {static_cast<Index>(q), static_cast<Index>(v - q * d)};
}

}  // namespace tw
