#include "runtime/driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "runtime/made_once.h"

namespace tilewright {
namespace {

constexpr int kOldestVersion = 12000;  // the compiler's cubins need a driver of its own major version

struct Loader {
  void* library;
  std::string missing;  // names of functions not found, for one error

  template <typename Function>
  void load(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(::dlsym(library, symbol));
    if (function) return;
    if (!missing.empty()) missing += ", ";
    missing += symbol;
  }
};

void load_device_functions(Loader& loader, Driver& driver) {
  loader.load(driver.init, "cuInit");
  loader.load(driver.driver_get_version, "cuDriverGetVersion");
  loader.load(driver.get_error_name, "cuGetErrorName");
  loader.load(driver.get_error_string, "cuGetErrorString");
  loader.load(driver.device_get_count, "cuDeviceGetCount");
  loader.load(driver.device_get, "cuDeviceGet");
  loader.load(driver.device_get_name, "cuDeviceGetName");
  loader.load(driver.device_get_attribute, "cuDeviceGetAttribute");
  loader.load(driver.device_total_mem, "cuDeviceTotalMem_v2");
  loader.load(driver.device_primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  loader.load(driver.device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  loader.load(driver.ctx_get_current, "cuCtxGetCurrent");
  loader.load(driver.ctx_push_current, "cuCtxPushCurrent_v2");
  loader.load(driver.ctx_pop_current, "cuCtxPopCurrent_v2");
  loader.load(driver.ctx_get_device, "cuCtxGetDevice");
  loader.load(driver.ctx_get_id, "cuCtxGetId");
  loader.load(driver.ctx_synchronize, "cuCtxSynchronize");
}

void load_memory_functions(Loader& loader, Driver& driver) {
  loader.load(driver.mem_get_info, "cuMemGetInfo_v2");
  loader.load(driver.mem_alloc, "cuMemAlloc_v2");
  loader.load(driver.mem_free, "cuMemFree_v2");
  loader.load(driver.memcpy_to_device_async, "cuMemcpyHtoDAsync_v2");
  loader.load(driver.memcpy_to_host_async, "cuMemcpyDtoHAsync_v2");
  loader.load(driver.memcpy_on_device_async, "cuMemcpyDtoDAsync_v2");
  loader.load(driver.memset_d8_async, "cuMemsetD8Async");
}

void load_work_functions(Loader& loader, Driver& driver) {
  loader.load(driver.stream_create, "cuStreamCreate");
  loader.load(driver.stream_destroy, "cuStreamDestroy_v2");
  loader.load(driver.stream_synchronize, "cuStreamSynchronize");
  loader.load(driver.stream_is_capturing, "cuStreamIsCapturing");
  loader.load(driver.stream_begin_capture, "cuStreamBeginCapture_v2");
  loader.load(driver.stream_end_capture, "cuStreamEndCapture");
  loader.load(driver.event_create, "cuEventCreate");
  loader.load(driver.event_destroy, "cuEventDestroy_v2");
  loader.load(driver.event_record, "cuEventRecord");
  loader.load(driver.event_synchronize, "cuEventSynchronize");
  loader.load(driver.event_elapsed_time, "cuEventElapsedTime");
  loader.load(driver.graph_instantiate, "cuGraphInstantiateWithFlags");
  loader.load(driver.graph_launch, "cuGraphLaunch");
  loader.load(driver.graph_destroy, "cuGraphDestroy");
  loader.load(driver.graph_exec_destroy, "cuGraphExecDestroy");
  loader.load(driver.module_load_data_ex, "cuModuleLoadDataEx");
  loader.load(driver.module_unload, "cuModuleUnload");
  loader.load(driver.module_get_function, "cuModuleGetFunction");
  loader.load(driver.func_get_attribute, "cuFuncGetAttribute");
  loader.load(driver.func_set_attribute, "cuFuncSetAttribute");
  loader.load(driver.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  loader.load(driver.launch_kernel_ex, "cuLaunchKernelEx");
}

}  // namespace

llvm::Expected<Driver> load_driver(llvm::StringRef file) {
  std::string path = file.str();
  const char* override_path = std::getenv("TILEWRIGHT_DRIVER");
  if (path.empty() && override_path) path = override_path;
  const bool named = !path.empty();
  if (!named) path = "libcuda.so.1";

  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = ::dlerror();
    return make_error(Status::kMissing, "driver: cannot load {} ({}); looked {}. The CUDA driver comes with the GPU's kernel module", path,
                      reason ? reason : "no reason given",
                      named ? "there alone, as asked" : "in LD_LIBRARY_PATH, the loader's cache and the system's directories");
  }
  Driver driver;
  driver.path = path;
  Loader loader{library, {}};
  load_device_functions(loader, driver);
  load_memory_functions(loader, driver);
  load_work_functions(loader, driver);
  // The library is never unloaded: its own threads and exit handlers live on in it.
  if (!loader.missing.empty()) {
    return make_error(Status::kMissing, "driver: {} lacks {}; a driver for CUDA 12.0 or newer is needed", path, loader.missing);
  }
  if (auto error = driver.check(driver.driver_get_version(&driver.version), "asking the driver for its version")) return error;
  if (driver.version < kOldestVersion) {
    return make_error(Status::kMissing, "driver: {} serves CUDA {}; 12.0 or newer is needed", path, driver.version_text());
  }
  if (const CUresult result = driver.init(0); result != CUDA_SUCCESS) {
    return make_error(Status::kMissing, "driver: {} is there but cuInit fails with {}: no GPU that it can use", path,
                      driver.error_name(result));
  }
  return driver;
}

llvm::Expected<const Driver&> driver() {
  // Never destroyed: owners of driver objects may outlive every destructor that runs at exit.
  static const auto* loaded = new MadeOnce(load_driver());
  return loaded->get();
}

std::string Driver::error_name(CUresult result) const {
  const char* name = nullptr;
  if (get_error_name && get_error_name(result, &name) == CUDA_SUCCESS && name) return name;
  return fmt::format("CUDA error {}", static_cast<int>(result));
}

llvm::Error Driver::check(CUresult result, llvm::StringRef what) const {
  if (result == CUDA_SUCCESS) return llvm::Error::success();
  const char* text = nullptr;
  if (!get_error_string || get_error_string(result, &text) != CUDA_SUCCESS || !text) text = "no description";
  const Status status = result == CUDA_ERROR_OUT_OF_MEMORY ? Status::kOutOfMemory : Status::kDriver;
  return make_error(status, "{}: {} ({})", what, error_name(result), text);
}

std::string Driver::version_text() const { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace tilewright
