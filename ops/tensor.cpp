#include "ops/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "llvm/ADT/STLExtras.h"

namespace tilewright {
namespace {

// Rounds a double once to a binary format with `mantissa` explicit bits and exponents from `min_exponent` (of the smallest normal) on.
double round_to_format(double value, int mantissa, int min_exponent, double overflow) {
  if (!std::isfinite(value) || value == 0.0) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double quantum = std::ldexp(1.0, exponent - mantissa);
  const double rounded = std::nearbyint(value / quantum) * quantum;  // exact: the quotient has at most 53 bits, ties to even
  return std::abs(rounded) >= overflow ? std::copysign(INFINITY, value) : rounded;
}

double round_to_f16(double value) { return round_to_format(value, 10, -14, 65536.0); }
double round_to_bf16(double value) { return round_to_format(value, 7, -126, std::ldexp(1.0, 128)); }

std::uint16_t f16_bits(double value) {
  if (std::isnan(value)) return 0x7e00;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(round_to_f16(value));
  if (std::isinf(magnitude)) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0, -14)) return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)));
  const int exponent = std::ilogb(magnitude);
  const int fraction = static_cast<int>(std::ldexp(magnitude, 10 - exponent)) - 1024;
  return static_cast<std::uint16_t>(sign | (exponent + 15) << 10 | fraction);
}

// A value representable in bf16 is the upper half of its float.
std::uint16_t bf16_bits(double value) {
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(round_to_bf16(value))) >> 16);
}

// Truncates towards zero, saturates, NaN gives 0: what a kernel's conversion does.
template <typename T>
T to_integer(double value) {
  constexpr double kEnd = -static_cast<double>(std::numeric_limits<T>::min());  // 2^31 or 2^63
  if (std::isnan(value)) return 0;
  if (value >= kEnd) return std::numeric_limits<T>::max();
  if (value <= -kEnd) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

template <typename T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

double load_element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32: return read<float>(at);
    case DType::kF16: return f16_to_f32(read<std::uint16_t>(at));
    case DType::kBf16: return bf16_to_f32(read<std::uint16_t>(at));
    case DType::kI32: return read<std::int32_t>(at);
    case DType::kI64: return static_cast<double>(read<std::int64_t>(at));
    case DType::kBool: return read<std::uint8_t>(at) != 0 ? 1.0 : 0.0;
  }
  return 0.0;
}

void store_element(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::kF32: return write(at, static_cast<float>(value));
    case DType::kF16: return write(at, f16_bits(value));
    case DType::kBf16: return write(at, bf16_bits(value));
    case DType::kI32: return write(at, to_integer<std::int32_t>(value));
    case DType::kI64: return write(at, to_integer<std::int64_t>(value));
    case DType::kBool: return write(at, static_cast<std::uint8_t>(value != 0.0));
  }
}

// Output i of the SplitMix64 sequence that starts at `seed`: counter based, so that any element can be made alone.
std::uint64_t splitmix64(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Number of classes when a cross entropy reads `input` as its targets, else 0.
std::int64_t target_classes(const Graph& graph, ValueId input, llvm::ArrayRef<std::int64_t> dims) {
  for (OpId user : graph.users(input)) {
    const Op& op = graph.op(user);
    if (std::holds_alternative<CrossEntropyAttributes>(op.attributes) && op.inputs[1] == input) {
      return graph.value(op.inputs[0]).shape[1].evaluate(dims);
    }
  }
  return 0;
}

template <typename Body>
void parallel_ranges(std::int64_t count, Body body) {
  const auto threads = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  if (count < 1 << 16 || threads == 1) return body(std::int64_t{0}, count);
  std::vector<std::thread> pool;
  for (std::int64_t t = 0; t < threads; ++t) pool.emplace_back([=] { body(count * t / threads, count * (t + 1) / threads); });
  for (std::thread& thread : pool) thread.join();
}

}  // namespace

HostTensor HostTensor::make(DType dtype, llvm::ArrayRef<std::int64_t> shape, llvm::ArrayRef<std::int64_t> strides) {
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.strides.assign(strides.begin(), strides.end());
  if (strides.empty()) {
    tensor.strides.resize(shape.size());
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      tensor.strides[d] = stride;
      stride *= shape[d];
    }
  }
  std::int64_t reach = 1;
  for (auto [size, stride] : llvm::zip(tensor.shape, tensor.strides)) reach += (size - 1) * stride;
  tensor.bytes.resize(tensor.element_count() == 0 ? 0 : static_cast<std::size_t>(reach) * dtype_bytes(dtype));
  return tensor;
}

std::int64_t HostTensor::element_count() const {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t HostTensor::storage_elements() const { return static_cast<std::int64_t>(bytes.size() / dtype_bytes(dtype)); }

std::int64_t HostTensor::storage_offset(std::int64_t linear) const {
  std::int64_t offset = 0;
  for (std::size_t d = shape.size(); d-- > 0;) {
    offset += linear % shape[d] * strides[d];
    linear /= shape[d];
  }
  return offset;
}

double HostTensor::at(std::int64_t linear) const {
  return load_element(dtype, bytes.data() + static_cast<std::size_t>(storage_offset(linear)) * dtype_bytes(dtype));
}

void HostTensor::set(std::int64_t linear, double value) {
  store_element(dtype, bytes.data() + static_cast<std::size_t>(storage_offset(linear)) * dtype_bytes(dtype), value);
}

std::uint16_t f32_to_f16(float value) { return f16_bits(value); }
std::uint16_t f32_to_bf16(float value) { return bf16_bits(value); }

float f16_to_f32(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

double round_to_dtype(double value, DType dtype) {
  std::byte storage[8];
  store_element(dtype, storage, value);
  return load_element(dtype, storage);
}

llvm::SmallVector<std::int64_t, 6> concrete_shape(llvm::ArrayRef<SizeExpr> shape, llvm::ArrayRef<std::int64_t> dims) {
  llvm::SmallVector<std::int64_t, 6> concrete;
  for (const SizeExpr& size : shape) concrete.push_back(size.evaluate(dims));
  return concrete;
}

HostTensor random_input(const Graph& graph, ValueId input, llvm::ArrayRef<std::int64_t> dims, std::uint64_t seed, double low, double high) {
  const Value& value = graph.value(input);
  HostTensor tensor = HostTensor::make(value.dtype, concrete_shape(value.shape, dims), value.strides);
  const std::int64_t classes = target_classes(graph, input, dims);
  const std::uint64_t stream = splitmix64(seed, input);
  const std::size_t size = dtype_bytes(value.dtype);
  parallel_ranges(tensor.storage_elements(), [&, low, high, classes, stream, size](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t bits = splitmix64(stream, static_cast<std::uint64_t>(i));
      const double unit = static_cast<double>(bits >> 40) * 0x1p-24;
      double element = low + (high - low) * unit;
      if (classes > 0) element = static_cast<double>(bits % static_cast<std::uint64_t>(classes));
      else if (value.dtype == DType::kI32 || value.dtype == DType::kI64) element = static_cast<double>(static_cast<std::int64_t>(bits % 200) - 100);
      else if (value.dtype == DType::kBool) element = static_cast<double>(bits >> 63);
      store_element(value.dtype, tensor.bytes.data() + static_cast<std::size_t>(i) * size, element);
    }
  });
  return tensor;
}

}  // namespace tilewright
