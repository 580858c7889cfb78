#include "runtime/tensor_map.h"

#include "tests/runtime/fake_driver.h"
#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

TensorMapSpec good_spec() {
  TensorMapSpec spec;
  spec.address = 4096;
  spec.dims = {40, 7};
  spec.strides_bytes = {160};
  spec.box = {32, 4};
  spec.swizzle = TensorMapSwizzle::k128B;
  return spec;
}

}  // namespace

TEST_CASE("tensor_map: each broken rule is named", "[runtime]") {
  const auto message = [](auto change) {
    TensorMapSpec spec = good_spec();
    change(spec);
    return failure_of(encode_tensor_map_on_host(spec)).message;
  };
  CHECK(contains(message([](TensorMapSpec& s) { s.address += 4; }), "address 0x1004 is not a multiple of 16"));
  CHECK(contains(message([](TensorMapSpec& s) { s.strides_bytes[0] = 164; }), "stride of 164 bytes along dimension 1"));
  CHECK(contains(message([](TensorMapSpec& s) { s.box[1] = 257; }), "257 elements along dimension 1"));
  CHECK(contains(message([](TensorMapSpec& s) { s.box[0] = 36; }), "wider than the swizzle's 128"));
  CHECK(contains(message([](TensorMapSpec& s) { s.box[0] = 31; }), "124 bytes is not a multiple of 16"));
  CHECK(contains(message([](TensorMapSpec& s) { s.box[0] = 16; }), "must be as wide as the swizzle"));
  CHECK(contains(message([](TensorMapSpec& s) { s.dims.clear(); }), "0 dimensions"));
}

TEST_CASE("tensor_map: the driver gets the parameters and its error is passed on", "[runtime]") {
  Driver driver = reset_fake();
  driver.tensor_map_encode_tiled = [](CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
                                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* ones, CUtensorMapInterleave,
                                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    const bool good = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 && rank == 2 && reinterpret_cast<std::uint64_t>(address) == 4096 &&
                      dims[1] == 7 && strides[0] == 160 && box[0] == 32 && ones[1] == 1 && swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
    map->opaque[0] = 99;
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  CHECK(must(encode_tensor_map(driver, good_spec())).words[0] == 99);
  TensorMapSpec other = good_spec();
  other.dims[1] = 8;
  CHECK(failure_of(encode_tensor_map(driver, other)).status == Status::kDriver);
}
