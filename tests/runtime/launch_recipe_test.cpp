#include <cstddef>

#include "runtime/launch_recipe.h"
#include "tests/catch.h"

using tilewright::KernelArg;
using tilewright::KernelParam;
using tilewright::param_layout;

namespace {

KernelArg field(KernelArg::Kind kind) {
  KernelArg arg;
  arg.kind = kind;
  return arg;
}

}  // namespace

TEST_CASE("launch_recipe: fields are laid out as a C compiler does", "[runtime]") {
  struct Mirror {
    unsigned a;
    void* b;
    float c;
    unsigned d;
    long long e;
    float f;
  };
  using Kind = KernelArg::Kind;
  const KernelParam param{"Mirror",
                          {field(Kind::kMisalignment), field(Kind::kBuffer), field(Kind::kFloat32), field(Kind::kMisalignment),
                           field(Kind::kInt64), field(Kind::kFloat32)}};
  const auto layout = param_layout(param);
  REQUIRE(layout.size() == 7);
  CHECK(layout[0] == offsetof(Mirror, a));
  CHECK(layout[1] == offsetof(Mirror, b));
  CHECK(layout[2] == offsetof(Mirror, c));
  CHECK(layout[3] == offsetof(Mirror, d));
  CHECK(layout[4] == offsetof(Mirror, e));
  CHECK(layout[5] == offsetof(Mirror, f));
  CHECK(layout[6] == sizeof(Mirror));
}

TEST_CASE("launch_recipe: small fields alone are not padded to eight", "[runtime]") {
  const KernelParam param{"P", {field(KernelArg::Kind::kFloat32), field(KernelArg::Kind::kMisalignment), field(KernelArg::Kind::kFloat32)}};
  CHECK(param_layout(param).back() == 12);
}

TEST_CASE("launch_recipe: an empty struct has the size of an empty struct", "[runtime]") {
  struct Empty {};
  const auto layout = param_layout(KernelParam{"Empty", {}});
  REQUIRE(layout.size() == 1);
  CHECK(layout[0] == sizeof(Empty));
}
