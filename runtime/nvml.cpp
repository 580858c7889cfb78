#include "runtime/nvml.h"

#include <dlfcn.h>

#include <cstdlib>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"
#include "runtime/made_once.h"

namespace tilewright {
namespace {

constexpr int kSmClock = 1, kMemoryClock = 2;
constexpr int kGpuSensor = 0;

template <typename Function>
bool find_function(void* library, Function& function, const char* symbol) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

// The value that `call` writes; empty where the library has no such function or it fails.
template <typename Value, typename Call>
std::optional<Value> ask(bool offered, Call call) {
  Value value{};
  if (!offered || call(&value) != 0) return std::nullopt;
  return value;
}

std::optional<double> watts(std::optional<unsigned> milliwatt) {
  if (!milliwatt) return std::nullopt;
  return *milliwatt / 1e3;
}

}  // namespace

llvm::Expected<Nvml> load_nvml(llvm::StringRef file) {
  Nvml nvml;
  nvml.path = file.str();
  const char* named = std::getenv("TILEWRIGHT_NVML");
  if (nvml.path.empty() && named != nullptr) nvml.path = named;
  if (nvml.path.empty()) nvml.path = "libnvidia-ml.so.1";
  void* library = ::dlopen(nvml.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return make_error(Status::kMissing, "NVML: cannot load {} ({})", nvml.path, reason ? reason : "no reason given");
  }
  // The library is never unloaded: its own threads and exit handlers live on in it.
  if (!find_function(library, nvml.init, "nvmlInit_v2") ||
      !find_function(library, nvml.device_by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2"))
    return make_error(Status::kMissing, "NVML: {} lacks nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2", nvml.path);
  find_function(library, nvml.error_string, "nvmlErrorString");
  find_function(library, nvml.clock, "nvmlDeviceGetClockInfo");
  find_function(library, nvml.temperature, "nvmlDeviceGetTemperature");
  find_function(library, nvml.power, "nvmlDeviceGetPowerUsage");
  find_function(library, nvml.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  // Drivers before 535 have the second name alone.
  if (!find_function(library, nvml.clock_events, "nvmlDeviceGetCurrentClocksEventReasons"))
    find_function(library, nvml.clock_events, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find_function(library, nvml.utilization, "nvmlDeviceGetUtilizationRates");
  if (!find_function(library, nvml.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3"))
    find_function(library, nvml.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v2");
  if (const int result = nvml.init(); result != 0) {
    return make_error(Status::kMissing, "NVML: {} cannot be initialised: {}", nvml.path,
                      nvml.error_string != nullptr ? nvml.error_string(result) : std::to_string(result));
  }
  return nvml;
}

llvm::Expected<const Nvml&> nvml() {
  // Never destroyed, as driver().
  static const auto* loaded = new MadeOnce(load_nvml());
  return loaded->get();
}

std::string clock_events_text(std::uint64_t events) {
  constexpr std::pair<ClockEvent, const char*> kNames[] = {{kGpuIdle, "gpu_idle"},
                                                           {kApplicationClocks, "application_clocks"},
                                                           {kSwPowerCap, "sw_power_cap"},
                                                           {kHwSlowdown, "hw_slowdown"},
                                                           {kSyncBoost, "sync_boost"},
                                                           {kSwThermalSlowdown, "sw_thermal_slowdown"},
                                                           {kHwThermalSlowdown, "hw_thermal_slowdown"},
                                                           {kHwPowerBrake, "hw_power_brake"},
                                                           {kDisplayClocks, "display_clocks"}};
  std::vector<std::string> names;
  for (const auto& [bit, name] : kNames) {
    if ((events & bit) != 0) names.emplace_back(name);
    events &= ~static_cast<std::uint64_t>(bit);
  }
  if (events != 0) names.push_back(fmt::format("{:#x}", events));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

llvm::Expected<DeviceSensor> DeviceSensor::find(const Nvml& nvml, const std::string& bus_id) {
  Nvml::Device device = nullptr;
  if (const int result = nvml.device_by_bus_id(bus_id.c_str(), &device); result != 0) {
    return make_error(Status::kMissing, "NVML: no device {}: {}", bus_id,
                      nvml.error_string != nullptr ? nvml.error_string(result) : std::to_string(result));
  }
  return DeviceSensor(nvml, device);
}

DeviceReading DeviceSensor::read() const {
  auto number = [&](int (*function)(Nvml::Device, unsigned*)) {
    return ask<unsigned>(function != nullptr, [&](unsigned* value) { return function(device_, value); });
  };
  auto chosen = [&](int (*function)(Nvml::Device, int, unsigned*), int which) {
    return ask<unsigned>(function != nullptr, [&](unsigned* value) { return function(device_, which, value); });
  };
  DeviceReading reading;
  reading.sm_mhz = chosen(nvml_->clock, kSmClock);
  reading.memory_mhz = chosen(nvml_->clock, kMemoryClock);
  const auto events = ask<unsigned long long>(nvml_->clock_events != nullptr,
                                              [&](unsigned long long* reasons) { return nvml_->clock_events(device_, reasons); });
  if (events) reading.clock_events = *events;
  reading.temperature_c = chosen(nvml_->temperature, kGpuSensor);
  reading.power_w = watts(number(nvml_->power));
  reading.power_limit_w = watts(number(nvml_->power_limit));
  return reading;
}

DeviceReading DeviceSensor::read_all() const {
  DeviceReading reading = read();
  const auto use =
      ask<NvmlUtilization>(nvml_->utilization != nullptr, [&](NvmlUtilization* percent) { return nvml_->utilization(device_, percent); });
  if (use) reading.busy_percent = use->gpu;
  if (nvml_->compute_processes == nullptr) return reading;
  // Of more than these the first count: what matters is whether there are others.
  constexpr unsigned kMostProcesses = 256;
  std::vector<NvmlProcess> processes(kMostProcesses);
  unsigned count = kMostProcesses;
  if (nvml_->compute_processes(device_, &count, processes.data()) != 0 || count > kMostProcesses) return reading;
  reading.processes.emplace();
  for (unsigned i = 0; i < count; ++i) reading.processes->push_back(processes[i].pid);
  return reading;
}

std::vector<unsigned> other_processes(std::vector<unsigned> processes, unsigned own) {
  if (processes.empty()) return processes;
  const auto found = llvm::find(processes, own);
  processes.erase(found != processes.end() ? found : processes.begin());
  return processes;
}

}  // namespace tilewright
