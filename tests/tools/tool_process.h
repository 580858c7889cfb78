// Runs the built tool as a user would, in an environment of the test's own.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "llvm/Support/JSON.h"
#include "llvm/Support/Program.h"
#include "tests/scratch.h"

extern "C" char** environ;

namespace tilewright_tests {

using tilewright::tests::file_text;
using tilewright::tests::ScratchDirectory;

struct ToolRun {
  int status = -1;
  std::string out, err;
};

using Environment = std::map<std::string, std::string>;

// `environment` is added to the caller's; the store is in a scratch directory unless it says otherwise. `directory`: where the tool runs.
inline ToolRun run_tool(const std::vector<std::string>& arguments, const Environment& environment = {},
                        const std::string& directory = "/") {
  ScratchDirectory scratch;
  Environment wanted = environment;
  wanted.try_emplace("TILEWRIGHT_CACHE_DIR", scratch.path("store"));
  wanted.try_emplace("TILEWRIGHT_CACHE_LAYERS", "");
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (wanted.count(text.substr(0, text.find('='))) == 0) variables.push_back(text);
  }
  for (const auto& [name, value] : wanted) variables.push_back(name + "=" + value);
  const std::vector<llvm::StringRef> variable_refs(variables.begin(), variables.end());
  std::vector<llvm::StringRef> command{"/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", directory, TILEWRIGHT_TOOL};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string out = scratch.path("stdout"), err = scratch.path("stderr");
  ToolRun run;
  run.status = llvm::sys::ExecuteAndWait("/bin/sh", command, llvm::ArrayRef<llvm::StringRef>(variable_refs),
                                         {llvm::StringRef("/dev/null"), llvm::StringRef(out), llvm::StringRef(err)}, 120);
  run.out = file_text(out);
  run.err = file_text(err);
  return run;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Checks a failure: the status, nothing on stdout, an error line (after those of the progress, on a slow machine) that says all of `parts`.
inline void check_failure(const ToolRun& run, int status, const std::vector<std::string>& parts) {
  INFO("stdout: " << run.out << "\nstderr: " << run.err);
  CHECK(run.status == status);
  CHECK(run.out.empty());
  CHECK(contains("\n" + run.err, "\ntilewright: error: "));
  for (const std::string& part : parts) {
    INFO("wanted: " << part);
    CHECK(contains(run.err, part));
  }
}

// Parses stdout of a run that went well.
inline llvm::json::Object json_of(const ToolRun& run) {
  INFO("stdout: " << run.out << "\nstderr: " << run.err);
  REQUIRE(run.status == 0);
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(run.out);
  if (!value) {
    FAIL(llvm::toString(value.takeError()));
  }
  REQUIRE(value->getAsObject() != nullptr);
  return std::move(*value->getAsObject());
}

// Small descriptions the tests share.
inline const char* const kSoftmax = R"({
  "name": "small_softmax",
  "inputs": {"x": {"dtype": "f32", "shape": ["N", 40]}},
  "dims": {"N": {"default": 3, "min": 0, "max": 64}},
  "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}],
  "outputs": ["y"]
})";
inline const char* const kTwoKernels = R"({
  "name": "two_kernels",
  "inputs": {"x": {"dtype": "f32", "shape": [8, 16]}},
  "ops": [{"op": "softmax", "in": ["x"], "out": "s", "axis": 1},
          {"op": "softmax", "in": ["s"], "out": "y", "axis": 0}],
  "outputs": ["y"]
})";

// Where no driver is to be found, whatever this machine has.
inline Environment without_driver() { return {{"TILEWRIGHT_DRIVER", "/nonexistent/libcuda.so.1"}}; }
inline Environment without_nvrtc() { return {{"TILEWRIGHT_NVRTC", "/nonexistent/libnvrtc.so"}}; }

// True when this machine can compile kernels.
inline bool has_nvrtc() { return run_tool({"doctor"}).status == 0; }

}  // namespace tilewright_tests
