// NVIDIA's management library (NVML), loaded at run time where it is: what a device is doing. Tilewright only reads it, and everything
// works without it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

// NVML's API reference, struct nvmlUtilization_t and nvmlProcessInfo_t (of version 2 and 3 of the function).
struct NvmlUtilization {
  unsigned gpu, memory;  // percent of the last sample period, a sixth of a second to a second
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance, compute_instance;
};

// The functions Tilewright calls, by their plain meaning; a null one is not in this version of the library. They return 0 for success. A
// test may fill a table of its own.
struct Nvml {
  using Device = void*;

  std::string path;  // file the loader chose

  int (*init)() = nullptr;
  const char* (*error_string)(int result) = nullptr;
  int (*device_by_bus_id)(const char* bus_id, Device* device) = nullptr;
  int (*clock)(Device device, int which, unsigned* mhz) = nullptr;  // 1: multiprocessors, 2: memory
  int (*temperature)(Device device, int sensor, unsigned* celsius) = nullptr;
  int (*power)(Device device, unsigned* milliwatt) = nullptr;
  int (*power_limit)(Device device, unsigned* milliwatt) = nullptr;
  int (*clock_events)(Device device, unsigned long long* reasons) = nullptr;
  int (*utilization)(Device device, NvmlUtilization* percent) = nullptr;
  int (*compute_processes)(Device device, unsigned* count, NvmlProcess* processes) = nullptr;
};

// The process's library: loaded and initialised at the first call, the same at every later one. Thread-safe. The file is $TILEWRIGHT_NVML
// where that is set and not empty, else libnvidia-ml.so.1 wherever the loader finds it.
// Error kMissing: no such file, not NVML, or it cannot be initialised (no GPU).
llvm::Expected<const Nvml&> nvml();

// Loads from one file, without remembering it: what nvml() does the first time. `file` empty: as nvml() chooses.
llvm::Expected<Nvml> load_nvml(llvm::StringRef file = {});

// Why the clocks are below their highest: bits of a reading's clock_events (NVML's API reference, nvmlClocksEventReasons).
enum ClockEvent : std::uint64_t {
  kGpuIdle = 0x1,
  kApplicationClocks = 0x2,
  kSwPowerCap = 0x4,
  kHwSlowdown = 0x8,
  kSyncBoost = 0x10,
  kSwThermalSlowdown = 0x20,
  kHwThermalSlowdown = 0x40,
  kHwPowerBrake = 0x80,
  kDisplayClocks = 0x100,
};
// "sw_power_cap, hw_slowdown"; "none" for 0; bits without a name in hexadecimal.
std::string clock_events_text(std::uint64_t events);

// What a device said at one moment; what it did not say is empty.
struct DeviceReading {
  std::optional<unsigned> sm_mhz, memory_mhz, temperature_c;
  std::optional<double> power_w, power_limit_w;
  std::optional<std::uint64_t> clock_events;
  std::optional<unsigned> busy_percent;            // time a kernel of anybody ran, of the last second or less
  std::optional<std::vector<unsigned>> processes;  // ids of those with a compute context, as NVML counts them
};

// One device. The table must outlive it.
class DeviceSensor {
 public:
  // `bus_id`: DeviceFacts::bus_id. Error kMissing: NVML does not know it.
  static llvm::Expected<DeviceSensor> find(const Nvml& nvml, const std::string& bus_id);
  // Clocks, events, temperature and power: quick enough to be asked while a kernel runs.
  DeviceReading read() const;
  // Besides these, who uses the device.
  DeviceReading read_all() const;

 private:
  DeviceSensor(const Nvml& nvml, Nvml::Device device) : nvml_(&nvml), device_(device) {}
  const Nvml* nvml_;
  Nvml::Device device_;
};

// `processes` without `own`. In a container NVML may count processes otherwise than the process itself: where `own` is not among them but
// others are, one of them is taken to be it, so the caller must have a context on the device.
std::vector<unsigned> other_processes(std::vector<unsigned> processes, unsigned own);

}  // namespace tilewright
