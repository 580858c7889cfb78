// The judge of tests/gpu/host_agreement_test.cpp, and its file.
#include "tests/agreement/agreement.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "llvm/Support/FileSystem.h"
#include "ops/json.h"
#include "tests/host/host_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

HostTensor floats(llvm::ArrayRef<float> values) {
  HostTensor tensor = HostTensor::make(DType::kF32, {static_cast<std::int64_t>(values.size())});
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

}  // namespace

TEST_CASE("agreement: one bit more or less is seen", "[host]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const HostTensor want = floats({1.0f, -2.0f, nan, INFINITY});
  const Difference same = difference(floats({1.0f, -2.0f, -nan, INFINITY}), want);
  CHECK(same.equal == 4);
  CHECK(agrees(Agreement::kBitwise, DType::kF32, same));
  const Difference off = difference(floats({1.0f, std::nextafter(-2.0f, 0.0f), nan, INFINITY}), want);
  CHECK(off.equal == 3);
  CHECK(off.units == 1);
  CHECK(!agrees(Agreement::kBitwise, DType::kF32, off));
  CHECK(agrees(Agreement::kFunctions, DType::kF32, off));
  const Difference zero = difference(floats({0.0f}), floats({-0.0f}));
  CHECK(zero.units == 0);
  CHECK(!agrees(Agreement::kBitwise, DType::kF32, zero));
}

TEST_CASE("agreement: NaN and infinity on one side alone agree with nothing", "[host]") {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), INFINITY}) {
    const Difference apart = difference(floats({1.0f, value}), floats({1.0f, 1.0f}));
    CHECK(apart.misplaced == 1);
    for (const Agreement agreement : {Agreement::kBitwise, Agreement::kFused, Agreement::kFunctions, Agreement::kExponentials})
      CHECK(!agrees(agreement, DType::kF32, apart));
    CHECK(!agrees(Agreement::kTensor, DType::kF32, {}, normwise_error(floats({1.0f, value}), {1.0, 1.0})));
  }
}

TEST_CASE("agreement: each kind has its bound", "[host]") {
  const HostTensor want = floats({1.0f});
  const auto good = [&](Agreement agreement, float got) {
    return agrees(agreement, DType::kF32, difference(floats({got}), want), normwise_error(floats({got}), {1.0}));
  };
  CHECK(good(Agreement::kFused, 1.0f + 0x1p-22f));
  CHECK(!good(Agreement::kFused, 1.0f + 0x1p-21f));
  CHECK(good(Agreement::kFunctions, 1.0f + 16 * 0x1p-23f));
  CHECK(!good(Agreement::kFunctions, 1.0f + 17 * 0x1p-23f));
  for (const Agreement agreement : {Agreement::kExponentials, Agreement::kTensor}) {
    CHECK(good(agreement, 1.0f + 0x1p-20f));
    CHECK(!good(agreement, 1.0f + 0x1p-19f));
  }
}

TEST_CASE("agreement: sums rounded to 16 bits are held against the exact ones less that rounding", "[host]") {
  HostTensor got = HostTensor::make(DType::kF16, {1});
  got.set(0, 1.0);
  CHECK(normwise_error(got, {1.0 + 0x1p-11}) == 0);
  CHECK(normwise_error(got, {1.0 + 0x1p-11 + 0x1p-21}) <= 0x1p-20);
  CHECK(normwise_error(got, {1.0 + 0x1p-11 + 0x1p-18}) > 0x1p-20);
}

TEST_CASE("agreement: at least 50 cases of every template, all of which can be planned", "[host]") {
  std::map<std::string, unsigned> counts;
  std::map<std::string, unsigned> templates;
  for (const AgreementCase& c : draw_agreement_cases(1)) {
    INFO(c.template_name << "\n" << c.description);
    ++counts[c.template_name];
    const Graph graph = value_of(parse_description(c.description));
    CompileOptions options;
    options.overrides = c.overrides;
    const auto prepared = value_of(prepare_program(graph, options));
    REQUIRE(prepared.plan.groups.size() == 1);
    const std::string kind = template_name(prepared.plan.groups[0].kind).str();
    // The name begins with the template's.
    CHECK(c.template_name.rfind(kind, 0) == 0);
    ++templates[kind];
    CHECK(element_count(graph.value(graph.outputs()[0]).shape).evaluate(c.dims) <= 4096);
  }
  for (const auto& [name, count] : counts) CHECK(count >= 50);
  CHECK(templates.size() == 7);
}

TEST_CASE("agreement: what is written reads back", "[host]") {
  AgreementCase c = draw_agreement_cases(7)[60];
  c.sources = "abc";
  c.outputs = {std::string("\0\xff\n", 3), ""};
  llvm::SmallString<128> path;
  REQUIRE(!llvm::sys::fs::createTemporaryFile("agreement", "jsonl", path));
  if (llvm::Error error = write_agreement_cases(path.str().str(), {c, c})) FAIL(take_error_facts(std::move(error)).message);
  const auto back = value_of(read_agreement_cases(path.str().str()));
  REQUIRE(back.size() == 2);
  CHECK(back[1].template_name == c.template_name);
  CHECK(back[1].agreement == c.agreement);
  CHECK(back[1].description == c.description);
  CHECK(back[1].dims == c.dims);
  CHECK(back[1].inputs.seed == c.inputs.seed);
  CHECK(back[1].inputs.high == c.inputs.high);
  CHECK(back[1].inputs.special_values == c.inputs.special_values);
  CHECK(back[1].shift_elements == c.shift_elements);
  CHECK(back[1].overrides == c.overrides);
  CHECK(back[1].sources == "abc");
  CHECK(back[1].outputs == c.outputs);
  std::ofstream(path.c_str()) << "{\"format\": 2}\n";
  auto other = read_agreement_cases(path.str().str());
  REQUIRE(!other);
  CHECK(llvm::StringRef(take_error_facts(other.takeError()).message).contains("line 1: not a case of format 1"));
  std::filesystem::remove(path.c_str());
}
