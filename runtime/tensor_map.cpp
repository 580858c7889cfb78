#include "runtime/tensor_map.h"

#include <bit>

#include "runtime/error.h"
#include "templates/tilewright/host/tensor_map.h"

namespace tilewright {
namespace {

constexpr std::uint64_t kMostDim = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostStride = std::uint64_t{1} << 40;
constexpr std::uint32_t kMostBox = 256;

std::uint64_t swizzle_bytes(TensorMapSwizzle swizzle) { return std::uint64_t{16} << static_cast<unsigned>(swizzle); }

std::uint64_t row_bytes(const TensorMapSpec& spec) { return spec.box[0] * static_cast<std::uint64_t>(dtype_bytes(spec.dtype)); }

CUtensorMapDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::kI32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::kI64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case DType::kBool:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

}  // namespace

llvm::Error check_tensor_map(const TensorMapSpec& spec) {
  const std::size_t rank = spec.dims.size();
  if (rank < 1 || rank > 5) return make_error(Status::kInvalidArgument, "tensor map: {} dimensions, 1 to 5 are possible", rank);
  if (spec.strides_bytes.size() != rank - 1 || spec.box.size() != rank)
    return make_error(Status::kInvalidArgument, "tensor map: {} dimensions, {} strides, a box of {}", rank, spec.strides_bytes.size(),
                      spec.box.size());
  if (spec.address == 0 || spec.address % 16 != 0)
    return make_error(Status::kInvalidArgument, "tensor map: address {:#x} is not a multiple of 16", spec.address);
  for (std::size_t d = 0; d < rank; ++d) {
    if (spec.dims[d] < 1 || spec.dims[d] > kMostDim)
      return make_error(Status::kInvalidArgument, "tensor map: dimension {} has {} elements, 1 to 2^32 are possible", d, spec.dims[d]);
    if (spec.box[d] < 1 || spec.box[d] > kMostBox)
      return make_error(Status::kInvalidArgument, "tensor map: the box has {} elements along dimension {}, 1 to {} are possible",
                        spec.box[d], d, kMostBox);
    if (d > 0 && (spec.strides_bytes[d - 1] % 16 != 0 || spec.strides_bytes[d - 1] >= kMostStride))
      return make_error(Status::kInvalidArgument, "tensor map: a stride of {} bytes along dimension {} is not a multiple of 16 below 2^40",
                        spec.strides_bytes[d - 1], d);
  }
  if (row_bytes(spec) % 16 != 0)
    return make_error(Status::kInvalidArgument, "tensor map: the box's innermost row of {} bytes is not a multiple of 16", row_bytes(spec));
  if (spec.swizzle != TensorMapSwizzle::kNone && row_bytes(spec) > swizzle_bytes(spec.swizzle))
    return make_error(Status::kInvalidArgument, "tensor map: the box's innermost row of {} bytes is wider than the swizzle's {}",
                      row_bytes(spec), swizzle_bytes(spec.swizzle));
  if (spec.nan_fill && !is_floating(spec.dtype))
    return make_error(Status::kInvalidArgument, "tensor map: NaN outside of a tensor of {}", dtype_name(spec.dtype));
  return llvm::Error::success();
}

llvm::Expected<EncodedTensorMap> encode_tensor_map(const Driver& driver, const TensorMapSpec& spec) {
  if (llvm::Error error = check_tensor_map(spec)) return error;
  EncodedTensorMap map{};
  const llvm::SmallVector<std::uint32_t, 5> ones(spec.dims.size(), 1);
  constexpr CUtensorMapSwizzle kSwizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
                                              CU_TENSOR_MAP_SWIZZLE_128B};
  const CUresult result = driver.tensor_map_encode_tiled(
      reinterpret_cast<CUtensorMap*>(&map), data_type(spec.dtype), static_cast<std::uint32_t>(spec.dims.size()),
      reinterpret_cast<void*>(spec.address), reinterpret_cast<const cuuint64_t*>(spec.dims.data()),
      reinterpret_cast<const cuuint64_t*>(spec.strides_bytes.data()), spec.box.data(), ones.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      kSwizzles[static_cast<unsigned>(spec.swizzle)], CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      spec.nan_fill ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (llvm::Error error = driver.check(result, "encoding a tensor map")) return error;
  return map;
}

llvm::Expected<EncodedTensorMap> encode_tensor_map_on_host(const TensorMapSpec& spec) {
  if (llvm::Error error = check_tensor_map(spec)) return error;
  if (spec.swizzle != TensorMapSwizzle::kNone && row_bytes(spec) != swizzle_bytes(spec.swizzle))
    return make_error(Status::kUnsupported,
                      "tensor map: on the CPU the box's innermost row of {} bytes must be as wide as the swizzle ({})", row_bytes(spec),
                      swizzle_bytes(spec.swizzle));
  tw::host::HostTensorMap map{};
  map.magic = tw::host::HostTensorMap::kMagic;
  map.base = reinterpret_cast<unsigned char*>(spec.address);
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    map.dims[d] = spec.dims[d];
    map.box[d] = static_cast<unsigned short>(spec.box[d]);
    if (d > 0) map.strides[d - 1] = spec.strides_bytes[d - 1];
  }
  map.rank = static_cast<unsigned char>(spec.dims.size());
  map.element_bytes = static_cast<unsigned char>(dtype_bytes(spec.dtype));
  map.swizzle = static_cast<tw::host::Swizzle>(spec.swizzle);
  map.nan_fill = spec.nan_fill;
  map.fill_bits = !spec.nan_fill ? 0u : spec.dtype == DType::kF32 ? 0x7fffffffu : 0x7fffu;
  return std::bit_cast<EncodedTensorMap>(map);
}

}  // namespace tilewright
