// The CUDA driver, loaded at run time: a table of the functions Tilewright calls. Nothing of CUDA is linked.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "runtime/error.h"

namespace tilewright {

// Functions by their plain meaning, with signatures written out so that any toolkit's cuda.h (12.0 or newer) serves, whatever versions its
// macros pick. A test may fill a table of its own.
struct Driver {
  std::string path;  // file the loader chose
  int version = 0;   // 12080 for CUDA 12.8: what the driver supports

  CUresult (*init)(unsigned flags) = nullptr;
  CUresult (*driver_get_version)(int* version) = nullptr;
  CUresult (*get_error_name)(CUresult error, const char** name) = nullptr;
  CUresult (*get_error_string)(CUresult error, const char** text) = nullptr;

  CUresult (*device_get_count)(int* count) = nullptr;
  CUresult (*device_get)(CUdevice* device, int ordinal) = nullptr;
  CUresult (*device_get_name)(char* name, int length, CUdevice device) = nullptr;
  CUresult (*device_get_attribute)(int* value, CUdevice_attribute attribute, CUdevice device) = nullptr;
  CUresult (*device_total_mem)(std::size_t* bytes, CUdevice device) = nullptr;
  CUresult (*device_primary_ctx_retain)(CUcontext* context, CUdevice device) = nullptr;
  CUresult (*device_primary_ctx_release)(CUdevice device) = nullptr;

  CUresult (*ctx_get_current)(CUcontext* context) = nullptr;
  CUresult (*ctx_push_current)(CUcontext context) = nullptr;
  CUresult (*ctx_pop_current)(CUcontext* context) = nullptr;
  CUresult (*ctx_get_device)(CUdevice* device) = nullptr;
  CUresult (*ctx_get_id)(CUcontext context, unsigned long long* id) = nullptr;
  CUresult (*ctx_synchronize)() = nullptr;

  CUresult (*mem_get_info)(std::size_t* free_bytes, std::size_t* total_bytes) = nullptr;
  CUresult (*mem_alloc)(CUdeviceptr* pointer, std::size_t bytes) = nullptr;
  CUresult (*mem_free)(CUdeviceptr pointer) = nullptr;
  CUresult (*memcpy_to_device_async)(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) = nullptr;
  CUresult (*memcpy_to_host_async)(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) = nullptr;
  CUresult (*memcpy_on_device_async)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) = nullptr;
  CUresult (*memset_d8_async)(CUdeviceptr pointer, unsigned char value, std::size_t count, CUstream stream) = nullptr;

  CUresult (*stream_create)(CUstream* stream, unsigned flags) = nullptr;
  CUresult (*stream_destroy)(CUstream stream) = nullptr;
  CUresult (*stream_synchronize)(CUstream stream) = nullptr;
  CUresult (*stream_is_capturing)(CUstream stream, CUstreamCaptureStatus* status) = nullptr;
  CUresult (*stream_begin_capture)(CUstream stream, CUstreamCaptureMode mode) = nullptr;
  CUresult (*stream_end_capture)(CUstream stream, CUgraph* graph) = nullptr;

  CUresult (*event_create)(CUevent* event, unsigned flags) = nullptr;
  CUresult (*event_destroy)(CUevent event) = nullptr;
  CUresult (*event_record)(CUevent event, CUstream stream) = nullptr;
  CUresult (*event_synchronize)(CUevent event) = nullptr;
  CUresult (*event_elapsed_time)(float* milliseconds, CUevent start, CUevent end) = nullptr;

  CUresult (*graph_instantiate)(CUgraphExec* exec, CUgraph graph, unsigned long long flags) = nullptr;
  CUresult (*graph_launch)(CUgraphExec exec, CUstream stream) = nullptr;
  CUresult (*graph_destroy)(CUgraph graph) = nullptr;
  CUresult (*graph_exec_destroy)(CUgraphExec exec) = nullptr;

  CUresult (*module_load_data_ex)(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) = nullptr;
  CUresult (*module_unload)(CUmodule module) = nullptr;
  CUresult (*module_get_function)(CUfunction* function, CUmodule module, const char* name) = nullptr;
  CUresult (*func_get_attribute)(int* value, CUfunction_attribute attribute, CUfunction function) = nullptr;
  CUresult (*func_set_attribute)(CUfunction function, CUfunction_attribute attribute, int value) = nullptr;
  CUresult (*tensor_map_encode_tiled)(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
                                      const cuuint64_t* strides_bytes, const cuuint32_t* box, const cuuint32_t* element_strides,
                                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                      CUtensorMapFloatOOBfill fill) = nullptr;
  CUresult (*launch_kernel_ex)(const CUlaunchConfig* config, CUfunction function, void** params, void** extra) = nullptr;

  // The result of a call as an Error: success, or kDriver (kOutOfMemory for CUDA_ERROR_OUT_OF_MEMORY) with the driver's name of the error,
  // its text and `what`, the thing that was being done.
  llvm::Error check(CUresult result, llvm::StringRef what) const;
  // "CUDA_ERROR_INVALID_VALUE"; a number when the driver has no name for it.
  std::string error_name(CUresult result) const;
  // "12.8".
  std::string version_text() const;
};

// The process's driver: loaded and initialised at the first call, the same table (or the same failure) at every later one. Thread-safe.
// The file is $TILEWRIGHT_DRIVER where that is set and not empty, else libcuda.so.1 wherever the loader finds it.
// Error kMissing: no such file (names it and where it was looked for), a function is missing, older than CUDA 12.0, or cuInit failed (no
// GPU).
llvm::Expected<const Driver&> driver();

// Loads a driver from one file, without remembering it: what driver() does the first time. `file` empty: as driver() chooses.
llvm::Expected<Driver> load_driver(llvm::StringRef file = {});

}  // namespace tilewright
