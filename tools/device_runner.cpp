#include "tools/device_runner.h"

#include <unistd.h>

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

constexpr std::uint8_t kPoison = 0xFF;          // NaN as a float
constexpr std::uint64_t kFenceBytes = 1 << 12;  // around every buffer; what is written there is found
constexpr double kSampleMs = 3;                 // aimed at length of a sample
constexpr std::uint64_t kMostRuns = 64;         // launches in one graph
constexpr std::size_t kMostLoaded = 48;         // candidates kept
constexpr std::uint64_t kKeptShare = 8;         // inputs of verifications may use the eighth part of free memory

llvm::ArrayRef<std::uint8_t> bytes_of(const HostTensor& tensor) {
  return {reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()), tensor.bytes.size()};
}

std::uint64_t total_bytes(llvm::ArrayRef<HostTensor> tensors) {
  std::uint64_t bytes = 0;
  for (const HostTensor& tensor : tensors) bytes += tensor.bytes.size() + 2 * kFenceBytes;
  return bytes;
}

// Nothing where there is no NVML or it does not know the device: then no conditions are recorded.
std::optional<DeviceSensor> find_sensor(const DeviceFacts& facts) {
  auto nvml = tilewright::nvml();
  if (!nvml) {
    llvm::consumeError(nvml.takeError());
    return std::nullopt;
  }
  auto sensor = DeviceSensor::find(*nvml, facts.bus_id);
  if (!sensor) {
    llvm::consumeError(sensor.takeError());
    return std::nullopt;
  }
  return *sensor;
}

}  // namespace

llvm::Expected<TimingPolicy> parse_timing_policy(llvm::StringRef name) {
  if (name == "cold") return TimingPolicy::kCold;
  if (name == "warm") return TimingPolicy::kWarm;
  if (name == "plain") return TimingPolicy::kPlain;
  return make_error(Status::kInvalidArgument, "timing policy {}: wanted cold, warm or plain", name);
}

struct DeviceRunner::Fenced {
  DeviceBuffer memory;
  std::uint64_t begin = 0, bytes = 0;
  CUdeviceptr pointer() const { return bytes == 0 ? 0 : memory.pointer() + begin; }
};

struct DeviceRunner::Loaded {
  std::unique_ptr<Program> program;
  // From here on for timing alone.
  bool timing = false;
  DeviceBuffer workspace;
  std::uint64_t runs = 1;  // in the graph
  GraphExec graph;
  llvm::Error launch(const DeviceRunner& runner, CUstream stream) const {
    return program->launch(runner.inputs_, runner.outputs_, {workspace.pointer(), static_cast<std::int64_t>(workspace.bytes())},
                           runner.dims_, stream);
  }
};

DeviceRunner::DeviceRunner(DeviceSession& session, Builder& builder, const Graph& graph, llvm::ArrayRef<std::int64_t> dims,
                           CompileOptions options, TimingPolicy policy, Timer timer)
    : session_(session),
      builder_(builder),
      graph_(graph),
      dims_(dims),
      options_(std::move(options)),
      policy_(policy),
      timer_(std::move(timer)),
      sensor_(find_sensor(session.facts)) {}

DeviceRunner::~DeviceRunner() = default;

llvm::Expected<std::unique_ptr<DeviceRunner>> DeviceRunner::create(DeviceSession& session, Builder& builder, const Graph& graph,
                                                                   llvm::ArrayRef<std::int64_t> dims, CompileOptions options,
                                                                   TimingPolicy policy) {
  auto timer = Timer::create(*session.driver);
  if (!timer) return timer.takeError();
  options.device = device_model(session.target);
  std::unique_ptr<DeviceRunner> runner(new DeviceRunner(session, builder, graph, dims, std::move(options), policy, std::move(*timer)));
  if (llvm::Error error = runner->make_buffers()) return error;
  std::size_t free_bytes = 0, all_bytes = 0;
  if (llvm::Error error = session.driver->check(session.driver->mem_get_info(&free_bytes, &all_bytes), "asking for free device memory"))
    return error;
  runner->may_keep_bytes_ = free_bytes / kKeptShare;
  return runner;
}

llvm::Error DeviceRunner::make_buffers() {
  auto add = [&](ValueId id, const HostTensor* data, llvm::SmallVectorImpl<CUdeviceptr>& pointers) -> llvm::Error {
    const Value& value = graph_.value(id);
    const TensorSpec spec{value.name, value.dtype, value.shape, value.strides};
    auto buffer = DeviceBuffer::allocate(*session_.driver, static_cast<std::uint64_t>(storage_bytes(spec, dims_)));
    if (!buffer) return buffer.takeError();
    if (data != nullptr && buffer->bytes() != 0) {
      if (llvm::Error error = buffer->upload(bytes_of(*data))) return error;
      if (llvm::Error error = session_.context.synchronize()) return error;
    }
    pointers.push_back(buffer->pointer());
    buffers_.push_back(std::move(*buffer));
    return llvm::Error::success();
  };
  for (auto [index, id] : llvm::enumerate(graph_.inputs())) {
    const HostTensor data = random_input(graph_, id, dims_, 1 + index);
    if (llvm::Error error = add(id, &data, inputs_)) return error;
  }
  for (ValueId id : graph_.outputs()) {
    if (llvm::Error error = add(id, nullptr, outputs_)) return error;
  }
  return llvm::Error::success();
}

llvm::Expected<DeviceRunner::Loaded*> DeviceRunner::load(const ConfigOverrides& config) {
  if (auto found = loaded_.find(config); found != loaded_.end()) return found->second.get();
  CompileOptions options = options_;
  options.overrides = config;
  auto compiled = compile_program(graph_, session_.target, builder_, options);
  if (!compiled) return compiled.takeError();
  auto program = load_program(*session_.driver, *compiled);
  if (!program) return program.takeError();
  if (loaded_.size() >= kMostLoaded) loaded_.clear();
  auto candidate = std::make_unique<Loaded>();
  candidate->program = std::move(*program);
  return (loaded_[config] = std::move(candidate)).get();
}

llvm::Expected<DeviceRunner::Fenced> DeviceRunner::make_fenced(std::uint64_t bytes, std::uint64_t shift_bytes) const {
  Fenced fenced;
  auto memory = DeviceBuffer::allocate(*session_.driver, bytes + shift_bytes + 2 * kFenceBytes);
  if (!memory) return memory.takeError();
  fenced.memory = std::move(*memory);
  fenced.begin = kFenceBytes + shift_bytes;
  fenced.bytes = bytes;
  return fenced;
}

llvm::Expected<std::vector<DeviceRunner::Fenced>> DeviceRunner::upload(llvm::ArrayRef<HostTensor> inputs,
                                                                       std::uint32_t shift_elements) const {
  std::vector<Fenced> buffers;
  for (const HostTensor& tensor : inputs) {
    auto fenced = make_fenced(tensor.bytes.size(), std::uint64_t{shift_elements} * dtype_bytes(tensor.dtype));
    if (!fenced) return fenced.takeError();
    if (!tensor.bytes.empty()) {
      if (llvm::Error error = fenced->memory.upload(bytes_of(tensor), nullptr, fenced->begin)) return error;
    }
    buffers.push_back(std::move(*fenced));
  }
  return buffers;
}

llvm::Expected<llvm::SmallVector<CUdeviceptr, 8>> DeviceRunner::inputs_on_device(llvm::ArrayRef<HostTensor> inputs,
                                                                                 std::uint32_t shift_elements, std::vector<Fenced>& own) {
  llvm::ArrayRef<Fenced> buffers;
  auto found = kept_.find(inputs.data());
  if (found != kept_.end() && found->second.shift_elements == shift_elements) {
    buffers = found->second.buffers;
  } else {
    auto uploaded = upload(inputs, shift_elements);
    if (!uploaded) return uploaded.takeError();
    const std::uint64_t bytes = total_bytes(inputs);
    if (found == kept_.end() && !inputs.empty() && bytes <= may_keep_bytes_) {
      may_keep_bytes_ -= bytes;
      Kept& kept = kept_[inputs.data()];
      kept = {shift_elements, std::move(*uploaded)};
      buffers = kept.buffers;
    } else {
      own = std::move(*uploaded);
      buffers = own;
    }
  }
  llvm::SmallVector<CUdeviceptr, 8> pointers;
  for (const Fenced& buffer : buffers) pointers.push_back(buffer.pointer());
  return pointers;
}

llvm::Expected<bool> DeviceRunner::renew(llvm::ArrayRef<HostTensor> inputs) {
  const auto found = kept_.find(inputs.data());
  if (found == kept_.end()) return false;
  bool changed = false;
  for (auto [tensor, buffer] : llvm::zip_equal(inputs, found->second.buffers)) {
    if (tensor.bytes.empty()) continue;
    std::vector<std::uint8_t> now(tensor.bytes.size());
    if (llvm::Error error = buffer.memory.download(now, timer_.stream(), buffer.begin)) return error;
    if (llvm::Error error = timer_.synchronize()) return error;
    if (llvm::ArrayRef<std::uint8_t>(now) == bytes_of(tensor)) continue;
    changed = true;
    if (llvm::Error error = buffer.memory.upload(bytes_of(tensor), timer_.stream(), buffer.begin)) return error;
    if (llvm::Error error = timer_.synchronize()) return error;
  }
  return changed;
}

llvm::Expected<std::vector<HostTensor>> DeviceRunner::run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                                          llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) {
  auto candidate = load(config);
  if (!candidate) return candidate.takeError();
  const Program& program = *(*candidate)->program;
  std::vector<Fenced> own;
  auto input_pointers = inputs_on_device(inputs, shift_elements, own);
  if (!input_pointers) return input_pointers.takeError();
  std::vector<Fenced> outputs;
  llvm::SmallVector<CUdeviceptr, 8> output_pointers;
  for (const TensorSpec& tensor : program.recipe().outputs) {
    auto fenced =
        make_fenced(static_cast<std::uint64_t>(storage_bytes(tensor, dims)), std::uint64_t{shift_elements} * dtype_bytes(tensor.dtype));
    if (!fenced) return fenced.takeError();
    if (llvm::Error error = fenced->memory.fill(kPoison)) return error;
    output_pointers.push_back(fenced->pointer());
    outputs.push_back(std::move(*fenced));
  }
  auto bytes = program.workspace_bytes(dims);
  if (!bytes) return bytes.takeError();
  auto workspace = DeviceBuffer::allocate(*session_.driver, static_cast<std::uint64_t>(*bytes));
  if (!workspace) return workspace.takeError();
  const Workspace scratch{workspace->pointer(), *bytes};
  if (*bytes > 0) {
    if (llvm::Error error = workspace->fill(kPoison)) return error;
  }
  if (llvm::Error error = session_.context.synchronize()) return error;
  if (llvm::Error error = program.initialize_workspace(scratch, dims, timer_.stream())) return error;
  if (llvm::Error error = program.launch(*input_pointers, output_pointers, scratch, dims, timer_.stream())) return error;
  if (llvm::Error error = timer_.synchronize()) return error;
  return take_outputs(program.recipe().outputs, outputs, dims);
}

// Error kKernelFault: a fence was touched.
llvm::Expected<std::vector<HostTensor>> DeviceRunner::take_outputs(llvm::ArrayRef<TensorSpec> specs, llvm::ArrayRef<Fenced> buffers,
                                                                   llvm::ArrayRef<std::int64_t> dims) {
  std::vector<HostTensor> outputs;
  for (auto [tensor, fenced] : llvm::zip_equal(specs, buffers)) {
    if (staging_.size() < fenced.memory.bytes()) staging_.resize(fenced.memory.bytes());
    const llvm::MutableArrayRef<std::uint8_t> all(staging_.data(), fenced.memory.bytes());
    if (llvm::Error error = fenced.memory.download(all, timer_.stream())) return error;
    if (llvm::Error error = timer_.synchronize()) return error;
    std::uint8_t* const begin = staging_.data() + fenced.begin;
    std::uint8_t* const end = begin + fenced.bytes;
    auto touched = [](std::uint8_t byte) { return byte != kPoison; };
    if (std::any_of(staging_.data(), begin, touched) || std::any_of(end, staging_.data() + all.size(), touched))
      return make_error(Status::kKernelFault, "{}: the kernel wrote outside of it", tensor.name);
    HostTensor host;
    host.dtype = tensor.dtype;
    host.shape = concrete_shape(tensor.shape, dims);
    host.strides = row_major_strides(host.shape);
    const auto* const bytes = reinterpret_cast<const std::byte*>(begin);
    host.bytes.assign(bytes, bytes + fenced.bytes);
    outputs.push_back(std::move(host));
  }
  return outputs;
}

// Makes the candidate's workspace, warms it up, and captures its launches in a graph.
llvm::Error DeviceRunner::prepare_timing(Loaded& candidate) {
  if (candidate.timing) return llvm::Error::success();
  auto bytes = candidate.program->workspace_bytes(dims_);
  if (!bytes) return bytes.takeError();
  auto workspace = DeviceBuffer::allocate(*session_.driver, static_cast<std::uint64_t>(*bytes));
  if (!workspace) return workspace.takeError();
  candidate.workspace = std::move(*workspace);
  const Workspace scratch{candidate.workspace.pointer(), *bytes};
  if (llvm::Error error = candidate.program->initialize_workspace(scratch, dims_, timer_.stream())) return error;
  auto once = [&](CUstream stream) -> llvm::Error {
    if (policy_ != TimingPolicy::kWarm) {
      if (llvm::Error error = timer_.flush()) return error;
    }
    return candidate.launch(*this, stream);
  };
  if (llvm::Error error = once(timer_.stream())) return error;
  auto estimate_ms = timer_.time_ms(once);
  if (!estimate_ms) return estimate_ms.takeError();
  candidate.runs = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(kSampleMs / std::max(*estimate_ms, 1e-3)), 1, kMostRuns);
  auto capture = [&](Launch work) {
    return GraphExec::capture(*session_.driver, timer_.stream(), [&]() -> llvm::Error {
      for (std::uint64_t run = 0; run < candidate.runs; ++run) {
        if (llvm::Error error = work(timer_.stream())) return error;
      }
      return llvm::Error::success();
    });
  };
  if (policy_ != TimingPolicy::kPlain) {
    auto graph = capture(once);
    if (!graph) return graph.takeError();
    candidate.graph = std::move(*graph);
  }
  if (policy_ == TimingPolicy::kCold && flushes_.count(candidate.runs) == 0) {
    auto alone = capture([&](CUstream) { return timer_.flush(); });
    if (!alone) return alone.takeError();
    flushes_.emplace(candidate.runs, std::move(*alone));
  }
  candidate.timing = true;
  return llvm::Error::success();
}

// After a pause (a verification is compared on the CPU meanwhile) the clocks may have to rise again: samples that nobody takes.
llvm::Error DeviceRunner::warm_up(Loaded& candidate) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPause{50}, kWarm{20};
  const auto now = Clock::now();
  if (now - last_sample_ < kPause) return llvm::Error::success();
  std::vector<DeviceReading> unused;
  do {
    auto us = sample(candidate, unused);
    if (!us) return us.takeError();
  } while (Clock::now() - now < kWarm);
  return llvm::Error::success();
}

llvm::Expected<double> DeviceRunner::sample(Loaded& candidate, std::vector<DeviceReading>& during) {
  auto read = [&] {
    if (sensor_) during.push_back(sensor_->read());
  };
  if (policy_ == TimingPolicy::kPlain) {
    if (llvm::Error error = timer_.flush()) return error;
    auto ms = timer_.time_ms([&](CUstream stream) { return candidate.launch(*this, stream); }, read);
    if (!ms) return ms.takeError();
    return *ms * 1e3;
  }
  double alone_ms = 0;
  if (policy_ == TimingPolicy::kCold) {
    auto alone = timer_.time_ms([&](CUstream stream) { return flushes_.at(candidate.runs).launch(stream); });
    if (!alone) return alone.takeError();
    alone_ms = *alone;
  }
  auto together = timer_.time_ms([&](CUstream stream) { return candidate.graph.launch(stream); }, read);
  if (!together) return together.takeError();
  // What is shorter than the spread of the flushes still is a positive time.
  constexpr double kLeastUs = 1e-2;
  return std::max(kLeastUs, (*together - alone_ms) * 1e3 / static_cast<double>(candidate.runs));
}

llvm::Expected<TimedSamples> DeviceRunner::time(const ConfigOverrides& config, unsigned samples) {
  auto candidate = load(config);
  if (!candidate) return candidate.takeError();
  if (llvm::Error error = prepare_timing(**candidate)) return error;
  TimedSamples timed;
  if (sensor_) {
    timed.before = sensor_->read_all();
    if (timed.before->processes) timed.before->processes = other_processes(*timed.before->processes, static_cast<unsigned>(::getpid()));
  }
  if (llvm::Error error = warm_up(**candidate)) return error;
  for (unsigned i = 0; i < samples; ++i) {
    auto us = sample(**candidate, timed.during);
    if (!us) return us.takeError();
    timed.us.push_back(*us);
  }
  last_sample_ = std::chrono::steady_clock::now();
  return timed;
}

}  // namespace tilewright::cli
