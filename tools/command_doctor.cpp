// tilewright doctor: what this machine offers, what is missing, and the fix.
#include <unistd.h>

#include "autotune/tester.h"
#include "codegen/embedded_templates.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "runtime/api/tilewright.h"
#include "runtime/device.h"
#include "runtime/driver.h"
#include "runtime/nvml.h"
#include "runtime/nvrtc.h"
#include "runtime/store.h"
#include "tools/cli.h"

namespace tilewright::cli {
namespace {

struct DriverReport {
  std::string path, version, problem;
  std::vector<DeviceFacts> devices;
};

struct NvmlReport {
  std::string path, problem;
  std::vector<DeviceReading> devices;  // in the order of the driver's; empty readings where NVML does not know one
};

struct NvrtcReport {
  std::string path, version, problem;
  std::vector<int> architectures;
};

struct LayerReport {
  std::string path;
  bool exists = false, writable = false;
  std::uint64_t entries = 0, bytes = 0;
  std::string problem;  // why its entries could not be counted
};

std::string message_of(llvm::Error error) { return take_error_facts(std::move(error)).message; }

DriverReport look_at_driver() {
  DriverReport report;
  auto driver = tilewright::driver();
  if (!driver) {
    report.problem = message_of(driver.takeError());
    return report;
  }
  report.path = driver->path;
  report.version = driver->version_text();
  auto count = device_count(*driver);
  if (!count) {
    report.problem = message_of(count.takeError());
    return report;
  }
  if (*count == 0) report.problem = "the driver sees no GPU";
  for (int ordinal = 0; ordinal < *count; ++ordinal) {
    auto facts = device_facts(*driver, ordinal);
    if (facts) {
      report.devices.push_back(std::move(*facts));
    } else {
      report.problem = message_of(facts.takeError());
    }
  }
  return report;
}

NvmlReport look_at_nvml(llvm::ArrayRef<DeviceFacts> devices) {
  NvmlReport report;
  auto nvml = tilewright::nvml();
  if (!nvml) {
    report.problem = message_of(nvml.takeError());
    return report;
  }
  report.path = nvml->path;
  for (const DeviceFacts& facts : devices) {
    auto sensor = DeviceSensor::find(*nvml, facts.bus_id);
    report.devices.push_back(sensor ? sensor->read_all() : DeviceReading{});
    if (!sensor) report.problem = message_of(sensor.takeError());
  }
  return report;
}

NvrtcReport look_at_nvrtc() {
  NvrtcReport report;
  auto nvrtc = Nvrtc::find();
  if (!nvrtc) {
    report.problem = message_of(nvrtc.takeError());
    return report;
  }
  report.path = (*nvrtc)->path();
  auto version = (*nvrtc)->version();
  if (!version) {
    report.problem = message_of(version.takeError());
    return report;
  }
  report.version = *version;
  auto architectures = (*nvrtc)->supported_architectures();
  if (architectures) {
    report.architectures = std::move(*architectures);
  } else {
    report.problem = message_of(architectures.takeError());
  }
  return report;
}

// Could an entry be written there? The nearest directory that exists decides.
bool can_write(llvm::StringRef directory) {
  for (llvm::StringRef path = directory; !path.empty(); path = llvm::sys::path::parent_path(path)) {
    if (!llvm::sys::fs::exists(path)) continue;
    return llvm::sys::fs::is_directory(path) && access(path.str().c_str(), W_OK | X_OK) == 0;
  }
  return false;
}

std::vector<LayerReport> look_at_store(const StoreOptions& options) {
  std::vector<LayerReport> layers;
  auto add = [&](const std::string& path, bool writable) {
    LayerReport layer{path, llvm::sys::fs::is_directory(path), writable && can_write(path), 0, 0, {}};
    StoreOptions alone;
    alone.directory = path;
    if (auto entries = Store(alone).list()) {
      layer.entries = entries->size();
      for (const StoreListing& entry : *entries) layer.bytes += entry.bytes;
    } else {
      layer.problem = message_of(entries.takeError());
    }
    layers.push_back(std::move(layer));
  };
  if (!options.directory.empty()) add(options.directory, true);
  for (const std::string& path : options.layers) add(path, false);
  return layers;
}

std::string architectures_text(const std::vector<int>& numbers) { return fmt::format("sm_{}", fmt::join(numbers, " sm_")); }

std::string device_target(const DeviceFacts& facts, const NvrtcReport& nvrtc) {
  auto target = target_of_device(facts.major, facts.minor, nvrtc.architectures);
  return target ? target->name() : message_of(target.takeError());
}

// "1980 MHz, memory 3201 MHz, 41 C, ..."; "" where NVML says nothing.
std::string reading_text(const DeviceReading& reading) {
  std::vector<std::string> parts;
  if (reading.sm_mhz) parts.push_back(fmt::format("{} MHz", *reading.sm_mhz));
  if (reading.memory_mhz) parts.push_back(fmt::format("memory {} MHz", *reading.memory_mhz));
  if (reading.temperature_c) parts.push_back(fmt::format("{} C", *reading.temperature_c));
  if (reading.power_w) {
    const std::string limit = reading.power_limit_w ? fmt::format(" of {:.0f} W", *reading.power_limit_w) : "";
    parts.push_back(fmt::format("{:.0f} W{}", *reading.power_w, limit));
  }
  if (reading.clock_events) parts.push_back(fmt::format("clocks held by: {}", clock_events_text(*reading.clock_events)));
  if (reading.busy_percent) parts.push_back(fmt::format("{} % busy", *reading.busy_percent));
  if (reading.processes) parts.push_back(fmt::format("compute processes: {}", reading.processes->size()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

constexpr const char* kNvrtcFix =
    "install the CUDA toolkit or its NVRTC (apt: cuda-nvrtc-13-0; pip: nvidia-cuda-nvrtc), or set TILEWRIGHT_NVRTC to libnvrtc.so";
constexpr const char* kDriverFix = "install the NVIDIA driver (libcuda.so.1), or start the container with the GPU (--gpus all)";

std::string doctor_text(const DriverReport& driver, const NvmlReport& nvml, const NvrtcReport& nvrtc,
                        const std::vector<LayerReport>& layers, const StoreOptions& options) {
  std::string text = fmt::format("tilewright {} (build {})\n", tw_version(), llvm::StringRef(build_identity()).substr(0, 16));
  if (driver.path.empty()) {
    text += fmt::format("driver    missing: {}\n          fix: {}\n", driver.problem, kDriverFix);
  } else {
    text += fmt::format("driver    CUDA {}, {}\n", driver.version, driver.path);
    if (!driver.problem.empty()) text += fmt::format("          problem: {}\n", driver.problem);
  }
  for (auto [index, facts] : llvm::enumerate(driver.devices)) {
    text += fmt::format("gpu {}     {}: {} SMs, {}, compute capability {}.{}, target {}\n", facts.ordinal, facts.name, facts.sm_count,
                        bytes_text(static_cast<double>(facts.memory_bytes)), facts.major, facts.minor, device_target(facts, nvrtc));
    const std::string now = index < nvml.devices.size() ? reading_text(nvml.devices[index]) : "";
    if (!now.empty()) text += fmt::format("          now {}\n", now);
  }
  text += nvml.problem.empty() ? fmt::format("nvml      {}\n", nvml.path)
                               : fmt::format("nvml      missing: {}; tune works without it, but records no clocks\n", nvml.problem);
  if (nvrtc.problem.empty()) {
    text +=
        fmt::format("nvrtc     {}, {}\n          compiles for {}\n", nvrtc.version, nvrtc.path, architectures_text(nvrtc.architectures));
  } else {
    text += fmt::format("nvrtc     missing: {}\n          fix: {}\n", nvrtc.problem, kNvrtcFix);
  }
  if (options.directory.empty()) text += "store     memory only: no TILEWRIGHT_CACHE_DIR, XDG_CACHE_HOME or HOME\n";
  for (const LayerReport& layer : layers) {
    const bool is_store = !options.directory.empty() && &layer == layers.data();
    const char* state = !is_store         ? (layer.exists ? "read-only" : "missing")
                        : !layer.writable ? "NOT WRITABLE: kernels will be compiled again by every process; fix: set TILEWRIGHT_CACHE_DIR"
                        : layer.exists    ? "writable"
                                          : "will be created";
    const std::string contents = !layer.problem.empty() ? layer.problem
                                                        : fmt::format("{} {}, {}", layer.entries, layer.entries == 1 ? "entry" : "entries",
                                                                      bytes_text(static_cast<double>(layer.bytes)));
    text += fmt::format("{}{}: {}, {}\n", is_store ? "store     " : "layer     ", layer.path, state, contents);
  }
  const bool compiles = nvrtc.problem.empty(), runs = !driver.devices.empty();
  if (compiles && runs) text += "good: kernels can be compiled and run here\n";
  if (compiles && !runs) {
    text += "kernels can be compiled here (show, compile); without a GPU, run uses the CPU (--on host) and bench will not work\n";
  }
  if (!compiles) {
    text += fmt::format("kernels cannot be compiled here: compile, show --what ptx|sass|key|cubin will not work; run {}\n",
                        runs ? "works with kernels already in the store" : "works on the CPU alone (--on host, --on reference)");
  }
  return text;
}

std::string doctor_json(const DriverReport& driver, const NvmlReport& nvml, const NvrtcReport& nvrtc,
                        const std::vector<LayerReport>& layers, const StoreOptions& options) {
  llvm::json::Array devices, stores;
  for (auto [index, facts] : llvm::enumerate(driver.devices)) {
    llvm::json::Object now;
    if (index < nvml.devices.size()) {
      now = reading_json(nvml.devices[index]);
      if (const auto events = nvml.devices[index].clock_events) now["clock_events"] = clock_events_text(*events);
    }
    devices.push_back(llvm::json::Object{{"ordinal", facts.ordinal},
                                         {"name", facts.name},
                                         {"bus_id", facts.bus_id},
                                         {"now", std::move(now)},
                                         {"sm_count", facts.sm_count},
                                         {"memory_bytes", json_count(facts.memory_bytes)},
                                         {"l2_bytes", json_count(facts.l2_bytes)},
                                         {"compute_capability", fmt::format("{}.{}", facts.major, facts.minor)},
                                         {"datasheet_bytes_per_s", json_number(facts.datasheet_bandwidth)},
                                         {"target", device_target(facts, nvrtc)}});
  }
  for (const LayerReport& layer : layers) {
    const bool is_store = !options.directory.empty() && &layer == layers.data();
    stores.push_back(llvm::json::Object{{"path", layer.path},
                                        {"kind", is_store ? "directory" : "layer"},
                                        {"exists", layer.exists},
                                        {"writable", layer.writable},
                                        {"entries", json_count(layer.entries)},
                                        {"bytes", json_count(layer.bytes)},
                                        {"problem", layer.problem}});
  }
  llvm::json::Object driver_json{
      {"found", !driver.path.empty()}, {"path", driver.path}, {"version", driver.version}, {"problem", driver.problem}};
  if (driver.path.empty()) driver_json["fix"] = kDriverFix;
  llvm::json::Object nvrtc_json{{"found", nvrtc.problem.empty()},
                                {"path", nvrtc.path},
                                {"version", nvrtc.version},
                                {"problem", nvrtc.problem},
                                {"architectures", llvm::json::Array(nvrtc.architectures)}};
  if (!nvrtc.problem.empty()) nvrtc_json["fix"] = kNvrtcFix;
  return json_text(llvm::json::Object{{"version", tw_version()},
                                      {"build", build_identity()},
                                      {"driver", std::move(driver_json)},
                                      {"devices", std::move(devices)},
                                      {"nvml", llvm::json::Object{{"path", nvml.path}, {"problem", nvml.problem}}},
                                      {"nvrtc", std::move(nvrtc_json)},
                                      {"store", std::move(stores)},
                                      {"can_compile", nvrtc.problem.empty()},
                                      {"can_run", !driver.devices.empty()}});
}

}  // namespace

Action add_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "print JSON");
  return [json]() -> llvm::Expected<Output> {
    const DriverReport driver = look_at_driver();
    const NvmlReport nvml = look_at_nvml(driver.devices);
    const NvrtcReport nvrtc = look_at_nvrtc();
    const StoreOptions options = StoreOptions::from_environment();
    const std::vector<LayerReport> layers = look_at_store(options);
    Output output;
    output.text = *json ? doctor_json(driver, nvml, nvrtc, layers, options) : doctor_text(driver, nvml, nvrtc, layers, options);
    if (!nvrtc.problem.empty()) {
      output.status = kLacking;
      output.complaint = "no NVRTC: kernels cannot be compiled on this machine";
    }
    return output;
  };
}

}  // namespace tilewright::cli
