#include "runtime/nvrtc.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "runtime/module.h"
#include "runtime/nvrtc_search.h"
#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

constexpr char kSource[] = R"(#include "tw_test/scale.cuh"
extern "C" __global__ void __launch_bounds__(128) tw_scale(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = scale<ScaleConfig{.factor = 3}>(x[i]);
}
)";
constexpr char kHeader[] = R"(#pragma once
struct ScaleConfig { int factor; };
template <ScaleConfig kConfig> __device__ float scale(float x) { return x * kConfig.factor; }
)";
constexpr MemoryHeader kHeaders[] = {{"tw_test/scale.cuh", kHeader}};

Target target(llvm::StringRef name) { return must(parse_target(name)); }

std::string libm_path() {
  Dl_info info{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(&std::cos)), &info) != 0);
  return info.dli_fname;
}

// Builds a shared library from C; false where no compiler is at hand.
bool build_library(const ScratchDirectory& directory, const std::string& path, const std::string& text) {
  directory.write("library.c", text);
  return std::system(("cc -shared -fPIC -o " + path + " " + directory.path("library.c") + " 2>/dev/null").c_str()) == 0;
}

}  // namespace

TEST_CASE("nvrtc: a kernel with a header from memory compiles for each kind of target", "[runtime]") {
  const auto nvrtc = must(Nvrtc::find());
  for (const char* name : {"sm_80", "sm_90a", "sm_100a"}) {
    CAPTURE(name);
    const CompileResult result = must(nvrtc->compile(kSource, "scale.cu", kHeaders, target(name)));
    CHECK(result.log.empty());
    CHECK(result.milliseconds > 0);
    CHECK(must(read_cubin_facts(result.binary, "tw_scale")).max_threads == 128);
  }
  const CompileResult ptx = must(nvrtc->compile(kSource, "scale.cu", kHeaders, target("compute_90")));
  CHECK(contains(ptx.binary, ".target sm_90"));
  CHECK(ptx.binary.find('\0') == std::string::npos);
}

TEST_CASE("nvrtc: the same source gives the same bytes", "[runtime]") {
  const auto nvrtc = must(Nvrtc::find());
  const auto compile = [&] { return must(nvrtc->compile(kSource, "scale.cu", kHeaders, target("sm_90a"))).binary; };
  CHECK(compile() == compile());
}

TEST_CASE("nvrtc: an error carries the log and the lines around it", "[runtime]") {
  const auto nvrtc = must(Nvrtc::find());
  const ErrorFacts facts =
      failure_of(nvrtc->compile("int a;\nint b;\n__device__ int f() { return undefined_name; }\nint c;\n", "bad.cu", {}, target("sm_90a")));
  CHECK(facts.status == Status::kCompileFailed);
  CHECK(contains(facts.message, "bad.cu(3): error"));
  CHECK(contains(facts.message, "undefined_name"));
  CHECK(contains(facts.message, ">    3 | __device__ int f() { return undefined_name; }"));
  CHECK(contains(facts.message, "     1 | int a;"));

  constexpr MemoryHeader kBad[] = {{"bad.cuh", "\n\n__device__ int f() { return absent; }\n"}};
  CHECK(contains(failure_of(nvrtc->compile("#include \"bad.cuh\"\n", "good.cu", kBad, target("sm_90a"))).message,
                 ">    3 | __device__ int f() { return absent; }"));
  CHECK(contains(failure_of(nvrtc->compile("#include \"absent.cuh\"\n", "good.cu", {}, target("sm_90a"))).message, "absent.cuh"));
}

TEST_CASE("nvrtc: a warning comes back with the code", "[runtime]") {
  const auto nvrtc = must(Nvrtc::find());
  const CompileResult result = must(nvrtc->compile("extern \"C\" __global__ void k() { int unused; }\n", "k.cu", {}, target("sm_90a")));
  CHECK(contains(result.log, "unused"));
}

TEST_CASE("nvrtc: a target it does not know is refused with those it knows", "[runtime]") {
  const auto nvrtc = must(Nvrtc::find());
  const ErrorFacts facts = failure_of(nvrtc->compile(kSource, "scale.cu", kHeaders, Target{19, 0, false, false}));
  CHECK(facts.status == Status::kInvalidArgument);
  CHECK(contains(facts.message, "sm_190"));
  CHECK(contains(facts.message, "sm_80"));
}

TEST_CASE("nvrtc: threads compile at the same time", "[runtime]") {
  const auto nvrtc = must(Nvrtc::find());
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      auto result = nvrtc->compile(kSource, "scale.cu", kHeaders, Target{9, 0, true, false});
      if (result) ++good;
      if (!result) llvm::consumeError(result.takeError());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 4);
}

TEST_CASE("nvrtc: facts read from a cubin are those ptxas prints", "[runtime]") {
  const auto nvrtc = must(Nvrtc::find());
  constexpr char kUses[] = R"(
extern "C" __global__ void other() {}
extern "C" __global__ void __launch_bounds__(64) uses(float* p, int n, long long m) {
  __shared__ float s[700];
  float local[500];
  for (int i = 0; i < 500; ++i) local[i * n % 500] = p[i * n];
  s[threadIdx.x] = local[n % 500];
  __syncthreads();
  p[threadIdx.x] = s[(threadIdx.x + n) % 700] + local[m % 500];
})";
  for (const char* name : {"sm_80", "sm_90a", "sm_100a"}) {
    CAPTURE(name);
    const CompileResult result = must(nvrtc->compile(kUses, "uses.cu", {}, target(name), {"--ptxas-options=-v"}));
    const CubinFacts facts = must(read_cubin_facts(result.binary, "uses"));
    const llvm::StringRef log = llvm::StringRef(result.log).split("Compiling entry function 'uses'").second;
    CAPTURE(result.log);
    CHECK(contains(log, fmt::format("{} bytes stack frame", facts.local_bytes)));
    CHECK(contains(log, fmt::format("Used {} registers", facts.registers)));
    CHECK(contains(log, fmt::format("{} bytes smem", facts.static_shared_bytes)));
    CHECK(facts.static_shared_bytes == 2800);
    CHECK(facts.local_bytes >= 2000);
    CHECK(facts.max_threads == 64);
    CHECK(facts.parameter_bytes == 24);
    CHECK(facts.code_bytes > 0);
    const CubinFacts empty = must(read_cubin_facts(result.binary, "other"));
    CHECK(empty.static_shared_bytes == 0);
    CHECK(empty.local_bytes == 0);
  }
}

TEST_CASE("module: damaged cubins are refused, never read out of bounds", "[runtime]") {
  const auto nvrtc = must(Nvrtc::find());
  const std::string cubin = must(nvrtc->compile(kSource, "scale.cu", kHeaders, target("sm_90a"))).binary;
  CHECK(contains(failure_of(read_cubin_facts(cubin, "absent")).message, "tw_scale"));
  CHECK(failure_of(read_cubin_facts("", "k")).status == Status::kCorrupt);
  CHECK(failure_of(read_cubin_facts(std::string(500, 'x'), "k")).status == Status::kCorrupt);
  const auto any = [](llvm::Expected<CubinFacts> facts) {
    if (!facts) llvm::consumeError(facts.takeError());
  };
  // Every cut and every byte set to its extremes: a sanitizer build sees what is read.
  for (std::size_t size = 0; size < cubin.size(); size += 7) any(read_cubin_facts(cubin.substr(0, size), "tw_scale"));
  for (std::size_t at = 0; at < cubin.size(); at += 1) {
    for (const char value : {'\xff', '\x7f'}) {
      std::string damaged = cubin;
      damaged[at] = value;
      any(read_cubin_facts(damaged, "tw_scale"));
    }
  }
}

TEST_CASE("nvrtc: a file that is named and not there is the error", "[runtime]") {
  const ScopedEnvironment named("TILEWRIGHT_NVRTC", std::string("/nonexistent/libnvrtc.so"));
  const ErrorFacts facts = failure_of(Nvrtc::find());
  CHECK(facts.status == Status::kMissing);
  CHECK(contains(facts.message, "/nonexistent/libnvrtc.so"));
}

TEST_CASE("nvrtc: another library in its place is refused by name", "[runtime]") {
  const ScopedEnvironment named("TILEWRIGHT_NVRTC", libm_path());
  auto nvrtc = Nvrtc::find();
  const ErrorFacts facts = nvrtc ? failure_of((*nvrtc)->version()) : failure_of(nvrtc.takeError());
  CHECK(facts.status == Status::kMissing);
  CHECK(contains(facts.message, "nvrtcVersion"));
  CHECK(contains(facts.message, libm_path()));
}

TEST_CASE("nvrtc: too old a version is refused with what was found", "[runtime]") {
  const ScratchDirectory directory;
  const std::string path = directory.path("libnvrtc.so.11.2");
  std::string text = "int nvrtcVersion(int* a, int* b) { *a = 11; *b = 2; return 0; }\n";
  for (const char* name : {"nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs", "nvrtcCreateProgram", "nvrtcDestroyProgram",
                           "nvrtcCompileProgram", "nvrtcGetProgramLogSize", "nvrtcGetProgramLog", "nvrtcGetCUBINSize", "nvrtcGetCUBIN",
                           "nvrtcGetPTXSize", "nvrtcGetPTX", "nvrtcGetErrorString"}) {
    text += std::string("int ") + name + "(void) { return 1; }\n";
  }
  if (!build_library(directory, path, text)) {
    WARN("no C compiler at hand: not tested");
    return;
  }
  const ScopedEnvironment named("TILEWRIGHT_NVRTC", path);
  auto nvrtc = Nvrtc::find();
  const ErrorFacts facts = nvrtc ? failure_of((*nvrtc)->version()) : failure_of(nvrtc.takeError());
  CHECK(facts.status == Status::kMissing);
  CHECK(contains(facts.message, "11.2"));
  CHECK(contains(facts.message, "12.0"));
}

TEST_CASE("nvrtc: the loader's cache and build ids are read, and rubbish is not", "[runtime]") {
  const ScratchDirectory directory;
  directory.write("rubbish", "glibc-ld.so.cache1.1" + std::string(60, '\xff'));
  CHECK(find_in_loader_cache(directory.path("rubbish"), "libm.so.6").empty());
  CHECK(find_in_loader_cache("/nonexistent", "libm.so.6").empty());
  const std::string found = find_in_loader_cache("/etc/ld.so.cache", "libm.so.6");
  if (!found.empty()) CHECK(llvm::sys::fs::exists(found));
  CHECK_FALSE(elf_build_id(directory.path("rubbish")));
  CHECK_FALSE(elf_build_id("/nonexistent"));
  const auto id = elf_build_id(libm_path());
  REQUIRE(id);
  CHECK(id->size() == 40);
}
