#include "runtime/nvml.h"

#include <dlfcn.h>

#include <cmath>
#include <cstring>

#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

int the_device = 0;

// A table that knows one device and says fixed numbers of it.
Nvml made_up() {
  Nvml nvml;
  nvml.error_string = [](int) { return "not found"; };
  nvml.device_by_bus_id = [](const char* bus_id, Nvml::Device* device) {
    *device = &the_device;
    return std::strcmp(bus_id, "00000000:17:00.0") == 0 ? 0 : 6;
  };
  nvml.clock = [](Nvml::Device device, int which, unsigned* mhz) {
    *mhz = which == 1 ? 1980 : 3201;
    return device == &the_device && (which == 1 || which == 2) ? 0 : 2;
  };
  nvml.temperature = [](Nvml::Device, int sensor, unsigned* celsius) {
    *celsius = 41;
    return sensor;
  };
  nvml.power = [](Nvml::Device, unsigned* milliwatt) {
    *milliwatt = 420500;
    return 0;
  };
  nvml.power_limit = [](Nvml::Device, unsigned*) { return 3; };  // not supported
  nvml.clock_events = [](Nvml::Device, unsigned long long* reasons) {
    *reasons = kSwPowerCap;
    return 0;
  };
  nvml.utilization = [](Nvml::Device, NvmlUtilization* percent) {
    *percent = {93, 40};
    return 0;
  };
  nvml.compute_processes = [](Nvml::Device, unsigned* count, NvmlProcess* processes) {
    processes[0] = {77, 0, 0, 0};
    processes[1] = {78, 0, 0, 0};
    *count = 2;
    return 0;
  };
  return nvml;
}

}  // namespace

TEST_CASE("nvml: a missing file and a library that is not it are errors that name it", "[runtime]") {
  const ErrorFacts missing = failure_of(load_nvml("/nonexistent/libnvidia-ml.so.1"));
  CHECK(missing.status == Status::kMissing);
  CHECK(contains(missing.message, "/nonexistent/libnvidia-ml.so.1"));
  {
    const ScopedEnvironment named("TILEWRIGHT_NVML", std::string("/nonexistent/other.so"));
    CHECK(contains(failure_of(load_nvml()).message, "/nonexistent/other.so"));
  }
  Dl_info info{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(&std::cos)), &info) != 0);
  const ErrorFacts other = failure_of(load_nvml(info.dli_fname));
  CHECK(other.status == Status::kMissing);
  CHECK(contains(other.message, "nvmlInit_v2"));
}

TEST_CASE("nvml: a reading holds what the library says, in its units, and nothing for what it does not say", "[runtime]") {
  const Nvml nvml = made_up();
  auto sensor = DeviceSensor::find(nvml, "00000000:17:00.0");
  REQUIRE(static_cast<bool>(sensor));
  const DeviceReading quick = sensor->read();
  CHECK(quick.sm_mhz == 1980u);
  CHECK(quick.memory_mhz == 3201u);
  CHECK(quick.temperature_c == 41u);
  CHECK(quick.power_w == 420.5);
  CHECK_FALSE(quick.power_limit_w.has_value());
  CHECK(quick.clock_events == std::uint64_t{kSwPowerCap});
  CHECK_FALSE(quick.processes.has_value());
  const DeviceReading all = sensor->read_all();
  CHECK(all.busy_percent == 93u);
  CHECK(all.processes == std::vector<unsigned>{77, 78});
  CHECK(contains(failure_of(DeviceSensor::find(nvml, "00000000:18:00.0")).message, "00000000:18:00.0: not found"));
}

TEST_CASE("nvml: functions a version lacks give nothing", "[runtime]") {
  Nvml bare;
  bare.device_by_bus_id = made_up().device_by_bus_id;
  auto sensor = DeviceSensor::find(bare, "00000000:17:00.0");
  REQUIRE(static_cast<bool>(sensor));
  const DeviceReading all = sensor->read_all();
  CHECK_FALSE(all.sm_mhz.has_value());
  CHECK_FALSE(all.clock_events.has_value());
  CHECK_FALSE(all.power_w.has_value());
  CHECK_FALSE(all.busy_percent.has_value());
  CHECK_FALSE(all.processes.has_value());
}

TEST_CASE("nvml: clock events by name; other processes without one's own, whatever number it goes by", "[runtime]") {
  CHECK(clock_events_text(0) == "none");
  CHECK(clock_events_text(kSwPowerCap | kHwThermalSlowdown) == "sw_power_cap, hw_thermal_slowdown");
  CHECK(clock_events_text(kGpuIdle | 0x4000) == "gpu_idle, 0x4000");
  CHECK(other_processes({5, 6, 7}, 6) == std::vector<unsigned>{5, 7});
  CHECK(other_processes({5, 6}, 9) == std::vector<unsigned>{6});
  CHECK(other_processes({}, 9).empty());
}
