// main of test_gpu: without a usable GPU it exits with 77, which ctest counts as skipped.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace {

constexpr int kSkipped = 77;

// Asks the driver itself, not our runtime: a fault in the code under test must not turn its tests off.
int gpu_count() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return 0;
  auto init = reinterpret_cast<decltype(&cuInit)>(dlsym(driver, "cuInit"));
  auto get_count = reinterpret_cast<decltype(&cuDeviceGetCount)>(dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  if (init == nullptr || get_count == nullptr || init(0) != CUDA_SUCCESS || get_count(&count) != CUDA_SUCCESS) return 0;
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (gpu_count() == 0) {
    std::puts("no usable NVIDIA GPU: the tests in tests/gpu are skipped");
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
