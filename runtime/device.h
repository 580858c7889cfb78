// What a device is, and owners of driver objects: contexts, memory, streams, events, graphs. All movable, none copyable; a moved-from
// object owns nothing. Destructors swallow the driver's errors (a context that died takes its objects with it).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/driver.h"

namespace tilewright {

struct DeviceFacts {
  int ordinal = 0;
  std::string name;          // "NVIDIA H200"
  std::string bus_id;        // "00000000:17:00.0": domain, bus, device of PCI
  int major = 0, minor = 0;  // compute capability
  int sm_count = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
  double bus_bandwidth = 0;        // bytes/s, 2 x memory clock x bus width; 0 when the driver does not say
  double datasheet_bandwidth = 0;  // bytes/s by name (datasheet_bandwidth()); bus_bandwidth for a name not in the table
};

// Memory bandwidth in bytes/s as the vendor's datasheet of this device name says; nullopt for an unknown name.
std::optional<double> datasheet_bandwidth(llvm::StringRef name);

// Error kDriver; kMissing for an ordinal that does not exist (says how many do).
llvm::Expected<int> device_count(const Driver& driver);
llvm::Expected<DeviceFacts> device_facts(const Driver& driver, int ordinal);

// A context by reference: a retained primary context (released by the destructor), or the caller's own (not touched).
class Context {
 public:
  static llvm::Expected<Context> primary(const Driver& driver, int ordinal);
  // The context current on this thread; kInvalidArgument when there is none.
  static llvm::Expected<Context> current(const Driver& driver);
  Context(Context&& other) noexcept;
  Context& operator=(Context&& other) noexcept;
  ~Context();
  CUcontext handle() const { return handle_; }
  int ordinal() const { return device_; }
  llvm::Error synchronize() const;

 private:
  Context(const Driver& driver, CUcontext handle, CUdevice device, bool owned)
      : driver_(&driver), handle_(handle), device_(device), owned_(owned) {}
  const Driver* driver_;
  CUcontext handle_;
  CUdevice device_;
  bool owned_;
};

// What tells a context from every other of this process, destroyed ones too: the address of a context may come again. Error kDriver: the
// context is no more.
llvm::Expected<std::uint64_t> context_id(const Driver& driver, CUcontext context);

// Makes a context current on this thread for a scope.
class ContextScope {
 public:
  static llvm::Expected<ContextScope> enter(const Driver& driver, CUcontext context);
  ContextScope(ContextScope&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)) {}
  ContextScope& operator=(ContextScope&&) = delete;
  ~ContextScope();

 private:
  explicit ContextScope(const Driver* driver) : driver_(driver) {}
  const Driver* driver_;  // null: nothing to pop
};

// Owner of one driver handle; Traits says how it is destroyed.
template <typename Handle, typename Traits>
class DriverHandle {
 public:
  DriverHandle() = default;
  DriverHandle(const Driver& driver, Handle handle) : driver_(&driver), handle_(handle) {}
  DriverHandle(DriverHandle&& other) noexcept : driver_(other.driver_), handle_(std::exchange(other.handle_, Handle{})) {}
  DriverHandle& operator=(DriverHandle&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~DriverHandle() {
    if (handle_ != Handle{}) Traits::destroy(*driver_, handle_);
  }
  Handle handle() const { return handle_; }
  const Driver& driver() const { return *driver_; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  const Driver* driver_ = nullptr;
  Handle handle_{};
};

struct DeviceMemoryTraits {
  static void destroy(const Driver& driver, CUdeviceptr pointer) { driver.mem_free(pointer); }
};
struct StreamTraits {
  static void destroy(const Driver& driver, CUstream stream) { driver.stream_destroy(stream); }
};
struct EventTraits {
  static void destroy(const Driver& driver, CUevent event) { driver.event_destroy(event); }
};
struct GraphTraits {
  static void destroy(const Driver& driver, CUgraphExec exec) { driver.graph_exec_destroy(exec); }
};

// Device memory of the context current at its creation, aligned to 256 bytes at least. Zero bytes: pointer() is 0, and that is valid.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Error kOutOfMemory with the bytes asked for and free; kDriver.
  static llvm::Expected<DeviceBuffer> allocate(const Driver& driver, std::uint64_t bytes);
  CUdeviceptr pointer() const { return memory_.handle(); }
  std::uint64_t bytes() const { return bytes_; }
  // Copies of data.size() bytes at `offset`; ordered on `stream`, the host memory must live until they are done.
  // Error kInvalidArgument when they do not fit.
  llvm::Error upload(llvm::ArrayRef<std::uint8_t> data, CUstream stream = nullptr, std::uint64_t offset = 0);
  llvm::Error download(llvm::MutableArrayRef<std::uint8_t> data, CUstream stream = nullptr, std::uint64_t offset = 0) const;
  llvm::Error fill(std::uint8_t value, CUstream stream = nullptr);

 private:
  DriverHandle<CUdeviceptr, DeviceMemoryTraits> memory_;
  std::uint64_t bytes_ = 0;
};

class Stream {
 public:
  // A stream that does not wait for the legacy default stream.
  static llvm::Expected<Stream> create(const Driver& driver);
  CUstream handle() const { return stream_.handle(); }
  llvm::Error synchronize() const;

 private:
  DriverHandle<CUstream, StreamTraits> stream_;
};

class Event {
 public:
  static llvm::Expected<Event> create(const Driver& driver);
  CUevent handle() const { return event_.handle(); }
  llvm::Error record(CUstream stream) const;
  llvm::Error synchronize() const;
  // Milliseconds from `start` to this event; both must have completed.
  llvm::Expected<double> milliseconds_since(const Event& start) const;

 private:
  DriverHandle<CUevent, EventTraits> event_;
};

// Work captured from a stream, ready to be replayed.
class GraphExec {
 public:
  // Captures what `work` submits to `stream` (thread-local capture mode) and instantiates it. An error of `work` ends the capture and is
  // returned.
  static llvm::Expected<GraphExec> capture(const Driver& driver, CUstream stream, llvm::function_ref<llvm::Error()> work);
  llvm::Error launch(CUstream stream) const;

 private:
  DriverHandle<CUgraphExec, GraphTraits> exec_;
};

// Fills `bytes` bytes; ordered on the stream.
llvm::Error fill_async(const Driver& driver, CUdeviceptr pointer, std::uint8_t value, std::uint64_t bytes, CUstream stream);
// True while `stream` records a graph.
llvm::Expected<bool> is_capturing(const Driver& driver, CUstream stream);

}  // namespace tilewright
