// HostTensor: conversions against the definition of the formats, strides, seeded data.
#include "ops/tensor.h"

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "ops/builder.h"
#include "tests/ops/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The value of 16 bits by the formula of the format.
double decoded(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & top;
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000u ? -1.0 : 1.0;
  if (exponent == top) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * kInf;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

struct Format {
  DType dtype;
  int exponent_bits, fraction_bits;
  std::uint16_t (*narrow)(float);
  float (*widen)(std::uint16_t);
  std::uint16_t nan;
};
const Format kFormats[] = {{DType::kF16, 5, 10, &f32_to_f16, &f16_to_f32, 0x7e00},
                           {DType::kBf16, 8, 7, &f32_to_bf16, &bf16_to_f32, 0x7fc0}};

Graph one_input(DType dtype, Shape shape, llvm::ArrayRef<std::int64_t> strides = {}) {
  GraphBuilder b("t");
  const ValueId x = value_of(b.input("x", dtype, std::move(shape), strides));
  const ValueId y = value_of(b.cast(x, dtype == DType::kF32 ? DType::kF16 : DType::kF32, "y"));
  return value_of(std::move(b).build({y}));
}

HostTensor seeded(DType dtype, std::int64_t n, std::uint64_t seed, double low = -1.0, double high = 1.0) {
  const Graph graph = one_input(dtype, {n});
  return random_input(graph, graph.inputs()[0], {}, seed, low, high);
}

}  // namespace

TEST_CASE("tensor: every f16 and bf16 pattern widens to its value and narrows back", "[ops]") {
  for (const Format& f : kFormats) {
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto pattern = static_cast<std::uint16_t>(bits);
      const double want = decoded(bits, f.exponent_bits, f.fraction_bits);
      const float got = f.widen(pattern);
      if (std::isnan(want)) {
        wrong += !std::isnan(got) || std::signbit(got) != ((bits & 0x8000u) != 0) || f.narrow(got) != f.nan;
      } else {
        wrong += got != want || std::signbit(got) != std::signbit(want) || f.narrow(got) != pattern;
      }
    }
    CAPTURE(dtype_name(f.dtype).str());
    CHECK(wrong == 0);
  }
}

TEST_CASE("tensor: between two neighbours the nearer one is taken, the even one half way", "[ops]") {
  for (const Format& f : kFormats) {
    const std::uint32_t infinity = static_cast<std::uint32_t>((1 << f.exponent_bits) - 1) << f.fraction_bits;
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < infinity; ++bits) {
      const double here = decoded(bits, f.exponent_bits, f.fraction_bits);
      // The successor of the largest number, were the exponent unbounded, rounds to infinity.
      const double next = bits + 1 == infinity ? 2 * here - decoded(bits - 1, f.exponent_bits, f.fraction_bits)
                                               : decoded(bits + 1, f.exponent_bits, f.fraction_bits);
      const double middle = here + (next - here) / 2;  // exact in double
      const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      const auto rounded = [&](double value, std::uint32_t want) {
        const double to = decoded(want, f.exponent_bits, f.fraction_bits);
        wrong += round_to_dtype(value, f.dtype) != to || round_to_dtype(-value, f.dtype) != -to;
      };
      rounded(middle, even);
      // One step of a double off the middle: rounding through f32 first would lose it.
      rounded(std::nextafter(middle, 0.0), bits);
      rounded(std::nextafter(middle, kInf), bits + 1);
    }
    CAPTURE(dtype_name(f.dtype).str());
    CHECK(wrong == 0);
  }
}

TEST_CASE("tensor: f32 narrows like the compiler's own half type", "[ops]") {
  int wrong = 0;
  for (std::uint64_t i = 0; i < (1ull << 32); i += 4099) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    if (std::isnan(value)) continue;
    wrong += f32_to_f16(value) != std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  }
  CHECK(wrong == 0);
}

TEST_CASE("tensor: a double is rounded once", "[ops]") {
  // Just above the middle of 1 and its neighbour: through f32 it would become the middle, and that would round to 1.
  CHECK(round_to_dtype(1.0 + 0x1p-11 + 0x1p-40, DType::kF16) == 1.0 + 0x1p-10);
  CHECK(round_to_dtype(1.0 + 0x1p-8 + 0x1p-40, DType::kBf16) == 1.0 + 0x1p-7);
}

TEST_CASE("tensor: rounding to integers truncates and saturates, to bool tests for zero", "[ops]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(round_to_dtype(2.9, DType::kI32) == 2.0);
  CHECK(round_to_dtype(-2.9, DType::kI32) == -2.0);
  CHECK(round_to_dtype(1e10, DType::kI32) == 2147483647.0);
  CHECK(round_to_dtype(2147483648.0, DType::kI32) == 2147483647.0);
  CHECK(round_to_dtype(-kInf, DType::kI32) == -2147483648.0);
  CHECK(round_to_dtype(nan, DType::kI32) == 0.0);
  CHECK(round_to_dtype(-1e30, DType::kI64) == -0x1p63);
  CHECK(round_to_dtype(9007199254740991.0, DType::kI64) == 9007199254740991.0);
  CHECK(round_to_dtype(0.25, DType::kBool) == 1.0);
  CHECK(round_to_dtype(0.0, DType::kBool) == 0.0);
  CHECK(round_to_dtype(0.1, DType::kF32) == static_cast<double>(0.1f));
  CHECK(round_to_dtype(1e39, DType::kF32) == kInf);
  CHECK(std::isnan(round_to_dtype(nan, DType::kF16)));
}

TEST_CASE("tensor: strides say where an element lies", "[ops]") {
  HostTensor t = HostTensor::make(DType::kF32, {2, 3}, {1, 2});
  CHECK(t.storage_elements() == 6);
  CHECK_FALSE(t.is_row_major());
  const std::int64_t offsets[] = {0, 2, 4, 1, 3, 5};
  for (std::int64_t i = 0; i < 6; ++i) {
    CHECK(t.storage_offset(i) == offsets[i]);
    t.set(i, static_cast<double>(i) + 0.5);
  }
  for (std::int64_t i = 0; i < 6; ++i) CHECK(t.at(i) == static_cast<double>(i) + 0.5);
  const HostTensor padded = HostTensor::make(DType::kF16, {2, 3}, {8, 1});
  CHECK(padded.storage_elements() == 11);  // 1 * 8 + 2 * 1 + 1
  CHECK(padded.bytes.size() == 22);
  CHECK(HostTensor::make(DType::kF32, {2, 3}, {0, 1}).storage_elements() == 3);
  CHECK(HostTensor::make(DType::kF32, {1, 3}, {77, 1}).is_row_major());
  const HostTensor scalar = HostTensor::make(DType::kI64, {});
  CHECK(scalar.element_count() == 1);
  CHECK(scalar.bytes.size() == 8);
  const HostTensor empty = HostTensor::make(DType::kF32, {3, 0, 2});
  CHECK(empty.element_count() == 0);
  CHECK(empty.storage_elements() == 0);
}

TEST_CASE("tensor: seeded data are the documented SplitMix64 values", "[ops]") {
  // The sequence as published, step by step.
  std::uint64_t state = 0;
  const auto next = [&] {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  };
  REQUIRE(next() == 0xe220a8397b1dcdafull);
  state = 42;
  state = next();  // the stream of input 0
  const HostTensor t = seeded(DType::kF32, 300000, 42, -1.0, 3.0);
  int wrong = 0;
  for (std::int64_t i = 0; i < t.element_count(); ++i) {
    const auto want = static_cast<float>(-1.0 + 4.0 * (static_cast<double>(next() >> 40) / 16777216.0));
    wrong += t.at(i) != static_cast<double>(want < 3.0f ? want : -1.0f);
  }
  CHECK(wrong == 0);
}

TEST_CASE("tensor: seeded data are the same for the same seed and others for another", "[ops]") {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kI32, DType::kI64, DType::kBool}) {
    CAPTURE(dtype_name(dtype).str());
    CHECK(seeded(dtype, 1000, 1).bytes == seeded(dtype, 1000, 1).bytes);
    CHECK(seeded(dtype, 1000, 1).bytes != seeded(dtype, 1000, 2).bytes);
    // Counter based: a longer tensor begins with the shorter one, across the pieces that threads work on.
    const HostTensor small = seeded(dtype, 1000, 3), large = seeded(dtype, 600000, 3);
    CHECK(std::equal(small.bytes.begin(), small.bytes.end(), large.bytes.begin()));
    CHECK_FALSE(std::equal(small.bytes.begin(), small.bytes.end(), large.bytes.end() - static_cast<std::ptrdiff_t>(small.bytes.size())));
  }
}

TEST_CASE("tensor: seeded data fill their range and keep to it", "[ops]") {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    CAPTURE(dtype_name(dtype).str());
    const HostTensor t = seeded(dtype, 100000, 5, 2.0, 3.0);
    double sum = 0, low = 9, high = 0;
    for (std::int64_t i = 0; i < t.element_count(); ++i) {
      sum += t.at(i), low = std::min(low, t.at(i)), high = std::max(high, t.at(i));
    }
    CHECK(low >= 2.0);
    CHECK(low < 2.02);
    CHECK(high < 3.0);
    CHECK(high > 2.97);
    CHECK(sum / 1e5 == Approx(2.5).epsilon(0.01));
  }
  // Where every second value would round to the bound, f32 having steps of 2.
  const HostTensor coarse = seeded(DType::kF32, 1000, 5, 16777216.0, 16777218.0);
  for (std::int64_t i = 0; i < coarse.element_count(); ++i) REQUIRE(coarse.at(i) == 16777216.0);
  const HostTensor integers = seeded(DType::kI32, 100000, 5), bools = seeded(DType::kBool, 10000, 5);
  std::set<double> seen;
  for (std::int64_t i = 0; i < integers.element_count(); ++i) seen.insert(integers.at(i));
  CHECK(seen.size() == 200);
  CHECK(*seen.begin() == -100.0);
  CHECK(*seen.rbegin() == 99.0);
  for (std::byte b : bools.bytes) REQUIRE(std::to_integer<int>(b) <= 1);
}

TEST_CASE("tensor: the targets of a cross entropy are classes, or ignored where there is none", "[ops]") {
  for (std::int64_t classes : {7, 0}) {
    GraphBuilder b("t");
    const ValueId x = value_of(b.input("x", DType::kF32, {1000, classes}));
    const ValueId t = value_of(b.input("t", DType::kI64, {1000}));
    CrossEntropyAttributes attributes;
    attributes.ignore_index = -5;
    const ValueId y = value_of(b.cross_entropy(x, t, attributes));
    const Graph graph = value_of(std::move(b).build({y}));
    const HostTensor targets = random_input(graph, graph.inputs()[1], {}, 9);
    std::set<double> seen;
    for (std::int64_t i = 0; i < 1000; ++i) seen.insert(targets.at(i));
    CHECK(seen == (classes ? std::set<double>{0, 1, 2, 3, 4, 5, 6} : std::set<double>{-5}));
  }
}
