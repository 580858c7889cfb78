// What ptx.cuh means on the CPU.
#include <cmath>
#include <fstream>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

#include "ops/tensor.h"
#include "tests/catch.h"

// Last: it defines CUDA's words.
#include "templates/tilewright/host/prelude.h"
#include "tilewright/ptx.cuh"

namespace {

std::set<std::string> functions_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(std::string(TILEWRIGHT_SOURCE_DIR) + "/templates/tilewright/" + file).rdbuf();
  const std::string source = text.str();
  // A definition whose name ends in a PTX type or width, in namespace tw::ptx itself: what helpers there are is in host_detail.
  static const std::regex kFunction(R"(\n(?:__device__ __forceinline__|__forceinline__|TW_HOST_PRIMITIVE) \w+\*? (\w+)\()");
  std::set<std::string> names;
  for (auto it = std::sregex_iterator(source.begin(), source.end(), kFunction); it != std::sregex_iterator(); ++it)
    names.insert(it->str(1));
  names.erase("load_slack");      // of shared.cuh
  names.erase("shared_address");  // a helper of the asm
  return names;
}

std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

}  // namespace

TEST_CASE("host ptx: every function of ptx*.cuh has its meaning on the CPU", "[host]") {
  for (const std::string name : {"ptx", "ptx_async", "ptx_wgmma"}) {
    INFO(name);
    const auto device = functions_of(name + ".cuh");
    auto host = functions_of("host/" + name + ".h");
    if (name == "ptx_async") host.merge(functions_of("host/ptx_matrix.h"));
    CHECK(device.size() > 5);
    CHECK(device == host);
  }
}

TEST_CASE("host ptx: f16 and bf16 conversions have the bits of round to nearest even", "[host]") {
  unsigned wrong = 0;
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const auto bits = static_cast<std::uint16_t>(half);
    const float value = tw::ptx::cvt_f32_f16(bits);
    if (bits_of(value) != bits_of(tilewright::f16_to_f32(bits))) ++wrong;
    // The value itself, its neighbours and those of the midpoint to the next one.
    for (const std::uint32_t base : {bits_of(value), bits_of(value) + 0x1000u, half << 16, (half << 16) + 0x8000u}) {
      for (std::uint32_t delta = 0; delta < 3; ++delta) {
        const float near = float_of(base + delta - 1);
        if (std::isnan(near)) {
          if (tw::ptx::cvt_rn_f16_f32(near) != 0x7fff || tw::ptx::cvt_rn_bf16_f32(near) != 0x7fff) ++wrong;
          continue;
        }
        if (tw::ptx::cvt_rn_f16_f32(near) != tilewright::f32_to_f16(near)) ++wrong;
        if (tw::ptx::cvt_rn_bf16_f32(near) != tilewright::f32_to_bf16(near)) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("host ptx: tf32 is the nearest, of two the even one", "[host]") {
  CHECK(tw::ptx::cvt_rn_tf32_f32(float_of(0x3f800fffu)) == 0x3f800000u);
  CHECK(tw::ptx::cvt_rn_tf32_f32(float_of(0x3f801000u)) == 0x3f800000u);  // a tie
  CHECK(tw::ptx::cvt_rn_tf32_f32(float_of(0x3f803000u)) == 0x3f804000u);  // the other way
  CHECK(tw::ptx::cvt_rn_tf32_f32(float_of(0xbf801001u)) == 0xbf802000u);
  CHECK(tw::ptx::cvt_rn_tf32_f32(float_of(0x7f7fffffu)) == 0x7f800000u);
  CHECK(std::isnan(float_of(tw::ptx::cvt_rn_tf32_f32(float_of(0x7f800001u)))));
}

TEST_CASE("host ptx: rcp.approx.ftz and conversions to integers keep their ends", "[host]") {
  CHECK(tw::ptx::rcp_approx_ftz_f32(4.0f) == 0.25f);
  CHECK(tw::ptx::rcp_approx_ftz_f32(0.0f) == INFINITY);
  CHECK(tw::ptx::rcp_approx_ftz_f32(-1e-39f) == -INFINITY);
  CHECK(tw::ptx::rcp_approx_ftz_f32(0x1.8p126f) == 0.0f);
  CHECK(tw::ptx::cvt_rzi_s32_f32(-1.9f) == -1);
  CHECK(tw::ptx::cvt_rzi_s32_f32(3e9f) == 2147483647);
  CHECK(tw::ptx::cvt_rzi_s32_f32(-INFINITY) == -2147483647 - 1);
  CHECK(tw::ptx::cvt_rzi_s64_f32(1e30f) == 9223372036854775807ll);
}

TEST_CASE("host ptx: min and max pass NaN on and order zeros", "[host]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(tw::ptx::max_nan_f32(nan, 1.0f)));
  CHECK(std::isnan(tw::ptx::min_nan_f32(1.0f, nan)));
  CHECK(bits_of(tw::ptx::max_nan_f32(-0.0f, 0.0f)) == 0);
  CHECK(bits_of(tw::ptx::min_nan_f32(0.0f, -0.0f)) == 0x80000000u);
  CHECK(tw::ptx::max_nan_f32(-INFINITY, 2.0f) == 2.0f);
}

TEST_CASE("host ptx: ex2.approx.ftz keeps its documented error", "[host]") {
  double worst = 0;
  for (int i = -1260000; i < 1280000; i += 37) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double want = std::exp2(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(tw::ptx::ex2_approx_ftz_f32(x)) - want) / want);
  }
  CHECK(worst <= 0x1p-22);
  CHECK(tw::ptx::ex2_approx_ftz_f32(-127.0f) == 0.0f);
  CHECK(tw::ptx::ex2_approx_ftz_f32(-INFINITY) == 0.0f);
  CHECK(std::isinf(tw::ptx::ex2_approx_ftz_f32(128.0f)));
}
