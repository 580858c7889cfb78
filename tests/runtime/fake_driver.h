// A driver table without a GPU: it records what is launched and copied, and says what a test wants it to say.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/driver.h"

namespace tilewright_tests {

struct FakeLaunch {
  std::array<unsigned, 3> grid, block;
  unsigned shared_bytes = 0;
  unsigned attributes = 0;
  CUstream stream = nullptr;
  std::vector<void*> params;             // addresses, valid during the call alone
  std::vector<std::string> param_bytes;  // filled from FakeState::param_sizes
};

struct FakeState {
  std::vector<FakeLaunch> launches;
  std::vector<std::pair<CUdeviceptr, std::size_t>> fills;
  std::vector<std::size_t> param_sizes;  // of the next launch
  std::map<int, int> function_attributes_set;
  CUcontext current = reinterpret_cast<CUcontext>(0x10);
  unsigned long long context_id = 1;  // of every context; 0: destroyed
  int pushes = 0, pops = 0, loads = 0, unloads = 0, retains = 0, releases = 0;
  int live_allocations = 0;
  int max_threads = 1024, most_shared = 232448, static_shared = 0;
  CUresult load_result = CUDA_SUCCESS, launch_result = CUDA_SUCCESS, alloc_result = CUDA_SUCCESS;
};

// The state the table works on; a test begins with reset_fake().
inline FakeState& fake() {
  static FakeState state;
  return state;
}

inline CUresult fake_device_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = 0;
  if (attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) *value = fake().most_shared;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *value = 9;
  if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *value = 132;
  if (attribute == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *value = 1000;       // kHz
  if (attribute == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) *value = 800;  // bits
  return CUDA_SUCCESS;
}

inline CUresult fake_function_attribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? fake().max_threads
           : attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES   ? fake().static_shared
                                                                : 32;
  return CUDA_SUCCESS;
}

inline CUresult fake_launch(const CUlaunchConfig* config, CUfunction, void** params, void**) {
  FakeLaunch launch{{config->gridDimX, config->gridDimY, config->gridDimZ},
                    {config->blockDimX, config->blockDimY, config->blockDimZ},
                    config->sharedMemBytes,
                    config->numAttrs,
                    config->hStream,
                    {},
                    {}};
  for (std::size_t i = 0; i < fake().param_sizes.size(); ++i)
    launch.param_bytes.emplace_back(static_cast<char*>(params[i]), fake().param_sizes[i]);
  fake().launches.push_back(std::move(launch));
  return fake().launch_result;
}

inline tilewright::Driver reset_fake() {
  fake() = FakeState();
  tilewright::Driver driver;
  driver.version = 13000;
  driver.get_error_name = [](CUresult error, const char** name) {
    *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_SOMETHING";
    return CUDA_SUCCESS;
  };
  driver.get_error_string = [](CUresult, const char** text) { return *text = "a description", CUDA_SUCCESS; };
  driver.device_get_count = [](int* count) { return *count = 1, CUDA_SUCCESS; };
  driver.device_get = [](CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; };
  driver.device_get_name = [](char* name, int, CUdevice) { return std::strcpy(name, "NVIDIA H200"), CUDA_SUCCESS; };
  driver.device_get_attribute = fake_device_attribute;
  driver.device_total_mem = [](std::size_t* bytes, CUdevice) { return *bytes = 1000, CUDA_SUCCESS; };
  driver.device_primary_ctx_retain = [](CUcontext* context, CUdevice) {
    return ++fake().retains, *context = reinterpret_cast<CUcontext>(0x20), CUDA_SUCCESS;
  };
  driver.device_primary_ctx_release = [](CUdevice) { return ++fake().releases, CUDA_SUCCESS; };
  driver.ctx_get_current = [](CUcontext* context) { return *context = fake().current, CUDA_SUCCESS; };
  driver.ctx_push_current = [](CUcontext) { return ++fake().pushes, CUDA_SUCCESS; };
  driver.ctx_pop_current = [](CUcontext*) { return ++fake().pops, CUDA_SUCCESS; };
  driver.ctx_get_device = [](CUdevice* device) { return *device = 0, CUDA_SUCCESS; };
  driver.ctx_get_id = [](CUcontext, unsigned long long* id) {
    return *id = fake().context_id, *id == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
  };
  driver.mem_get_info = [](std::size_t* free_bytes, std::size_t* total) { return *free_bytes = 77, *total = 1000, CUDA_SUCCESS; };
  driver.mem_alloc = [](CUdeviceptr* pointer, std::size_t) {
    if (fake().alloc_result == CUDA_SUCCESS) *pointer = 0x100000, ++fake().live_allocations;
    return fake().alloc_result;
  };
  driver.mem_free = [](CUdeviceptr) { return --fake().live_allocations, CUDA_SUCCESS; };
  driver.memset_d8_async = [](CUdeviceptr pointer, unsigned char, std::size_t count, CUstream) {
    return fake().fills.emplace_back(pointer, count), CUDA_SUCCESS;
  };
  driver.module_load_data_ex = [](CUmodule* module, const void*, unsigned, CUjit_option*, void**) {
    ++fake().loads;
    *module = reinterpret_cast<CUmodule>(0x30);
    return fake().load_result;
  };
  driver.module_unload = [](CUmodule) { return ++fake().unloads, CUDA_SUCCESS; };
  driver.module_get_function = [](CUfunction* function, CUmodule, const char*) {
    return *function = reinterpret_cast<CUfunction>(0x40), CUDA_SUCCESS;
  };
  driver.func_get_attribute = fake_function_attribute;
  driver.func_set_attribute = [](CUfunction, CUfunction_attribute attribute, int value) {
    return fake().function_attributes_set[attribute] = value, CUDA_SUCCESS;
  };
  driver.launch_kernel_ex = fake_launch;
  return driver;
}

}  // namespace tilewright_tests
