#include "runtime/device.h"

#include <array>

#include "llvm/ADT/StringExtras.h"

namespace tilewright {
namespace {

struct DatasheetRow {
  llvm::StringLiteral name;  // beginning of the driver's name of the device
  double bytes_per_s;
};

// NVIDIA's product datasheets. The first row that the name begins with counts, so longer names stand before shorter ones.
constexpr std::array kDatasheet = {
    DatasheetRow{"NVIDIA GH200 144G", 4.9e12},
    DatasheetRow{"NVIDIA GH200 480GB", 4.0e12},
    DatasheetRow{"NVIDIA H200", 4.8e12},
    DatasheetRow{"NVIDIA H100 NVL", 3.9e12},
    DatasheetRow{"NVIDIA H100 PCIe", 2.0e12},
    DatasheetRow{"NVIDIA H100", 3.35e12},
    DatasheetRow{"NVIDIA H20", 4.0e12},
    DatasheetRow{"NVIDIA B300", 8.0e12},
    DatasheetRow{"NVIDIA GB300", 8.0e12},
    DatasheetRow{"NVIDIA GB200", 8.0e12},
    DatasheetRow{"NVIDIA B200", 8.0e12},
    DatasheetRow{"NVIDIA A100-SXM4-80GB", 2.039e12},
    DatasheetRow{"NVIDIA A100 80GB PCIe", 1.935e12},
    DatasheetRow{"NVIDIA A100", 1.555e12},
    DatasheetRow{"NVIDIA L40S", 0.864e12},
    DatasheetRow{"NVIDIA GeForce RTX 5090", 1.792e12},
    DatasheetRow{"NVIDIA GeForce RTX 4090", 1.008e12},
};

}  // namespace

std::optional<double> datasheet_bandwidth(llvm::StringRef name) {
  for (const DatasheetRow& row : kDatasheet) {
    // A digit or letter after the row's name makes another product of it ("NVIDIA H2000").
    if (name.starts_with(row.name) && (name.size() == row.name.size() || !llvm::isAlnum(name[row.name.size()]))) return row.bytes_per_s;
  }
  return std::nullopt;
}

llvm::Expected<int> device_count(const Driver& driver) {
  int count = 0;
  const CUresult result = driver.device_get_count(&count);
  if (result == CUDA_ERROR_NO_DEVICE) return 0;
  if (auto error = driver.check(result, "counting devices")) return error;
  return count;
}

llvm::Expected<DeviceFacts> device_facts(const Driver& driver, int ordinal) {
  auto count = device_count(driver);
  if (!count) return count.takeError();
  if (ordinal < 0 || ordinal >= *count) return make_error(Status::kMissing, "device {}: there are {}, numbered from 0", ordinal, *count);
  DeviceFacts facts;
  facts.ordinal = ordinal;
  CUdevice device = 0;
  if (auto error = driver.check(driver.device_get(&device, ordinal), fmt::format("device {}", ordinal))) return error;
  std::array<char, 256> name{};
  if (auto error = driver.check(driver.device_get_name(name.data(), static_cast<int>(name.size() - 1), device), "name of a device")) {
    return error;
  }
  facts.name = name.data();
  std::size_t memory = 0;
  if (auto error = driver.check(driver.device_total_mem(&memory, device), "memory of a device")) return error;
  facts.memory_bytes = memory;

  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return driver.device_get_attribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
  };
  facts.bus_id = fmt::format("{:08x}:{:02x}:{:02x}.0", attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                             attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  facts.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  facts.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.l2_bytes = static_cast<std::uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  // Two transfers a clock (CUDA programming guide, device properties); clock in kHz, width in bits.
  facts.bus_bandwidth =
      2.0 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3 * attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  facts.datasheet_bandwidth = datasheet_bandwidth(facts.name).value_or(facts.bus_bandwidth);
  return facts;
}

llvm::Expected<Context> Context::primary(const Driver& driver, int ordinal) {
  auto count = device_count(driver);
  if (!count) return count.takeError();
  if (ordinal < 0 || ordinal >= *count) return make_error(Status::kMissing, "device {}: there are {}, numbered from 0", ordinal, *count);
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (auto error = driver.check(driver.device_get(&device, ordinal), fmt::format("device {}", ordinal))) return error;
  if (auto error = driver.check(driver.device_primary_ctx_retain(&context, device), fmt::format("primary context of device {}", ordinal))) {
    return error;
  }
  return Context(driver, context, device, true);
}

llvm::Expected<Context> Context::current(const Driver& driver) {
  CUcontext context = nullptr;
  if (auto error = driver.check(driver.ctx_get_current(&context), "current context")) return error;
  if (!context) return make_error(Status::kInvalidArgument, "context: none is current on this thread");
  CUdevice device = 0;
  if (auto error = driver.check(driver.ctx_get_device(&device), "device of the current context")) return error;
  return Context(driver, context, device, false);
}

Context::Context(Context&& other) noexcept
    : driver_(other.driver_), handle_(other.handle_), device_(other.device_), owned_(std::exchange(other.owned_, false)) {}

Context& Context::operator=(Context&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(handle_, other.handle_);
  std::swap(device_, other.device_);
  std::swap(owned_, other.owned_);
  return *this;
}

Context::~Context() {
  if (owned_) driver_->device_primary_ctx_release(device_);
}

llvm::Error Context::synchronize() const {
  auto scope = ContextScope::enter(*driver_, handle_);
  if (!scope) return scope.takeError();
  return driver_->check(driver_->ctx_synchronize(), "waiting for the device");
}

llvm::Expected<std::uint64_t> context_id(const Driver& driver, CUcontext context) {
  unsigned long long id = 0;
  if (auto error = driver.check(driver.ctx_get_id(context, &id), "identity of a context")) return error;
  return id;
}

llvm::Expected<ContextScope> ContextScope::enter(const Driver& driver, CUcontext context) {
  CUcontext current = nullptr;
  if (auto error = driver.check(driver.ctx_get_current(&current), "current context")) return error;
  if (current == context) return ContextScope(nullptr);
  if (auto error = driver.check(driver.ctx_push_current(context), "making a context current")) return error;
  return ContextScope(&driver);
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (driver_) driver_->ctx_pop_current(&popped);
}

llvm::Expected<DeviceBuffer> DeviceBuffer::allocate(const Driver& driver, std::uint64_t bytes) {
  DeviceBuffer buffer;
  buffer.bytes_ = bytes;
  CUdeviceptr pointer = 0;
  if (bytes > 0) {
    const CUresult result = driver.mem_alloc(&pointer, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      std::size_t free_bytes = 0, total_bytes = 0;
      driver.mem_get_info(&free_bytes, &total_bytes);
      return make_error(Status::kOutOfMemory, "device memory: {} bytes asked for, {} free of {}", bytes, free_bytes, total_bytes);
    }
    if (auto error = driver.check(result, fmt::format("allocating {} bytes of device memory", bytes))) return error;
  }
  buffer.memory_ = {driver, pointer};
  return buffer;
}

static llvm::Error check_range(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
  if (offset <= size && bytes <= size - offset) return llvm::Error::success();
  return make_error(Status::kInvalidArgument, "device memory: {} bytes at {} do not fit in a buffer of {}", bytes, offset, size);
}

llvm::Error DeviceBuffer::upload(llvm::ArrayRef<std::uint8_t> data, CUstream stream, std::uint64_t offset) {
  if (auto error = check_range(offset, data.size(), bytes_)) return error;
  if (data.empty()) return llvm::Error::success();
  const Driver& driver = memory_.driver();
  return driver.check(driver.memcpy_to_device_async(pointer() + offset, data.data(), data.size(), stream), "copying to the device");
}

llvm::Error DeviceBuffer::download(llvm::MutableArrayRef<std::uint8_t> data, CUstream stream, std::uint64_t offset) const {
  if (auto error = check_range(offset, data.size(), bytes_)) return error;
  if (data.empty()) return llvm::Error::success();
  const Driver& driver = memory_.driver();
  return driver.check(driver.memcpy_to_host_async(data.data(), pointer() + offset, data.size(), stream), "copying from the device");
}

llvm::Error DeviceBuffer::fill(std::uint8_t value, CUstream stream) {
  if (bytes_ == 0) return llvm::Error::success();
  return fill_async(memory_.driver(), pointer(), value, bytes_, stream);
}

llvm::Expected<Stream> Stream::create(const Driver& driver) {
  CUstream handle = nullptr;
  if (auto error = driver.check(driver.stream_create(&handle, CU_STREAM_NON_BLOCKING), "creating a stream")) return error;
  Stream stream;
  stream.stream_ = {driver, handle};
  return stream;
}

llvm::Error Stream::synchronize() const {
  return stream_.driver().check(stream_.driver().stream_synchronize(handle()), "waiting for a stream");
}

llvm::Expected<Event> Event::create(const Driver& driver) {
  CUevent handle = nullptr;
  if (auto error = driver.check(driver.event_create(&handle, CU_EVENT_DEFAULT), "creating an event")) return error;
  Event event;
  event.event_ = {driver, handle};
  return event;
}

llvm::Error Event::record(CUstream stream) const {
  return event_.driver().check(event_.driver().event_record(handle(), stream), "recording an event");
}

llvm::Error Event::synchronize() const {
  return event_.driver().check(event_.driver().event_synchronize(handle()), "waiting for an event");
}

llvm::Expected<double> Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  const Driver& driver = event_.driver();
  if (auto error = driver.check(driver.event_elapsed_time(&milliseconds, start.handle(), handle()), "time between events")) return error;
  return milliseconds;
}

llvm::Expected<GraphExec> GraphExec::capture(const Driver& driver, CUstream stream, llvm::function_ref<llvm::Error()> work) {
  if (auto error = driver.check(driver.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "beginning a capture")) {
    return error;
  }
  llvm::Error work_error = work();
  CUgraph graph = nullptr;
  const CUresult ended = driver.stream_end_capture(stream, &graph);
  if (work_error || ended != CUDA_SUCCESS) {
    if (graph) driver.graph_destroy(graph);
    if (work_error) return work_error;
    return driver.check(ended, "ending a capture");
  }
  CUgraphExec exec = nullptr;
  const CUresult instantiated = driver.graph_instantiate(&exec, graph, 0);
  driver.graph_destroy(graph);
  if (auto error = driver.check(instantiated, "instantiating a graph")) return error;
  GraphExec result;
  result.exec_ = {driver, exec};
  return result;
}

llvm::Error GraphExec::launch(CUstream stream) const {
  return exec_.driver().check(exec_.driver().graph_launch(exec_.handle(), stream), "launching a graph");
}

llvm::Error fill_async(const Driver& driver, CUdeviceptr pointer, std::uint8_t value, std::uint64_t bytes, CUstream stream) {
  if (bytes == 0) return llvm::Error::success();
  return driver.check(driver.memset_d8_async(pointer, value, bytes, stream), "filling device memory");
}

llvm::Expected<bool> is_capturing(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (auto error = driver.check(driver.stream_is_capturing(stream, &status), "capture status of a stream")) return error;
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace tilewright
