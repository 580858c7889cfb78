#include "codegen/lower.h"

#include <cstdlib>
#include <map>

#include "codegen/compile.h"
#include "codegen/hooks.h"
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

LoweredProgram lower_of(const Graph& graph, const ConfigOverrides& overrides = {}, bool fuse = true) {
  PlanOptions options;
  options.fuse = fuse;
  return value_of(lower(graph, value_of(make_plan(graph, options)), {}, overrides));
}

const char* const kMap = R"({"name": "g", "inputs": {"NAME": {"dtype": "f32", "shape": [64, 128]}},
  "ops": [{"op": "relu", "in": ["NAME"], "out": "y"}], "outputs": ["y"]})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("lower: the source does not depend on the names of values", "[codegen]") {
  const LoweredProgram a = lower_of(graph_of(replaced(kMap, "NAME", "x")));
  const LoweredProgram b = lower_of(graph_of(replaced(kMap, "NAME", "some_other_name")));
  CHECK(a.kernels[0].source == b.kernels[0].source);
  CHECK(a.kernels[0].source.find("some_other_name") == std::string::npos);
}

TEST_CASE("lower: the source carries no path and is the same twice", "[codegen]") {
  for (const DescriptionCase& c : description_cases()) {
    INFO(c.name);
    const Graph graph = graph_of(c.json);
    const LoweredProgram a = lower_of(graph), b = lower_of(graph);
    for (std::size_t i = 0; i < a.kernels.size(); ++i) {
      CHECK(a.kernels[i].source == b.kernels[i].source);
      CHECK(a.kernels[i].source.find("/usr") == std::string::npos);
      CHECK(a.kernels[i].source.find("/home") == std::string::npos);
    }
  }
}

TEST_CASE("lower: an unknown tile parameter names the nearest known one", "[codegen]") {
  const Graph graph = graph_of(replaced(kMap, "NAME", "x"));
  auto plan = make_plan(graph);
  REQUIRE(static_cast<bool>(plan));
  auto unknown = lower(graph, *plan, {}, {{"block_thread", 128}});
  REQUIRE(!unknown);
  CHECK(take_error_facts(unknown.takeError()).message.find("did you mean block_threads?") != std::string::npos);
  auto bad = lower(graph, *plan, {}, {{"block_threads", 100}});
  REQUIRE(!bad);
  CHECK(take_error_facts(bad.takeError()).message.find("a multiple of 32") != std::string::npos);
  auto good = lower(graph, *plan, {}, {{"block_threads", 128}});
  REQUIRE(static_cast<bool>(good));
  CHECK(good->kernels[0].spec.launch.block[0] == 128);
}

TEST_CASE("lower: a symbolic dimension is an argument, not a constant", "[codegen]") {
  const Graph graph = graph_of(R"({"name": "g", "dims": {"N": {"default": 77, "min": 0, "max": 100000}},
    "inputs": {"x": {"dtype": "f32", "shape": ["N", 33]}}, "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})");
  const LoweredProgram program = lower_of(graph);
  CHECK(program.kernels[0].source.find("77") == std::string::npos);
  CHECK(program.recipe.kernels[0].grid[0].evaluate({0}) == 0);
}

TEST_CASE("lower: tensors above 2^31 elements get 64-bit indices, smaller ones 32-bit", "[codegen]") {
  auto source = [](const char* rows) {
    return lower_of(graph_of(R"({"name": "g", "inputs": {"x": {"dtype": "f16", "shape": [)" + std::string(rows) +
                             R"(, 65536]}}, "ops": [{"op": "relu", "in": ["x"], "out": "y"}], "outputs": ["y"]})"))
        .kernels[0]
        .source;
  };
  CHECK(source("32768").find("using Index = tw::i64") != std::string::npos);
  CHECK(source("32767").find("using Index = tw::i32") != std::string::npos);
}

TEST_CASE("lower: a heavy expression is written out for fewer elements", "[codegen]") {
  auto elems = [](const std::string& expr, int operands) {
    std::string inputs, names;
    for (int i = 0; i < operands; ++i) {
      const std::string name = "\"x" + std::to_string(i) + "\"";
      inputs += (i > 0 ? ", " : "") + name + R"(: {"dtype": "f32", "shape": [1024, 2048]})";
      names += (i > 0 ? ", " : "") + name;
    }
    const LoweredProgram program = lower_of(graph_of(R"({"name": "g", "inputs": {)" + inputs + R"(}, "ops": [{"op": "map", "in": [)" +
                                                     names + R"(], "out": "y", "expr": ")" + expr + R"("}], "outputs": ["y"]})"));
    std::int64_t product = 1;
    for (const auto& [name, value] : program.kernels[0].parameters) {
      if (name != "block_threads") product *= value;
    }
    return product;
  };
  std::string sum = "x0";
  for (int i = 1; i < 300; ++i) sum += " + x" + std::to_string(i);
  CHECK(elems("x0 + 1", 1) == 16);
  CHECK(elems("gelu(x0)", 1) == 16);
  CHECK(elems("gelu(gelu(gelu(gelu(gelu(gelu(gelu(gelu(gelu(x0)))))))))", 1) == 2);
  CHECK(elems(sum, 300) == 1);
}

TEST_CASE("lower: a workspace buffer that no later kernel reads is used again", "[codegen]") {
  auto workspace = [](const std::string& json) { return lower_of(graph_of(json), {}, false).recipe.workspace; };
  std::string ops;
  for (int i = 0; i < 100; ++i) {
    ops += (i > 0 ? ", " : "") + std::string(R"({"op": "relu", "in": ["v)") + std::to_string(i) + R"("], "out": "v)" +
           std::to_string(i + 1) + R"("})";
  }
  const auto chain =
      workspace(R"({"name": "g", "inputs": {"v0": {"dtype": "f32", "shape": [64, 128]}}, "ops": [)" + ops + R"(], "outputs": ["v100"]})");
  REQUIRE(chain.size() == 2);
  CHECK(chain[0].bytes.is_constant(64 * 128 * 4));

  // "a" is read to the end and keeps its buffer; "b" makes room for "c", which is larger.
  const std::string symbolic = R"({"name": "g", "dims": {"N": {"default": 4}},
    "inputs": {"x": {"dtype": "f16", "shape": ["N", 8]}},
    "ops": [{"op": "abs", "in": ["x"], "out": "a"}, {"op": "exp", "in": ["a"], "out": "b"}, {"op": "cast", "in": ["b"], "out": "d", "dtype": "f32"},
            {"op": "neg", "in": ["d"], "out": "c"}, {"op": "add", "in": ["c", "a"], "out": "y"}],
    "outputs": ["y"]})";
  const auto mixed = workspace(symbolic);
  REQUIRE(mixed.size() == 3);
  CHECK(mixed[0].bytes.evaluate({4}) == 64);
  CHECK(mixed[0].name == "a");
  CHECK(mixed[1].bytes.evaluate({4}) == 128);
  CHECK(mixed[1].name == "b, c");
  CHECK(mixed[2].name == "d");
}

TEST_CASE("lower: no kernel writes a buffer that it or a later reader of another value still needs", "[codegen]") {
  for (const DescriptionCase& c : description_cases()) {
    const Graph graph = graph_of(c.json);
    auto plan = make_plan(graph, {.fuse = false});
    REQUIRE(static_cast<bool>(plan));
    const LoweredProgram program = lower_of(graph, {}, false);
    // Runs the kernels on the names of values instead of their bytes.
    std::map<std::pair<BufferKind, std::uint32_t>, ValueId> holds;
    auto buffer_of = [&](std::size_t kernel, bool written) {
      std::vector<BufferRef> found;
      for (const KernelArg& field : program.kernels[kernel].spec.launch.params[1].fields) {
        if (field.kind == KernelArg::Kind::kBuffer && (field.name == "out") == written) found.push_back(field.buffer);
      }
      return found;
    };
    for (std::size_t i = 0; i < plan->groups.size(); ++i) {
      INFO(c.name << " kernel " << i);
      for (const BufferRef& buffer : buffer_of(i, false)) {
        if (buffer.kind == BufferKind::kWorkspace) CHECK(llvm::is_contained(plan->groups[i].reads, holds[{buffer.kind, buffer.index}]));
      }
      for (const BufferRef& buffer : buffer_of(i, true)) {
        CHECK_FALSE(llvm::is_contained(buffer_of(i, false), buffer));
        holds[{buffer.kind, buffer.index}] = plan->groups[i].result;
      }
    }
  }
}

TEST_CASE("lower: integer constants at the ends of their types are C++", "[codegen]") {
  auto text = [](double value) {
    std::string statements;
    return write_expression_statements(statements, constant_expr(value, DType::kI64), {}, "");
  };
  CHECK(text(-9223372036854775808.0) == "tw::i64(-9223372036854775807ll - 1)");
  CHECK(text(9223372036854775807.0) == "tw::i64(9223372036854775807ll)");
  CHECK(text(-5) == "tw::i64(-5ll)");
}

TEST_CASE("lower: the longest strides and dilations neither overflow nor fail", "[codegen]") {
  for (const char* attributes : {R"("stride": 1048575)", R"("dilation": 1048575)", R"("stride": 1048575, "dilation": 1048575)"}) {
    for (const char* weights : {"[8, 8, 3, 3]", "[8, 1, 3, 3]"}) {
      const std::string groups = weights[4] == '1' ? R"(, "groups": 8)" : "";
      INFO(attributes << " " << weights);
      const LoweredProgram program = lower_of(graph_of(R"({"name": "g", "inputs": {"x": {"dtype": "f16", "shape": [1, 8, 2100000, 2100000]},
        "w": {"dtype": "f16", "shape": )" + std::string(weights) +
                                                       R"(}},
        "ops": [{"op": "conv", "in": ["x", "w"], "out": "y", )" +
                                                       attributes + groups + R"(}], "outputs": ["y"]})"));
      CHECK(program.kernels.size() == 1);
    }
  }
}

// Every template, dtype and broadcast form goes through the real compiler for three architectures.
TEST_CASE("lower: every case compiles without warnings or large spills for sm_80, sm_90a and sm_100a", "[codegen][nvrtc]") {
  StoreOptions store;
  store.directory = "";
  auto builder = make_builder(store);
  if (auto nvrtc = builder->nvrtc(); !nvrtc) {
    WARN("skipped: " << take_error_facts(nvrtc.takeError()).message);
    return;
  }
  for (const DescriptionCase& c : description_cases()) {
    const Graph graph = graph_of(c.json);
    for (const char* name : {"sm_80", "sm_90a", "sm_100a"}) {
      if (c.seed_like && std::string(name) == "sm_80") continue;
      INFO(c.name << " for " << name);
      auto target = parse_target(name);
      REQUIRE(static_cast<bool>(target));
      CompileOptions options;
      options.device = device_model(*target);
      if (!c.config.empty() && !options.device.wgmma) continue;
      options.plan.fuse = !c.unfused;
      options.overrides = c.config;
      auto compiled = compile_program(graph, *target, *builder, options);
      if (!compiled) FAIL_CHECK(c.name << ": " << take_error_facts(compiled.takeError()).message);
      if (!compiled) continue;
      for (const auto& artifact : compiled->artifacts) {
        INFO(artifact->entry << "\n" << artifact->log << "\n" << artifact->source);
        // sinf, cosf and powf reduce huge arguments through a small table in local memory; a few spilled words cost nothing measurable.
        CHECK(artifact->facts.local_bytes <= 32);
        CHECK(artifact->log.find("warning") == std::string::npos);
      }
    }
  }
}
