// Integer arithmetic for sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tilewright {

inline constexpr std::int64_t kLargestSize = std::numeric_limits<std::int64_t>::max();

// a + b and a * b, ending at +-kLargestSize instead of overflowing.
inline std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? kLargestSize : -kLargestSize;
  return std::max(sum, -kLargestSize);
}

inline std::int64_t saturating_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? kLargestSize : -kLargestSize;
  return std::max(product, -kLargestSize);
}

// a / b rounded down or up, for either sign; 0 for a divisor of 0.
inline std::int64_t divide_down(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return saturating_mul(a, -1);
  const std::int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return saturating_mul(a, -1);
  const std::int64_t quotient = a / b;
  return quotient + (a % b != 0 && (a < 0) == (b < 0) ? 1 : 0);
}

}  // namespace tilewright
