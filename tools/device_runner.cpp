#include "tools/device_runner.h"

#include <algorithm>

#include "autotune/timer.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

constexpr std::uint8_t kPoison = 0xFF;          // NaN as a float
constexpr std::uint64_t kFenceBytes = 1 << 12;  // around every buffer; what is written there is found
constexpr double kSampleMs = 3;                 // aimed at length of a sample
constexpr std::uint64_t kMostRuns = 64;         // launches in one graph
constexpr std::size_t kMostLoaded = 48;         // candidates kept for timing

// A buffer between two fences.
struct Fenced {
  DeviceBuffer memory;
  std::uint64_t begin = 0, bytes = 0;
  CUdeviceptr pointer() const { return bytes == 0 ? 0 : memory.pointer() + begin; }
};

llvm::Expected<Fenced> make_fenced(const Driver& driver, std::uint64_t bytes, std::uint64_t shift_bytes) {
  Fenced fenced;
  auto memory = DeviceBuffer::allocate(driver, bytes + shift_bytes + 2 * kFenceBytes);
  if (!memory) return memory.takeError();
  fenced.memory = std::move(*memory);
  fenced.begin = kFenceBytes + shift_bytes;
  fenced.bytes = bytes;
  return fenced;
}

llvm::ArrayRef<std::uint8_t> bytes_of(const HostTensor& tensor) {
  return {reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()), tensor.bytes.size()};
}

}  // namespace

llvm::Expected<TimingPolicy> parse_timing_policy(llvm::StringRef name) {
  if (name == "cold") return TimingPolicy::kCold;
  if (name == "warm") return TimingPolicy::kWarm;
  if (name == "plain") return TimingPolicy::kPlain;
  return make_error(Status::kInvalidArgument, "timing policy {}: wanted cold, warm or plain", name);
}

struct DeviceRunner::Timed {
  std::unique_ptr<Program> program;
  DeviceBuffer workspace;
  std::uint64_t runs = 1;  // in the graph
  GraphExec graph;
  llvm::Error launch(const DeviceRunner& runner, CUstream stream) const {
    return program->launch(runner.inputs_, runner.outputs_, {workspace.pointer(), static_cast<std::int64_t>(workspace.bytes())},
                           runner.dims_, stream);
  }
};

DeviceRunner::DeviceRunner(DeviceSession& session, Builder& builder, const Graph& graph, llvm::ArrayRef<std::int64_t> dims,
                           CompileOptions options, TimingPolicy policy, Stream stream, Event start, Event end, DeviceBuffer flush)
    : session_(session),
      builder_(builder),
      graph_(graph),
      dims_(dims),
      options_(std::move(options)),
      policy_(policy),
      stream_(std::move(stream)),
      start_(std::move(start)),
      end_(std::move(end)),
      flush_(std::move(flush)) {}

DeviceRunner::~DeviceRunner() = default;

llvm::Expected<std::unique_ptr<DeviceRunner>> DeviceRunner::create(DeviceSession& session, Builder& builder, const Graph& graph,
                                                                   llvm::ArrayRef<std::int64_t> dims, CompileOptions options,
                                                                   TimingPolicy policy) {
  const Driver& driver = *session.driver;
  auto stream = Stream::create(driver);
  if (!stream) return stream.takeError();
  auto start = Event::create(driver);
  if (!start) return start.takeError();
  auto end = Event::create(driver);
  if (!end) return end.takeError();
  auto flush = DeviceBuffer::allocate(driver, Timer::kFlushBytes);
  if (!flush) return flush.takeError();
  options.device = device_model(session.target);
  std::unique_ptr<DeviceRunner> runner(new DeviceRunner(session, builder, graph, dims, std::move(options), policy, std::move(*stream),
                                                        std::move(*start), std::move(*end), std::move(*flush)));
  if (llvm::Error error = runner->make_buffers()) return error;
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

llvm::Expected<std::unique_ptr<Program>> DeviceRunner::load(const ConfigOverrides& config) {
  CompileOptions options = options_;
  options.overrides = config;
  auto compiled = compile_program(graph_, session_.target, builder_, options);
  if (!compiled) return compiled.takeError();
  return load_program(*session_.driver, *compiled);
}

llvm::Expected<std::vector<HostTensor>> DeviceRunner::run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                                          llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) {
  const Driver& driver = *session_.driver;
  auto program = load(config);
  if (!program) return program.takeError();
  std::vector<Fenced> buffers;
  llvm::SmallVector<CUdeviceptr, 8> input_pointers, output_pointers;
  for (const HostTensor& tensor : inputs) {
    auto fenced = make_fenced(driver, tensor.bytes.size(), std::uint64_t{shift_elements} * dtype_bytes(tensor.dtype));
    if (!fenced) return fenced.takeError();
    if (!tensor.bytes.empty()) {
      if (llvm::Error error = fenced->memory.upload(bytes_of(tensor), nullptr, fenced->begin)) return error;
    }
    input_pointers.push_back(fenced->pointer());
    buffers.push_back(std::move(*fenced));
  }
  for (const TensorSpec& tensor : (*program)->recipe().outputs) {
    auto fenced = make_fenced(driver, static_cast<std::uint64_t>(storage_bytes(tensor, dims)),
                              std::uint64_t{shift_elements} * dtype_bytes(tensor.dtype));
    if (!fenced) return fenced.takeError();
    if (llvm::Error error = fenced->memory.fill(kPoison)) return error;
    output_pointers.push_back(fenced->pointer());
    buffers.push_back(std::move(*fenced));
  }
  auto bytes = (*program)->workspace_bytes(dims);
  if (!bytes) return bytes.takeError();
  auto workspace = DeviceBuffer::allocate(driver, static_cast<std::uint64_t>(*bytes));
  if (!workspace) return workspace.takeError();
  const Workspace scratch{workspace->pointer(), *bytes};
  if (*bytes > 0) {
    if (llvm::Error error = workspace->fill(kPoison)) return error;
  }
  if (llvm::Error error = session_.context.synchronize()) return error;
  if (llvm::Error error = (*program)->initialize_workspace(scratch, dims, stream_.handle())) return error;
  if (llvm::Error error = (*program)->launch(input_pointers, output_pointers, scratch, dims, stream_.handle())) return error;
  if (llvm::Error error = stream_.synchronize()) return error;

  std::vector<HostTensor> outputs;
  for (auto [index, tensor] : llvm::enumerate((*program)->recipe().outputs)) {
    Fenced& fenced = buffers[inputs.size() + index];
    std::vector<std::uint8_t> all(fenced.memory.bytes());
    if (llvm::Error error = fenced.memory.download(all, stream_.handle())) return error;
    if (llvm::Error error = stream_.synchronize()) return error;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(fenced.begin), end = begin + static_cast<std::ptrdiff_t>(fenced.bytes);
    auto touched = [](std::uint8_t byte) { return byte != kPoison; };
    if (std::any_of(all.begin(), begin, touched) || std::any_of(end, all.end(), touched))
      return make_error(Status::kKernelFault, "{}: the kernel wrote outside of it", tensor.name);
    HostTensor host = HostTensor::make(tensor.dtype, concrete_shape(tensor.shape, dims));
    std::copy(begin, end, reinterpret_cast<std::uint8_t*>(host.bytes.data()));
    outputs.push_back(std::move(host));
  }
  return outputs;
}

llvm::Error DeviceRunner::flush(CUstream stream) { return fill_async(*session_.driver, flush_.pointer(), 0, Timer::kFlushBytes, stream); }

llvm::Expected<double> DeviceRunner::time_ms(llvm::function_ref<llvm::Error(CUstream)> work) {
  if (llvm::Error error = start_.record(stream_.handle())) return error;
  if (llvm::Error error = work(stream_.handle())) return error;
  if (llvm::Error error = end_.record(stream_.handle())) return error;
  if (llvm::Error error = stream_.synchronize()) return error;
  return end_.milliseconds_since(start_);
}

// Loads and warms a candidate and captures its launches in a graph.
llvm::Expected<DeviceRunner::Timed*> DeviceRunner::timed(const ConfigOverrides& config) {
  if (auto found = loaded_.find(config); found != loaded_.end()) return found->second.get();
  if (loaded_.size() >= kMostLoaded) loaded_.clear();
  auto candidate = std::make_unique<Timed>();
  auto program = load(config);
  if (!program) return program.takeError();
  candidate->program = std::move(*program);
  auto bytes = candidate->program->workspace_bytes(dims_);
  if (!bytes) return bytes.takeError();
  auto workspace = DeviceBuffer::allocate(*session_.driver, static_cast<std::uint64_t>(*bytes));
  if (!workspace) return workspace.takeError();
  candidate->workspace = std::move(*workspace);
  if (llvm::Error error = candidate->program->initialize_workspace({candidate->workspace.pointer(), *bytes}, dims_, stream_.handle()))
    return error;
  auto once = [&](CUstream stream) -> llvm::Error {
    if (policy_ != TimingPolicy::kWarm) {
      if (llvm::Error error = flush(stream)) return error;
    }
    return candidate->launch(*this, stream);
  };
  if (llvm::Error error = once(stream_.handle())) return error;
  auto estimate = time_ms(once);
  if (!estimate) return estimate.takeError();
  candidate->runs = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(kSampleMs / std::max(*estimate, 1e-3)), 1, kMostRuns);
  if (policy_ != TimingPolicy::kPlain) {
    auto capture = [&](bool with_work) {
      return GraphExec::capture(*session_.driver, stream_.handle(), [&]() -> llvm::Error {
        for (std::uint64_t run = 0; run < candidate->runs; ++run) {
          if (llvm::Error error = with_work ? once(stream_.handle()) : flush(stream_.handle())) return error;
        }
        return llvm::Error::success();
      });
    };
    auto graph = capture(true);
    if (!graph) return graph.takeError();
    candidate->graph = std::move(*graph);
    if (policy_ == TimingPolicy::kCold && flushes_.count(candidate->runs) == 0) {
      auto alone = capture(false);
      if (!alone) return alone.takeError();
      flushes_.emplace(candidate->runs, std::move(*alone));
    }
  }
  return (loaded_[config] = std::move(candidate)).get();
}

llvm::Expected<double> DeviceRunner::sample(Timed& candidate) {
  if (policy_ == TimingPolicy::kPlain) {
    if (llvm::Error error = flush(stream_.handle())) return error;
    auto ms = time_ms([&](CUstream stream) { return candidate.launch(*this, stream); });
    if (!ms) return ms.takeError();
    return *ms * 1e3;
  }
  double alone_ms = 0;
  if (policy_ == TimingPolicy::kCold) {
    auto alone = time_ms([&](CUstream stream) { return flushes_.at(candidate.runs).launch(stream); });
    if (!alone) return alone.takeError();
    alone_ms = *alone;
  }
  auto together = time_ms([&](CUstream stream) { return candidate.graph.launch(stream); });
  if (!together) return together.takeError();
  // What is shorter than the spread of the flushes still is a positive time.
  constexpr double kLeastUs = 1e-2;
  return std::max(kLeastUs, (*together - alone_ms) * 1e3 / static_cast<double>(candidate.runs));
}

llvm::Expected<std::vector<double>> DeviceRunner::time(const ConfigOverrides& config, unsigned samples) {
  auto candidate = timed(config);
  if (!candidate) return candidate.takeError();
  std::vector<double> times;
  for (unsigned i = 0; i < samples; ++i) {
    auto us = sample(**candidate);
    if (!us) return us.takeError();
    times.push_back(*us);
  }
  return times;
}

}  // namespace tilewright::cli
