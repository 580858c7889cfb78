#include "runtime/driver.h"

#include <dlfcn.h>

#include <cmath>

#include "runtime/device.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

TEST_CASE("driver: a missing file is one error that names it", "[runtime]") {
  const ErrorFacts facts = failure_of(load_driver("/nonexistent/libcuda.so.1"));
  CHECK(facts.status == Status::kMissing);
  CHECK(contains(facts.message, "/nonexistent/libcuda.so.1"));

  const ScopedEnvironment named("TILEWRIGHT_DRIVER", std::string("/nonexistent/other.so"));
  CHECK(contains(failure_of(load_driver()).message, "/nonexistent/other.so"));
}

TEST_CASE("driver: a library that is no driver is refused with what it lacks", "[runtime]") {
  Dl_info info{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(&std::cos)), &info) != 0);
  const ErrorFacts facts = failure_of(load_driver(info.dli_fname));
  CHECK(facts.status == Status::kMissing);
  CHECK(contains(facts.message, "cuInit"));
  CHECK(contains(facts.message, "cuLaunchKernelEx"));
}

TEST_CASE("driver: the process's driver fails or works alike at every call", "[runtime]") {
  auto first = driver();
  auto second = driver();
  CHECK(static_cast<bool>(first) == static_cast<bool>(second));
  if (first) {
    CHECK(&*first == &*second);
  } else {
    const ErrorFacts facts = failure_of(std::move(first));
    CHECK(facts.status == Status::kMissing);
    CHECK(failure_of(std::move(second)).message == facts.message);
  }
}

TEST_CASE("driver: errors carry the driver's name and what was done", "[runtime]") {
  const Driver driver = reset_fake();
  must(driver.check(CUDA_SUCCESS, "x"));
  const ErrorFacts facts = failure_of(driver.check(CUDA_ERROR_INVALID_VALUE, "turning a knob"));
  CHECK(facts.status == Status::kDriver);
  CHECK(facts.message == "turning a knob: CUDA_ERROR_SOMETHING (a description)");
  CHECK(driver.version_text() == "13.0");
  CHECK(contains(Driver().error_name(CUDA_ERROR_INVALID_VALUE), "1"));
}

TEST_CASE("device: facts, with the datasheet's bandwidth where the name is known", "[runtime]") {
  const Driver driver = reset_fake();
  const DeviceFacts facts = must(device_facts(driver, 0));
  CHECK(facts.name == "NVIDIA H200");
  CHECK(facts.major == 9);
  CHECK(facts.sm_count == 132);
  CHECK(facts.bus_bandwidth == Approx(2.0 * 1e6 * 100));
  CHECK(facts.datasheet_bandwidth == Approx(4.8e12));
  CHECK(datasheet_bandwidth("NVIDIA H100 80GB HBM3") == 3.35e12);
  CHECK(datasheet_bandwidth("NVIDIA H100 PCIe") == 2.0e12);
  CHECK(datasheet_bandwidth("NVIDIA B200") == 8.0e12);
  CHECK_FALSE(datasheet_bandwidth("NVIDIA H2000"));
  const ErrorFacts missing = failure_of(device_facts(driver, 1));
  CHECK(missing.status == Status::kMissing);
  CHECK(contains(missing.message, "there are 1"));
}

TEST_CASE("device: contexts are released and left as they were found", "[runtime]") {
  const Driver driver = reset_fake();
  {
    Context context = must(Context::primary(driver, 0));
    Context moved = std::move(context);
    CHECK(moved.handle() == reinterpret_cast<CUcontext>(0x20));
    { const ContextScope scope = must(ContextScope::enter(driver, moved.handle())); }
    CHECK(fake().pushes == 1);
    CHECK(fake().pops == 1);
    { const ContextScope scope = must(ContextScope::enter(driver, fake().current)); }
    CHECK(fake().pushes == 1);
    const Context current = must(Context::current(driver));
    CHECK(current.handle() == fake().current);
  }
  CHECK(fake().retains == 1);
  CHECK(fake().releases == 1);
  fake().current = nullptr;
  CHECK(failure_of(Context::current(driver)).status == Status::kInvalidArgument);
}

TEST_CASE("device: memory is freed once, and running out says how much", "[runtime]") {
  const Driver driver = reset_fake();
  {
    DeviceBuffer buffer = must(DeviceBuffer::allocate(driver, 100));
    DeviceBuffer moved = std::move(buffer);
    CHECK(fake().live_allocations == 1);
    CHECK(moved.bytes() == 100);
    moved = must(DeviceBuffer::allocate(driver, 0));
    CHECK(moved.pointer() == 0);
    const std::vector<std::uint8_t> data(101);
    CHECK(failure_of(must(DeviceBuffer::allocate(driver, 100)).upload(data)).status == Status::kInvalidArgument);
  }
  CHECK(fake().live_allocations == 0);
  fake().alloc_result = CUDA_ERROR_OUT_OF_MEMORY;
  const ErrorFacts facts = failure_of(DeviceBuffer::allocate(driver, 12345));
  CHECK(facts.status == Status::kOutOfMemory);
  CHECK(contains(facts.message, "12345"));
  CHECK(contains(facts.message, "77"));
}
