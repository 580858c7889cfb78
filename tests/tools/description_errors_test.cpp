// Bad descriptions and operands: each a clear error with status 2, before anything is compiled.
#include "tests/tools/tool_process.h"

using namespace tilewright_tests;

namespace {

// `show` of a description given as text.
ToolRun show(const std::string& json, std::vector<std::string> more = {}) {
  ScratchDirectory scratch;
  std::vector<std::string> arguments{"show", scratch.write("d.json", json), "--target", "sm_90a"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_tool(arguments);
}

std::string softmax_over(const std::string& input) {
  return R"({"name": "d", "inputs": {"x": )" + input +
         R"(}, "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})";
}

}  // namespace

TEST_CASE("description: a file that is not there is named", "[tools]") {
  check_failure(run_tool({"show", "/nonexistent/d.json"}), 2, {"/nonexistent/d.json", "No such file"});
  check_failure(run_tool({"compile", "/nonexistent/d.json"}), 2, {"/nonexistent/d.json"});
  check_failure(run_tool({"run", "/nonexistent/d.json", "--on", "reference"}), 2, {"/nonexistent/d.json"});
  check_failure(run_tool({"bench", "/nonexistent/d.json"}), 2, {"/nonexistent/d.json"});
  check_failure(run_tool({"show", "/"}), 2, {"/"});
}

TEST_CASE("description: malformed and truncated JSON give line and column", "[tools]") {
  check_failure(show("{\"name\": \"d\",\n  oops}"), 2, {"d.json", "2", "3"});
  check_failure(show(std::string(kSoftmax).substr(0, 100)), 2, {"d.json", "line"});
  check_failure(show(""), 2, {"d.json"});
  check_failure(show("[1, 2]"), 2, {"d.json"});
}

TEST_CASE("description: unknown keys and operators name the nearest known one", "[tools]") {
  check_failure(show(R"({"name": "d", "inptus": {}, "ops": [], "outputs": []})"), 2, {"inptus", "inputs"});
  check_failure(show(R"({"name": "d", "inputs": {"x": {"dtype": "f32", "shape": [2, 3]}},
                         "ops": [{"op": "sofmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})"),
                2, {"sofmax", "softmax"});
  check_failure(show(R"({"name": "d", "inputs": {"x": {"dtype": "f32", "shape": [2, 3]}},
                         "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axes": 1}], "outputs": ["y"]})"),
                2, {"axes", "axis"});
}

TEST_CASE("description: wrong dtype, rank and shape name op, operand, seen and wanted", "[tools]") {
  check_failure(show(softmax_over(R"({"dtype": "f33", "shape": [2, 3]})")), 2, {"f33", "f32"});
  check_failure(show(softmax_over(R"({"dtype": "i64", "shape": [2, 3]})")), 2, {"softmax", "i64"});
  check_failure(show(softmax_over(R"({"dtype": "f32", "shape": [2]})")), 2, {"softmax", "axis", "1"});
  check_failure(show(R"({"name": "d", "inputs": {"x": {"dtype": "f32", "shape": [2, 4, 16]}, "w": {"dtype": "f32", "shape": [8, 3, 3]}},
                         "ops": [{"op": "conv", "in": ["x", "w"], "out": "y"}], "outputs": ["y"]})"),
                2, {"conv", "w", "[8, 3, 3]", "4"});
}

TEST_CASE("description: negative and overflowing sizes are refused", "[tools]") {
  check_failure(show(softmax_over(R"({"dtype": "f32", "shape": [-2, 3]})")), 2, {"-2"});
  check_failure(show(softmax_over(R"({"dtype": "f32", "shape": [4611686018427387904, 4611686018427387904]})")), 2, {"x"});
}

TEST_CASE("description: unknown precision is refused, bf16x3 by name", "[tools]") {
  std::string json = softmax_over(R"({"dtype": "f32", "shape": [2, 3]})");
  json.insert(1, R"("precision": "tf33", )");
  check_failure(show(json), 2, {"tf33", "tf32"});
  std::string conv = R"({"name": "d", "precision": "bf16x3", "inputs": {"x": {"dtype": "f32", "shape": [2, 4, 16]},
      "w": {"dtype": "f32", "shape": [8, 4, 3]}}, "ops": [{"op": "conv", "in": ["x", "w"], "out": "y"}], "outputs": ["y"]})";
  check_failure(show(conv), 2, {"bf16x3"});
}

TEST_CASE("show: unknown stage, target, dimension and parameter", "[tools]") {
  check_failure(show(kSoftmax, {"--what", "suorce"}), 2, {"suorce", "did you mean 'source'?"});
  check_failure(show(kSoftmax, {"--what", "spice"}), 2, {"spice", "cubin", "did you mean 'space'"});
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  check_failure(run_tool({"show", file, "--target", "sm_91a"}), 2, {"sm_91a", "sm_90a"});
  check_failure(run_tool({"compile", file, "--target", "sm_90a,gfx942"}), 2, {"gfx942"});
  check_failure(run_tool({"compile", file, "--target", ""}), 2, {"target"});
  check_failure(show(kSoftmax, {"--dim", "M=3"}), 2, {"unknown dimension 'M'", "N"});
  check_failure(show(kSoftmax, {"--dim", "N=65"}), 2, {"[0, 64]", "65"});
  check_failure(show(kSoftmax, {"--dim", "N=three"}), 2, {"three"});
  check_failure(show(kSoftmax, {"--dim", "N"}), 2, {"NAME=VALUE"});
  check_failure(show(kSoftmax, {"--config", "{"}), 2, {"--config"});
  check_failure(show(kSoftmax, {"--config", "[1]"}), 2, {"--config"});
  check_failure(show(kSoftmax, {"--config", R"({"block_threads": "many"})"}), 2, {"block_threads"});
  check_failure(show(kSoftmax, {"--config", R"({"blok_threads": 256})"}), 2, {"blok_threads", "block_threads"});
}
