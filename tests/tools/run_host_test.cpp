// run --on host: the generated kernels on the CPU, in a child process.
#include <filesystem>

#include "tests/tools/tool_process.h"

using namespace tilewright_tests;

namespace {

constexpr const char* kRows = R"({"name": "s", "inputs": {"x": {"dtype": "f32", "shape": ["N", 64]}},
  "dims": {"N": {"default": 3, "min": 1, "max": 100000}},
  "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})";

// A compiler that first changes the kernel with a command of sed: bugs that no description makes.
Environment with_changed_kernel(const ScratchDirectory& scratch, const std::string& sed) {
  const std::string compiler =
      scratch.write("compiler", "#!/bin/sh\nfor argument in \"$@\"; do\n  case $argument in\n    */launch.cpp) sed -i '" + sed +
                                    "' \"$(dirname \"$argument\")/kernel.cu\" ;;\n  esac\ndone\nexec c++ \"$@\"\n");
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  return {{"TILEWRIGHT_HOST_CXX", compiler}};
}

}  // namespace

TEST_CASE("run host: kernels run on the CPU and agree with the reference", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const llvm::json::Object json = json_of(run_tool({"run", file, "--on", "host", "--json", "--stress", "3"}));
  CHECK(json.getBoolean("ok") == true);
  CHECK(json.getBoolean("compared") == true);
  CHECK(json.getInteger("schedules") == 3);
  CHECK(json.getString("on")->str() == "host");
}

TEST_CASE("run host: compiled objects come from the store the second time", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const Environment store = {{"TILEWRIGHT_CACHE_DIR", scratch.path("store")}};
  const auto origin = [&] {
    const llvm::json::Object json = json_of(run_tool({"run", file, "--on", "host", "--json"}, store));
    return (*json.getArray("kernels"))[0].getAsObject()->getString("origin")->str();
  };
  CHECK(origin() == "compiled");
  CHECK(origin() == "directory");
}

TEST_CASE("run host: without a good compiler the answer says what was looked for", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const ToolRun missing = run_tool({"run", file, "--on", "host"}, {{"TILEWRIGHT_HOST_CXX", "/nonexistent/c++"}});
  CHECK(missing.status == 3);
  CHECK(missing.err.find("TILEWRIGHT_HOST_CXX: /nonexistent/c++") != std::string::npos);
  // A compiler of long ago, as far as its macros say.
  const std::string old = scratch.write("old", "#!/bin/sh\necho '#define __GNUC__ 9'\necho '#define __GNUC_MINOR__ 4'\n");
  std::filesystem::permissions(old, std::filesystem::perms::owner_all);
  const ToolRun outdated = run_tool({"run", file, "--on", "host"}, {{"TILEWRIGHT_HOST_CXX", old}});
  CHECK(outdated.status == 3);
  CHECK(outdated.err.find("gcc 9.4") != std::string::npos);
  CHECK(outdated.err.find("too old") != std::string::npos);
}

TEST_CASE("run host: where no compiler is in PATH the answer names all that were tried", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  for (const char* path : {"", "/nonexistent"}) {
    const ToolRun run = run_tool({"run", file, "--on", "host"}, {{"TILEWRIGHT_HOST_CXX", ""}, {"PATH", path}});
    check_failure(run, 3, {"no host compiler for kernels on the CPU", "c++", "clang++", "g++", "TILEWRIGHT_HOST_CXX names another"});
  }
}

TEST_CASE("run host: a program that is no compiler is named", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const ToolRun run = run_tool({"run", file, "--on", "host"}, {{"TILEWRIGHT_HOST_CXX", "/bin/false"}});
  check_failure(run, 3, {"TILEWRIGHT_HOST_CXX: /bin/false is neither GCC nor Clang with C++20"});
}

TEST_CASE("run host: a clang too old is refused with its version", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const std::string old = scratch.write("old", "#!/bin/sh\necho '#define __GNUC__ 4'\necho '#define __clang_major__ 13'\n");
  std::filesystem::permissions(old, std::filesystem::perms::owner_all);
  check_failure(run_tool({"run", file, "--on", "host"}, {{"TILEWRIGHT_HOST_CXX", old}}), 3, {"clang 13", "too old", "Clang 14"});
}

TEST_CASE("run host: a primitive without a meaning on the CPU is named with its line", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const ToolRun run =
      run_tool({"run", file, "--on", "host"}, with_changed_kernel(scratch, "s/^  tw::row<.*/  tw::ptx::setmaxnreg_inc_sync(240);/"));
  check_failure(run, 1, {"cannot compile tw_softmax for the CPU", "setmaxnreg_inc_sync", "tw::ptx::setmaxnreg_inc_sync(240);"});
}

TEST_CASE("run host: an endless loop over a barrier ends with the time limit and says who waits", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const ToolRun run = run_tool(
      {"run", file, "--on", "host", "--time-limit", "0.2"},
      with_changed_kernel(scratch, "s/^  tw::row<.*/  __shared__ int words[1024]; for (;;) { words[threadIdx.x] = 1; __syncthreads(); }/"));
  check_failure(run, 1, {"kernel tw_softmax, time limit of 0.2 s reached", "wait at __syncthreads (kernel.cu:"});
}

TEST_CASE("run host: the time limit ends a run with status 1", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const ToolRun run = run_tool({"run", file, "--on", "host", "--dim", "N=100000", "--time-limit", "0.05"});
  CHECK(run.status == 1);
  CHECK(run.err.find("time limit of 0.1 s reached") != std::string::npos);
}

TEST_CASE("run host: a sanitizer that is none is refused", "[tools]") {
  ScratchDirectory scratch;
  const ToolRun run = run_tool({"run", scratch.write("d.json", kRows), "--on", "host", "--sanitize", "thread"});
  CHECK(run.status == 2);
  CHECK(run.err.find("wanted address, undefined or both") != std::string::npos);
}

TEST_CASE("run host: kernels run under the compiler's sanitizers", "[tools]") {
  ScratchDirectory scratch;
  const ToolRun run = run_tool({"run", scratch.write("d.json", kRows), "--on", "host", "--sanitize", "address,undefined"});
  INFO(run.err);
  CHECK(run.status == 0);
  CHECK(run.out.find("-fsanitize=address,undefined") != std::string::npos);
}

TEST_CASE("run host: the host compiler gets the text that NVRTC gets, byte for byte", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const std::string seen = scratch.path("seen.cu");
  const std::string spy = scratch.write(
      "spy", "#!/bin/sh\nfor argument in \"$@\"; do\n  case $argument in\n    */launch.cpp) cp \"$(dirname \"$argument\")/kernel.cu\" '" +
                 seen + "' ;;\n  esac\ndone\nexec c++ \"$@\"\n");
  std::filesystem::permissions(spy, std::filesystem::perms::owner_all);
  const ToolRun run = run_tool({"run", file, "--on", "host"}, {{"TILEWRIGHT_HOST_CXX", spy}});
  INFO(run.err);
  REQUIRE(run.status == 0);
  // What show prints is what is handed to NVRTC; tests/codegen holds the two together.
  const ToolRun shown = run_tool({"show", file, "--what", "source", "--target", "sm_90a"});
  CHECK(!shown.out.empty());
  CHECK(file_text(seen) == shown.out);
}

TEST_CASE("run host: a crash is contained and reported with block and thread", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const ToolRun run =
      run_tool({"run", file, "--on", "host"},
               with_changed_kernel(
                   scratch, "s/^  tw::row<.*/  if (threadIdx.x == 3) *(volatile int*)__builtin_frame_address(0) = 1, __builtin_trap();/"));
  INFO(run.err);
  CHECK(run.status == 1);
  CHECK(run.err.find("kernel tw_softmax, block (0, 0, 0), thread (3, 0, 0): crashed (Illegal instruction)") != std::string::npos);
}

TEST_CASE("run host: a loop that touches no memory ends with the time limit", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const ToolRun run = run_tool({"run", file, "--on", "host", "--time-limit", "0.1"},
                               with_changed_kernel(scratch, "s/^  tw::row<.*/  for (;;) __builtin_ia32_pause();/"));
  INFO(run.err);
  CHECK(run.status == 1);
  CHECK(run.err.find("an endless loop that touches no memory?") != std::string::npos);
}

TEST_CASE("run host: a kernel that does not compile is shown with its lines", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kRows);
  const ToolRun run = run_tool({"run", file, "--on", "host"}, with_changed_kernel(scratch, "s/^  tw::row</  tw::no_such_template</"));
  INFO(run.err);
  CHECK(run.status == 1);
  CHECK(run.err.find("cannot compile tw_softmax for the CPU") != std::string::npos);
  CHECK(run.err.find("tw::no_such_template<kConfig>(args, hooks);") != std::string::npos);
  CHECK(run.err.find("The source is in ") != std::string::npos);
}
