#include "ops/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "llvm/ADT/STLExtras.h"
#include "runtime/parallel.h"
#include "runtime/random.h"

namespace tilewright {
namespace {

// A double rounded once, to nearest even, to the bits of a 16-bit format.
template <int kExponentBits, int kFractionBits>
std::uint16_t narrow(double value) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr std::uint32_t kInfinity = ((1u << kExponentBits) - 1) << kFractionBits;
  constexpr std::uint64_t kHidden = std::uint64_t{1} << 52;  // the leading one of a double
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 63 << 15);
  if (std::isnan(value)) return kInfinity | 1u << (kFractionBits - 1);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  if (exponent > kBias) return static_cast<std::uint16_t>(sign | kInfinity);
  const int below = std::max(0, 1 - kBias - exponent);  // binades under the smallest normal number
  const int shift = 52 - kFractionBits + below;
  if (shift > 53) return static_cast<std::uint16_t>(sign);  // less than half of the smallest subnormal
  const std::uint64_t significand = (bits & (kHidden - 1)) | kHidden;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1), rest = significand & (2 * half - 1);
  auto kept = static_cast<std::uint32_t>(significand >> shift);
  kept += rest > half || (rest == half && kept % 2 == 1);
  // The leading one of a normal number, and a carry out of the fraction, count the exponent field up by themselves, up to infinity.
  const auto field = static_cast<std::uint32_t>(below > 0 ? 0 : exponent + kBias - 1);
  return static_cast<std::uint16_t>(sign | ((field << kFractionBits) + kept));
}

std::uint16_t f16_bits(double value) { return narrow<5, 10>(value); }
std::uint16_t bf16_bits(double value) { return narrow<8, 7>(value); }

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
    case DType::kF32:
      return read<float>(at);
    case DType::kF16:
      return f16_to_f32(read<std::uint16_t>(at));
    case DType::kBf16:
      return bf16_to_f32(read<std::uint16_t>(at));
    case DType::kI32:
      return read<std::int32_t>(at);
    case DType::kI64:
      return static_cast<double>(read<std::int64_t>(at));
    case DType::kBool:
      return read<std::uint8_t>(at) != 0 ? 1.0 : 0.0;
  }
  return 0.0;
}

void store_element(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::kF32:
      return write(at, static_cast<float>(value));
    case DType::kF16:
      return write(at, f16_bits(value));
    case DType::kBf16:
      return write(at, bf16_bits(value));
    case DType::kI32:
      return write(at, to_integer<std::int32_t>(value));
    case DType::kI64:
      return write(at, to_integer<std::int64_t>(value));
    case DType::kBool:
      return write(at, static_cast<std::uint8_t>(value != 0.0));
  }
}

struct Targets {
  std::int64_t classes;
  std::int64_t ignore_index;
};

// What a cross entropy that reads `input` as its targets wants, if there is one.
std::optional<Targets> targets_of(const Graph& graph, ValueId input, llvm::ArrayRef<std::int64_t> dims) {
  for (OpId user : graph.users(input)) {
    const Op& op = graph.op(user);
    const auto* loss = std::get_if<CrossEntropyAttributes>(&op.attributes);
    if (loss && op.inputs[1] == input) return Targets{graph.value(op.inputs[0]).shape[1].evaluate(dims), loss->ignore_index};
  }
  return std::nullopt;
}

// Element i of the storage becomes make(random bits of i).
template <typename T, typename Make>
void fill(HostTensor& tensor, std::uint64_t stream, const Make& make) {
  constexpr std::int64_t kGrain = 1 << 18;
  std::byte* const bytes = tensor.bytes.data();
  parallel_pieces(tensor.storage_elements(), kGrain, 0, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      write<T>(bytes + static_cast<std::size_t>(i) * sizeof(T), make(splitmix64_at(stream, static_cast<std::uint64_t>(i))));
    }
  });
}

}  // namespace

llvm::SmallVector<std::int64_t, 6> row_major_strides(llvm::ArrayRef<std::int64_t> shape) {
  llvm::SmallVector<std::int64_t, 6> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

HostTensor HostTensor::make(DType dtype, llvm::ArrayRef<std::int64_t> shape, llvm::ArrayRef<std::int64_t> strides) {
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.strides.assign(strides.begin(), strides.end());
  if (strides.empty()) tensor.strides = row_major_strides(shape);
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

bool HostTensor::is_row_major() const {
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

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
  const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  if (exponent == 0) return std::copysign(static_cast<float>(fraction) * 0x1p-24f, bits & 0x8000u ? -1.0f : 1.0f);
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);  // 112: the difference of the biases, 127 - 15
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
  const std::uint64_t stream = splitmix64_at(seed, input);
  const std::optional<Targets> targets = value.dtype == DType::kI64 ? targets_of(graph, input, dims) : std::nullopt;
  // The product is exact when high - low has at most 29 significant bits, so that a fused multiply-add gives the same bits.
  const auto uniform = [=](std::uint64_t bits) { return low + (high - low) * (static_cast<double>(bits >> 40) * 0x1p-24); };
  const auto integer = [](std::uint64_t bits) { return static_cast<std::int64_t>(bits % 200) - 100; };
  const auto half = [&](auto to_bits, auto to_float) {
    fill<std::uint16_t>(tensor, stream, [=](std::uint64_t bits) {
      const std::uint16_t rounded = to_bits(uniform(bits));
      return to_float(rounded) < high ? rounded : to_bits(low);
    });
  };
  switch (value.dtype) {
    case DType::kF32:
      fill<float>(tensor, stream, [=](std::uint64_t bits) {
        const auto rounded = static_cast<float>(uniform(bits));
        return rounded < high ? rounded : static_cast<float>(low);
      });
      break;
    case DType::kF16:
      half(f16_bits, f16_to_f32);
      break;
    case DType::kBf16:
      half(bf16_bits, bf16_to_f32);
      break;
    case DType::kI32:
      fill<std::int32_t>(tensor, stream, [=](std::uint64_t bits) { return static_cast<std::int32_t>(integer(bits)); });
      break;
    case DType::kI64:
      fill<std::int64_t>(tensor, stream, [=](std::uint64_t bits) {
        if (!targets) return integer(bits);
        if (targets->classes == 0) return targets->ignore_index;
        return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(targets->classes));
      });
      break;
    case DType::kBool:
      fill<std::uint8_t>(tensor, stream, [](std::uint64_t bits) { return static_cast<std::uint8_t>(bits >> 63); });
      break;
  }
  return tensor;
}

}  // namespace tilewright
