// NVML beside the driver: it knows the driver's device, and reading it is quick enough to be done while a kernel runs.
#include <chrono>

#include "runtime/nvml.h"
#include "tests/gpu/gpu_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

TEST_CASE("gpu: NVML finds the driver's device and says its clocks, temperature and power", "[gpu]") {
  const auto facts = value_of(device_facts(Gpu::instance().driver(), 0));
  auto library = nvml();
  if (!library) {
    WARN("not checked: " << take_error_facts(library.takeError()).message);
    return;
  }
  const DeviceSensor sensor = value_of(DeviceSensor::find(*library, facts.bus_id));
  const DeviceReading all = sensor.read_all();
  REQUIRE(all.sm_mhz.has_value());
  CHECK(*all.sm_mhz > 0);
  REQUIRE(all.memory_mhz.has_value());
  CHECK(*all.memory_mhz > 0);
  REQUIRE(all.temperature_c.has_value());
  CHECK((*all.temperature_c > 0 && *all.temperature_c < 120));
  REQUIRE(all.power_w.has_value());
  REQUIRE(all.power_limit_w.has_value());
  CHECK((*all.power_w > 0 && *all.power_w < 2 * *all.power_limit_w));
  CHECK(all.clock_events.has_value());
  constexpr int kReadings = 20;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kReadings; ++i) CHECK(sensor.read().sm_mhz.has_value());
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / kReadings;
  INFO("a reading takes " << ms << " ms");
  CHECK(ms < 10);
}
