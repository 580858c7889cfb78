// Pseudo-random numbers that are the same everywhere: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014).
#pragma once

#include <cstdint>

namespace tilewright {

inline constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// The next number of the sequence; `state` begins as the seed, any value.
constexpr std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = (state += kSplitMixStep);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Number i (from 0) of the sequence that begins at `seed`.
constexpr std::uint64_t splitmix64_at(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t state = seed + i * kSplitMixStep;
  return splitmix64(state);
}

}  // namespace tilewright
