#include "codegen/plan.h"

#include "codegen/lower.h"
#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/graphs.h"

using namespace tilewright;
using tilewright::tests::graph_of;
using tilewright::tests::value_of;

namespace {

Plan plan_of(const Graph& graph, bool fuse = true) {
  PlanOptions options;
  options.fuse = fuse;
  return value_of(make_plan(graph, options));
}

std::string shapes(const Plan& plan) {
  std::string text;
  for (const Group& group : plan.groups) {
    text += (text.empty() ? "" : " ") + template_name(group.kind).str() + ":" + std::to_string(group.ops.size());
  }
  return text;
}

const char* const kConvMinSoftmax = R"({"name": "g",
  "inputs": {"x": {"dtype": "f32", "shape": [2, 3, 24, 32, 32]}, "w": {"dtype": "f32", "shape": [24, 3, 3, 3, 3]}, "b": {"dtype": "f32", "shape": [24]}},
  "ops": [{"op": "conv", "in": ["x", "w", "b"], "out": "c"},
          {"op": "reduce", "in": ["c"], "out": "m", "kind": "min", "axes": [2]},
          {"op": "softmax", "in": ["m"], "out": "y", "axis": 1}],
  "outputs": ["y"]})";

}  // namespace

TEST_CASE("plan: convolution, reduction over depth and softmax over channels are one kernel", "[codegen]") {
  const Graph graph = graph_of(kConvMinSoftmax);
  const Plan plan = plan_of(graph);
  REQUIRE(shapes(plan) == "conv:3");
  CHECK(plan.groups[0].fused_reduction.has_value());
  CHECK(plan.groups[0].fused_softmax.has_value());
  CHECK(plan.groups[0].reads.size() == 3);
}

TEST_CASE("plan: without fusion every op is a kernel", "[codegen]") {
  const Graph graph = graph_of(kConvMinSoftmax);
  CHECK(shapes(plan_of(graph, false)) == "conv:1 reduce:1 column:1");
}

TEST_CASE("plan: an elementwise chain becomes one kernel", "[codegen]") {
  const Graph graph = graph_of(R"({"name": "g",
    "inputs": {"x": {"dtype": "f32", "shape": [8, 16]}, "b": {"dtype": "f32", "shape": [16]}},
    "ops": [{"op": "add", "in": ["x", "b"], "out": "s"}, {"op": "gelu", "in": ["s"], "out": "g"}, {"op": "mul", "in": ["g", 0.5], "out": "y"}],
    "outputs": ["y"]})");
  CHECK(shapes(plan_of(graph)) == "elementwise:3");
  CHECK(shapes(plan_of(graph, false)) == "elementwise:1 elementwise:1 elementwise:1");
}

TEST_CASE("plan: maps before and after a softmax join its kernel", "[codegen]") {
  const Graph graph = graph_of(R"({"name": "g",
    "inputs": {"x": {"dtype": "f32", "shape": [8, 16]}, "m": {"dtype": "f32", "shape": [8, 16]}},
    "ops": [{"op": "mul", "in": ["x", 0.125], "out": "s"}, {"op": "add", "in": ["s", "m"], "out": "t"},
            {"op": "softmax", "in": ["t"], "out": "p", "axis": -1}, {"op": "mul", "in": ["p", "m"], "out": "y"}],
    "outputs": ["y"]})");
  const Plan plan = plan_of(graph);
  CHECK(shapes(plan) == "row:4");
  CHECK(plan.groups[0].reads.size() == 2);
}

TEST_CASE("plan: a value that is read twice or is an output is stored", "[codegen]") {
  const Graph twice = graph_of(R"({"name": "g", "inputs": {"x": {"dtype": "f32", "shape": [8, 16]}},
    "ops": [{"op": "exp", "in": ["x"], "out": "e"}, {"op": "reduce", "in": ["e"], "out": "s", "kind": "sum", "axes": [1], "keepdims": true},
            {"op": "div", "in": ["e", "s"], "out": "y"}], "outputs": ["y"]})");
  CHECK(plan_of(twice).groups.size() == 3);
  const Graph output = graph_of(R"({"name": "g", "inputs": {"x": {"dtype": "f32", "shape": [8, 16]}},
    "ops": [{"op": "exp", "in": ["x"], "out": "e"}, {"op": "neg", "in": ["e"], "out": "y"}], "outputs": ["e", "y"]})");
  CHECK(plan_of(output).groups.size() == 2);
}

TEST_CASE("plan: a residual joins one of two convolutions and waits for the other", "[codegen]") {
  const Graph graph = graph_of(R"({"name": "g",
    "inputs": {"x": {"dtype": "f32", "shape": [1, 8, 8, 8]}, "v": {"dtype": "f32", "shape": [8, 8, 3, 3]}, "w": {"dtype": "f32", "shape": [8, 8, 1, 1]}},
    "ops": [{"op": "conv", "in": ["x", "v"], "out": "a", "padding": 1}, {"op": "conv", "in": ["x", "w"], "out": "b"},
            {"op": "add", "in": ["a", "b"], "out": "s"}, {"op": "relu", "in": ["s"], "out": "y"}], "outputs": ["y"]})");
  const Plan plan = plan_of(graph);
  REQUIRE(plan.groups.size() == 2);
  CHECK(plan.groups[0].ops.size() == 1);
  CHECK(plan.groups[1].ops.size() == 3);
  CHECK(plan.groups[1].result == graph.outputs()[0]);
}

TEST_CASE("plan: a map read by two ops of one group is computed inside it", "[codegen]") {
  const Graph graph = graph_of(R"({"name": "g", "inputs": {"x": {"dtype": "f32", "shape": [8, 16]}},
    "ops": [{"op": "exp", "in": ["x"], "out": "e"}, {"op": "neg", "in": ["e"], "out": "n"}, {"op": "mul", "in": ["e", "n"], "out": "y"}],
    "outputs": ["y"]})");
  const Plan plan = plan_of(graph);
  CHECK(plan.groups.size() <= 2);
}

TEST_CASE("plan: depthwise, grouped, wide and tensor-core convolutions get their templates", "[codegen]") {
  auto kind = [](const std::string& x, const std::string& w, const std::string& more) {
    const Graph graph =
        graph_of(R"({"name": "g", "inputs": {"x": {"dtype": "f32", "shape": )" + x + R"(}, "w": {"dtype": "f32", "shape": )" + w +
                 R"(}}, "ops": [{"op": "conv", "in": ["x", "w"], "out": "y")" + more + R"(}], "outputs": ["y"]})");
    return plan_of(graph).groups[0].kind;
  };
  CHECK(kind("[1, 8, 64]", "[8, 1, 4]", R"(, "groups": 8, "padding": "causal")") == TemplateKind::kStencil);
  CHECK(kind("[1, 8, 9, 9]", "[8, 8, 3, 3]", "") == TemplateKind::kConv);
  CHECK(kind("[1, 8, 9, 9]", "[16, 2, 3, 3]", R"(, "groups": 4)") == TemplateKind::kConvDirect);
  CHECK(kind("[1, 8, 30, 30]", "[16, 8, 23, 23]", "") == TemplateKind::kConvDirect);
}

TEST_CASE("plan: a chain too heavy for one kernel is cut, and so is one after a softmax", "[codegen]") {
  auto chain = [](const std::string& first, const std::string& op, int length) {
    std::string ops = first;
    for (int i = 0; i < length; ++i) {
      ops += (ops.empty() ? "" : ", ") + std::string(R"({"op": ")") + op + R"(", "in": ["v)" + std::to_string(i) + R"("], "out": "v)" +
             std::to_string(i + 1) + R"("})";
    }
    const Graph graph =
        graph_of(R"({"name": "g", "inputs": {")" + std::string(first.empty() ? "v0" : "x") +
                 R"(": {"dtype": "f32", "shape": [8, 16]}}, "ops": [)" + ops + R"(], "outputs": ["v)" + std::to_string(length) + R"("]})");
    Plan plan = plan_of(graph);
    std::size_t total = 0;
    for (const Group& group : plan.groups) {
      total += group.ops.size();
      for (const FusedMap* map : {&group.after_anchor, group.prologues.empty() ? &group.after_anchor : &group.prologues[0]})
        CHECK(compile_weight(*map) <= 260);
    }
    CHECK(total == graph.ops().size());
    return plan.groups.size();
  };
  CHECK(chain("", "gelu", 15) == 1);
  CHECK(chain("", "gelu", 16) == 2);
  CHECK(chain("", "gelu", 100) == 7);
  CHECK(chain("", "relu", 100) == 1);
  CHECK(chain(R"({"op": "softmax", "in": ["x"], "out": "v0", "axis": 1})", "gelu", 10) == 1);
  CHECK(chain(R"({"op": "softmax", "in": ["x"], "out": "v0", "axis": 1})", "gelu", 20) == 2);
}

TEST_CASE("plan: a precision without a kernel is refused by name", "[codegen]") {
  std::string json = kConvMinSoftmax;
  json.insert(1, R"("precision": "bf16", )");
  const Graph graph = graph_of(json);
  auto plan = make_plan(graph);
  REQUIRE(!plan);
  const ErrorFacts facts = take_error_facts(plan.takeError());
  CHECK(facts.status == Status::kUnsupported);
  CHECK(facts.message.find("precision bf16 is not offered yet") != std::string::npos);
}
