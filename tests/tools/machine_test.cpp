// A machine that lacks something: a clear error with status 3, and everything else goes on working.
#include "tests/tools/tool_process.h"

using namespace tilewright_tests;

TEST_CASE("machine: without NVRTC doctor says so, with the fix and status 3", "[tools]") {
  const ToolRun run = run_tool({"doctor"}, without_nvrtc());
  CHECK(run.status == 3);
  CHECK(contains(run.out, "/nonexistent/libnvrtc.so"));
  CHECK(contains(run.out, "fix:"));
  CHECK(contains(run.err, "tilewright: error: no NVRTC"));
}

TEST_CASE("machine: without NVRTC plan and source are still shown", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  CHECK(run_tool({"show", file, "--what", "plan"}, without_nvrtc()).status == 0);
  CHECK(run_tool({"show", file, "--what", "source"}, without_nvrtc()).status == 0);
  for (const char* what : {"ptx", "cubin", "key"}) {
    INFO(what);
    check_failure(run_tool({"show", file, "--what", what, "--target", "sm_90a"}, without_nvrtc()), 3, {"/nonexistent/libnvrtc.so"});
  }
  check_failure(run_tool({"compile", file, "--target", "sm_90a"}, without_nvrtc()), 3, {"/nonexistent/libnvrtc.so"});
}

TEST_CASE("machine: a file that is no NVRTC is named", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const std::string fake = scratch.write("libnvrtc.so", "not a library");
  check_failure(run_tool({"show", file, "--what", "cubin", "--target", "sm_90a"}, {{"TILEWRIGHT_NVRTC", fake}}), 3, {fake});
}

TEST_CASE("machine: without a driver run uses the CPU; asked for the GPU, run and bench say what is missing", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const ToolRun run = run_tool({"run", file}, without_driver());
  INFO(run.err);
  CHECK(run.status == 0);
  CHECK(contains(run.out, "on the CPU ("));
  check_failure(run_tool({"run", file, "--on", "gpu"}, without_driver()), 3, {"/nonexistent/libcuda.so.1", "--on host", "--on reference"});
  check_failure(run_tool({"bench", file}, without_driver()), 3, {"/nonexistent/libcuda.so.1"});
}

TEST_CASE("machine: doctor without a driver is good as long as kernels can be compiled", "[tools]") {
  const ToolRun run = run_tool({"doctor"}, without_driver());
  CHECK(run.status == (has_nvrtc() ? 0 : 3));
  CHECK(contains(run.out, "driver    missing: "));
  CHECK(contains(run.out, "/nonexistent/libcuda.so.1"));
  if (run.status == 0) CHECK(contains(run.out, "bench will not work"));
}

TEST_CASE("machine: doctor prints JSON", "[tools]") {
  Environment environment = without_driver();
  environment.merge(without_nvrtc());
  const ToolRun run = run_tool({"doctor", "--json"}, environment);
  CHECK(run.status == 3);
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(run.out);
  REQUIRE(static_cast<bool>(value));
  const llvm::json::Object* object = value->getAsObject();
  REQUIRE(object != nullptr);
  CHECK(object->getBoolean("can_compile") == false);
  CHECK(object->getBoolean("can_run") == false);
  CHECK(object->getObject("driver")->getBoolean("found") == false);
}

TEST_CASE("machine: a store that cannot be read is an error of cache, and doctor says so", "[tools]") {
  ScratchDirectory scratch;
  const Environment environment{{"TILEWRIGHT_CACHE_DIR", scratch.write("file", "")}};
  for (const char* command : {"ls", "verify"})
    check_failure(run_tool({"cache", command}, environment), 2, {environment.at("TILEWRIGHT_CACHE_DIR")});
  check_failure(run_tool({"cache", "info", "ab"}, environment), 2, {environment.at("TILEWRIGHT_CACHE_DIR")});
  CHECK(contains(run_tool({"doctor"}, environment).out, "cannot read directory"));
  CHECK(run_tool({"cache", "ls"}, {{"TILEWRIGHT_CACHE_DIR", scratch.path("absent")}}).status == 0);
}

TEST_CASE("machine: a store that cannot be written keeps no kernel from its user", "[tools]") {
  if (!has_nvrtc()) return;
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  // A directory below a file cannot be made, whoever asks.
  const Environment environment{{"TILEWRIGHT_CACHE_DIR", scratch.write("file", "") + "/store"}};
  const ToolRun cubin = run_tool({"show", file, "--what", "cubin", "--target", "sm_90a"}, environment);
  CHECK(cubin.status == 0);
  CHECK(contains(cubin.out, "registers"));
  check_failure(run_tool({"compile", file, "--target", "sm_90a"}, environment), 2,
                {environment.at("TILEWRIGHT_CACHE_DIR"), "TILEWRIGHT_CACHE_DIR"});
  CHECK(contains(run_tool({"doctor"}, environment).out, "NOT WRITABLE"));
}
