#include "tests/agreement/agreement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/json.h"
#include "runtime/error.h"
#include "runtime/hash.h"

namespace tilewright {
namespace {

template <typename T>
T element(const HostTensor& tensor, std::int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

// Neighbouring values of a floating type are neighbouring integers; both zeros are 0.
std::int64_t ordered(const HostTensor& tensor, std::int64_t index) {
  if (tensor.dtype == DType::kF32) {
    const auto bits = element<std::int32_t>(tensor, index);
    return bits < 0 ? -std::int64_t{bits & 0x7fffffff} : bits;
  }
  const auto bits = element<std::int16_t>(tensor, index);
  return bits < 0 ? -std::int64_t{bits & 0x7fff} : bits;
}

// Nearest with 10 bits of fraction, ties to even.
void round_to_tf32(HostTensor& tensor) {
  for (std::size_t i = 0; i + 4 <= tensor.bytes.size(); i += 4) {
    std::uint32_t bits;
    std::memcpy(&bits, tensor.bytes.data() + i, 4);
    bits = (bits + 0xfffu + (bits >> 13 & 1)) & 0xffffe000u;
    std::memcpy(tensor.bytes.data() + i, &bits, 4);
  }
}

// Half a unit in the last place of a 16-bit dtype; 0 for f32, whose rounding counts.
double half_unit(DType dtype, double magnitude) {
  if (dtype != DType::kF16 && dtype != DType::kBf16) return 0;
  const int least = dtype == DType::kF16 ? -14 : -126, bits = dtype == DType::kF16 ? 10 : 7;
  return std::ldexp(1.0, std::max(magnitude > 0 ? std::ilogb(magnitude) : least, least) - bits - 1);
}

double ratio(double error_squared, double norm_squared) {
  if (error_squared == 0) return 0;
  return norm_squared > 0 ? std::sqrt(error_squared / norm_squared) : std::numeric_limits<double>::infinity();
}

}  // namespace

llvm::StringRef agreement_name(Agreement agreement) {
  switch (agreement) {
    case Agreement::kBitwise:
      return "bitwise";
    case Agreement::kFused:
      return "fused multiply-add may differ by one rounding";
    case Agreement::kFunctions:
      return "functions within their documented error";
    case Agreement::kExponentials:
      return "fast exponentials within their documented error";
    case Agreement::kTensor:
      return "tensor-core sums";
  }
  return "";
}

std::vector<HostTensor> agreement_inputs(const Graph& graph, const AgreementCase& c) { return make_test_inputs(graph, c.dims, c.inputs); }

llvm::Expected<std::vector<ReferenceTensor>> exact_sums(const Graph& graph, const AgreementCase& c) {
  std::vector<HostTensor> inputs = agreement_inputs(graph, c);
  if (graph.precision() == Precision::kTf32) {
    // Operands of the convolution; a bias comes after them and is added in f32.
    for (std::size_t i = 0; i < inputs.size() && i < 2; ++i) {
      if (inputs[i].dtype == DType::kF32) round_to_tf32(inputs[i]);
    }
  }
  return evaluate_reference(graph, inputs, c.dims);
}

llvm::Expected<CompiledProgram> compile_case(const AgreementCase& c, const Target& target, Builder& builder) {
  auto graph = parse_description(c.description);
  if (!graph) return graph.takeError();
  CompileOptions options;
  options.device = device_model(target);
  options.overrides = c.overrides;
  return compile_program(*graph, target, builder, options);
}

std::string sources_hash(const std::vector<std::string>& sources) {
  KeyHasher hasher;
  for (const std::string& source : sources) hasher.add("source", source);
  return hasher.hex();
}

Difference difference(const HostTensor& got, const HostTensor& want) {
  Difference result;
  result.elements = want.element_count();
  const std::size_t width = dtype_bytes(want.dtype);
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < result.elements; ++i) {
    const double a = got.at(i), b = want.at(i);
    const std::size_t at = static_cast<std::size_t>(i) * width;
    const bool same =
        std::equal(got.bytes.begin() + static_cast<std::ptrdiff_t>(at), got.bytes.begin() + static_cast<std::ptrdiff_t>(at + width),
                   want.bytes.begin() + static_cast<std::ptrdiff_t>(at));
    if (same || (std::isnan(a) && std::isnan(b))) ++result.equal;
    if (std::isfinite(a) && std::isfinite(b)) {
      const double units = is_floating(want.dtype) ? static_cast<double>(std::abs(ordered(got, i) - ordered(want, i))) : std::abs(a - b);
      result.units = std::max(result.units, units);
      error += (a - b) * (a - b);
      norm += b * b;
    } else if (!same && !(std::isnan(a) && std::isnan(b))) {
      ++result.misplaced;
    }
  }
  result.normwise = ratio(error, norm);
  return result;
}

double normwise_error(const HostTensor& got, llvm::ArrayRef<double> want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double value = got.at(static_cast<std::int64_t>(i));
    const double gap = std::abs(value - want[i]) - half_unit(got.dtype, std::max(std::abs(value), std::abs(want[i])));
    // NaN on either side is no agreement.
    if (std::isnan(gap)) return std::numeric_limits<double>::infinity();
    error += gap > 0 ? gap * gap : 0;
    norm += want[i] * want[i];
  }
  return ratio(error, norm);
}

bool agrees(Agreement agreement, DType dtype, const Difference& difference, double to_exact) {
  constexpr double kPart = 0x1p-20, kOneRounding = 0x1p-22;
  constexpr double kUnits = 16;
  if (agreement == Agreement::kBitwise) return difference.equal == difference.elements;
  if (difference.misplaced != 0) return false;
  if (agreement == Agreement::kTensor) return to_exact <= kPart;
  // Rounded to 16 bits, anything smaller shows as one unit at most; integers that come of such values too.
  if (dtype != DType::kF32) return difference.units <= 1;
  switch (agreement) {
    case Agreement::kFused:
      return difference.normwise <= kOneRounding;
    case Agreement::kFunctions:
      return difference.units <= kUnits;
    default:
      return difference.normwise <= kPart;
  }
}

}  // namespace tilewright
