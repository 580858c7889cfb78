// run --on reference: the reference's result, inputs and outputs as .npy files.
#include <cmath>
#include <cstring>

#include "tests/tools/tool_process.h"

using namespace tilewright_tests;

namespace {

// A .npy file, format 1.0 (numpy.lib.format), of raw bytes.
std::string npy(const std::string& descr, const std::string& shape, const std::string& bytes, bool fortran_order = false) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") + ", 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  return file + header + bytes;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

const char* const kRowSum = R"({
  "name": "row_sum", "inputs": {"x": {"dtype": "f32", "shape": [2, 3]}},
  "ops": [{"op": "reduce", "in": ["x"], "out": "y", "kind": "sum", "axes": [1]}], "outputs": ["y"]})";

llvm::json::Object first_output(const llvm::json::Object& json) { return *(*json.getArray("outputs"))[0].getAsObject(); }

}  // namespace

TEST_CASE("run: the reference gives the same checksum for the same seed", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const auto checksum = [&](const std::string& seed) {
    return first_output(json_of(run_tool({"run", file, "--on", "reference", "--seed", seed, "--json"}, without_driver())))
        .getString("checksum")
        ->str();
  };
  CHECK(checksum("1") == checksum("1"));
  CHECK(checksum("1") != checksum("2"));
  const ToolRun run = run_tool({"run", file, "--on", "reference"}, without_driver());
  CHECK(run.status == 0);
  CHECK(contains(run.out, "y f32 [3, 40]: checksum "));
  CHECK(contains(run.out, "min "));
}

TEST_CASE("run: .npy in, .npy out", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRowSum);
  const std::string x = scratch.write("x.npy", npy("<f4", "(2, 3)", bytes_of<float>({1, 2, 3, 4, 5, 6})));
  const llvm::json::Object json =
      json_of(run_tool({"run", file, "--on", "reference", "--input", "x=" + x, "--output", scratch.path("out"), "--json"}));
  const llvm::json::Object output = first_output(json);
  const llvm::json::Array& first = *output.getArray("first");
  CHECK(first[0].getAsNumber() == 6.0);
  CHECK(first[1].getAsNumber() == 15.0);
  const std::string y = file_text(scratch.path("out/y.npy"));
  REQUIRE(y.size() > 8);
  CHECK(contains(y, "'<f4'"));
  CHECK(y.substr(y.size() - 8) == bytes_of<float>({6, 15}));
}

TEST_CASE("run: a .npy of another dtype, shape or order is refused", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRowSum);
  const auto run = [&](const std::string& bytes) {
    return run_tool({"run", file, "--on", "reference", "--input", "x=" + scratch.write("x.npy", bytes)});
  };
  check_failure(run(npy("<f8", "(2, 3)", std::string(48, '\0'))), 2, {"x.npy", "f8"});
  check_failure(run(npy("<i8", "(2, 3)", std::string(48, '\0'))), 2, {"x.npy", "i64", "f32"});
  check_failure(run(npy(">f4", "(2, 3)", std::string(24, '\0'))), 2, {"x.npy", ">f4"});
  check_failure(run(npy("<f4", "(2, 3)", std::string(24, '\0'), true)), 2, {"x.npy", "ortran"});
  check_failure(run(npy("<f4", "(3, 2)", std::string(24, '\0'))), 2, {"x.npy", "[3, 2]", "[2, 3]"});
  check_failure(run(npy("<f4", "(2, 3)", std::string(20, '\0'))), 2, {"x.npy"});
  check_failure(run("no numpy file"), 2, {"x.npy"});
}

TEST_CASE("run: bad operands", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRowSum);
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", file, "--on", "reference"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_tool(arguments);
  };
  check_failure(run({"--input", "z=/tmp/z.npy"}), 2, {"no input 'z'", "x"});
  check_failure(run({"--input", "x"}), 2, {"NAME=FILE.npy"});
  check_failure(run({"--input", "x=/nonexistent/x.npy"}), 2, {"/nonexistent/x.npy"});
  check_failure(run({"--dim", "N=3"}), 2, {"no named dimension"});
  check_failure(run({"--low", "1", "--high", "0"}), 2, {"--low"});
  check_failure(run({"--no-reference"}), 2, {"--no-reference"});
  check_failure(run_tool({"run", file, "--on", "moon"}), 2, {"moon", "reference"});
  check_failure(run({"--output", scratch.write("file", "") + "/out"}), 2, {"file/out"});
}

TEST_CASE("run: empty tensors give empty results", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const ToolRun run = run_tool({"run", file, "--on", "reference", "--dim", "N=0"});
  INFO(run.err);
  CHECK(run.status == 0);
  CHECK(contains(run.out, "empty"));
}
