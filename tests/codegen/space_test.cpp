#include "codegen/space.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/codegen/cases.h"
#include "tests/graphs.h"

using namespace tilewright;
using tilewright::tests::graph_of;
using tilewright::tests::value_of;

namespace {

Space space_of(const Graph& graph, const CompileOptions& options) { return value_of(make_space(graph, options)); }

CompileOptions options_of(const DescriptionCase& c) {
  CompileOptions options;
  options.plan.fuse = !c.unfused;
  return options;
}

const char* const kTwoKernels = R"j({"name": "two", "inputs": {"x": {"dtype": "f32", "shape": [8, 16]}},
  "ops": [{"op": "softmax", "in": ["x"], "out": "s", "axis": 1}, {"op": "softmax", "in": ["s"], "out": "y", "axis": 0}],
  "outputs": ["y"]})j";

}  // namespace

TEST_CASE("space: every parameter a lowering reads is documented, in its order", "[codegen]") {
  for (const DescriptionCase& c : description_cases()) {
    INFO(c.name);
    const Graph graph = graph_of(c.json);
    auto prepared = prepare_program(graph, options_of(c));
    REQUIRE(static_cast<bool>(prepared));
    for (auto [group, kernel] : llvm::zip_equal(prepared->plan.groups, prepared->lowered.kernels)) {
      // Some are read only where they mean something.
      llvm::ArrayRef<TemplateParameter> documented = template_parameters(group.kind);
      for (const auto& [name, value] : kernel.parameters) {
        INFO(name);
        documented = documented.drop_while([&, &name = name](const TemplateParameter& parameter) { return parameter.name != name; });
        CHECK_FALSE(documented.empty());
        documented = documented.drop_front(documented.empty() ? 0 : 1);
      }
    }
  }
}

TEST_CASE("space: every case has the default and some neighbour that lower; the rest is refused by name", "[codegen]") {
  for (const DescriptionCase& c : description_cases()) {
    INFO(c.name);
    const Graph graph = graph_of(c.json);
    const CompileOptions options = options_of(c);
    const Space space = space_of(graph, options);
    const ConfigOverrides start = space.default_config();
    CHECK(take_error_facts(check_config(graph, options, space, start)).message.empty());
    unsigned accepted = 0;
    for (const SpaceParameter& parameter : space.parameters) {
      CHECK(std::is_sorted(parameter.values.begin(), parameter.values.end()));
      CHECK(llvm::is_contained(parameter.values, parameter.fallback));
      for (std::int64_t value : {parameter.values.front(), parameter.values.back()}) {
        ConfigOverrides config = start;
        config[parameter.name] = value;
        if (llvm::Error error = check_config(graph, options, space, config)) {
          CHECK(llvm::StringRef(take_error_facts(std::move(error)).message).starts_with("config: "));
        } else {
          ++accepted;
        }
      }
    }
    CHECK(accepted > 0);
  }
}

TEST_CASE("space: a config outside is refused with its name and values", "[codegen]") {
  const Graph graph = graph_of(kTwoKernels);
  const Space space = space_of(graph, {});
  auto message = [&](const ConfigOverrides& config) {
    llvm::Error error = check_config(graph, {}, space, config);
    REQUIRE(static_cast<bool>(error));
    return take_error_facts(std::move(error)).message;
  };
  CHECK(message({{"0.block_threads", 96}}).find("0.block_threads = 96 is not in the space, values: 64, 128") != std::string::npos);
  CHECK(message({{"0.warps", 4}}).find("0.warps is no parameter") != std::string::npos);
  CHECK(message({{"1.block_threads", 64}, {"1.axis_threads", 32}, {"1.vector_elems", 8}}).find("config: ") == 0);
}

TEST_CASE("space: a parameter of one kernel of several is named by its number", "[codegen]") {
  const Graph graph = graph_of(kTwoKernels);
  CompileOptions options;
  options.overrides = {{"block_threads", 512}, {"1.block_threads", 64}};
  auto prepared = prepare_program(graph, options);
  REQUIRE(static_cast<bool>(prepared));
  CHECK(prepared->lowered.kernels[0].spec.launch.block[0] == 512);
  CHECK(prepared->lowered.kernels[1].spec.launch.block[0] == 64);
}

TEST_CASE("space: combinations are counted and numbered", "[codegen]") {
  Space space;
  space.parameters = {{"a", {1, 2, 4}, 2, ""}, {"b", {0, 1}, 0, ""}};
  CHECK(space.combinations() == 6);
  CHECK(space.combination(0) == ConfigOverrides{{"a", 1}, {"b", 0}});
  CHECK(space.combination(5) == ConfigOverrides{{"a", 4}, {"b", 1}});
  CHECK(config_text(space.default_config()) == R"j({"a":2,"b":0})j");
  const std::string before = space.identity();
  space.parameters[1].values.push_back(2);
  CHECK(space.identity() != before);
}
