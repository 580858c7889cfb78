#include "tests/gpu/gpu_fixture.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "tests/codegen/inputs.h"

namespace tilewright::tests {
namespace {

constexpr std::uint64_t kFenceBytes = 512;  // on both sides of every tensor, poisoned and looked at afterwards
constexpr std::uint8_t kPoison = 0xFF;

// Device memory of one tensor with its fences.
struct FencedBuffer {
  DeviceBuffer memory;
  std::uint64_t begin = 0, bytes = 0;

  static FencedBuffer make(const Driver& driver, std::uint64_t bytes, std::uint64_t shift) {
    FencedBuffer buffer;
    buffer.memory = value_of(DeviceBuffer::allocate(driver, bytes + 2 * kFenceBytes + shift));
    buffer.begin = kFenceBytes + shift;
    buffer.bytes = bytes;
    succeed(buffer.memory.fill(kPoison));
    return buffer;
  }
  CUdeviceptr pointer() const { return memory.pointer() + begin; }
  std::vector<std::uint8_t> download(const Driver& driver) const {
    std::vector<std::uint8_t> all(memory.bytes());
    succeed(memory.download(all));
    succeed(driver.check(driver.ctx_synchronize(), "waiting"));
    return all;
  }
  bool fences_hold(llvm::ArrayRef<std::uint8_t> all) const {
    return llvm::all_of(all.take_front(begin), [](std::uint8_t b) { return b == kPoison; }) &&
           llvm::all_of(all.drop_front(begin + bytes), [](std::uint8_t b) { return b == kPoison; });
  }
};

struct Outcome {
  std::vector<std::vector<std::uint8_t>> outputs;  // fences included
};

}  // namespace

void succeed(llvm::Error error) {
  if (error) FAIL(take_error_facts(std::move(error)).message);
}

Gpu& Gpu::instance() {
  static std::unique_ptr<Gpu> gpu = [] {
    auto driver = tilewright::driver();
    if (!driver) FAIL(take_error_facts(driver.takeError()).message);
    const DeviceFacts facts = value_of(device_facts(*driver, 0));
    Context context = value_of(Context::primary(*driver, 0));
    ContextScope scope = value_of(ContextScope::enter(*driver, context.handle()));
    const Target target = value_of(target_of_device(facts.major, facts.minor));
    StoreOptions store;  // memory only: every run compiles what it tests
    return std::unique_ptr<Gpu>(new Gpu(*driver, std::move(context), std::move(scope), target, make_builder(store)));
  }();
  return *gpu;
}

void Gpu::check(const std::string& title, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const GpuRun& run) {
  INFO(title << (run.special_values ? ", special values" : "") << (run.shift_elements ? ", misaligned" : "")
             << (run.fuse ? "" : ", unfused") << (run.capture ? ", captured" : ""));
  CompileOptions options;
  options.device = device_model(target_);
  options.plan.fuse = run.fuse;
  options.overrides = run.overrides;
  auto compiled = compile_program(graph, target_, *builder_, options);
  if (!compiled) {
    FAIL_CHECK(take_error_facts(compiled.takeError()).message);
    return;
  }
  const auto program = value_of(load_program(*driver_, *compiled));
  const std::vector<HostTensor> inputs = make_test_inputs(graph, dims, {run.seed, run.low, run.high, run.special_values});
  const std::vector<HostTensor> got = outputs(*program, graph, inputs, dims, run);
  const auto wanted = value_of(evaluate_reference(graph, inputs, dims));
  for (auto [index, id] : llvm::enumerate(graph.outputs())) {
    const Comparison comparison = compare(got[index], wanted[index], default_tolerance(graph, id));
    INFO(comparison_text(comparison));
    CHECK(comparison.passed);
  }
}

std::vector<HostTensor> Gpu::outputs(const Program& program, const Graph& graph, llvm::ArrayRef<HostTensor> inputs,
                                     llvm::ArrayRef<std::int64_t> dims, const GpuRun& run) {
  std::vector<FencedBuffer> input_buffers, output_buffers;
  llvm::SmallVector<CUdeviceptr, 8> input_pointers, output_pointers;
  for (const HostTensor& tensor : inputs) {
    FencedBuffer buffer = FencedBuffer::make(*driver_, tensor.bytes.size(), run.shift_elements * dtype_bytes(tensor.dtype));
    if (!tensor.bytes.empty()) {
      succeed(
          buffer.memory.upload({reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()), tensor.bytes.size()}, nullptr, buffer.begin));
    }
    input_pointers.push_back(buffer.pointer());
    input_buffers.push_back(std::move(buffer));
    succeed(driver_->check(driver_->ctx_synchronize(), "copying inputs"));
  }
  for (const TensorSpec& tensor : program.recipe().outputs) {
    output_buffers.push_back(FencedBuffer::make(*driver_, static_cast<std::uint64_t>(storage_bytes(tensor, dims)),
                                                run.shift_elements * dtype_bytes(tensor.dtype)));
    output_pointers.push_back(output_buffers.back().pointer());
  }
  const std::int64_t workspace_bytes = value_of(program.workspace_bytes(dims));
  DeviceBuffer workspace = value_of(DeviceBuffer::allocate(*driver_, static_cast<std::uint64_t>(workspace_bytes)));
  const Workspace scratch{workspace.pointer(), workspace_bytes};
  if (workspace_bytes > 0) succeed(workspace.fill(kPoison));
  const Stream stream = value_of(Stream::create(*driver_));
  succeed(driver_->check(driver_->ctx_synchronize(), "filling"));
  succeed(program.initialize_workspace(scratch, dims, stream.handle()));
  auto submit = [&] { return program.launch(input_pointers, output_pointers, scratch, dims, stream.handle()); };
  GraphExec exec;
  if (run.capture) exec = value_of(GraphExec::capture(*driver_, stream.handle(), submit));

  std::vector<Outcome> outcomes(2);
  for (Outcome& outcome : outcomes) {
    for (FencedBuffer& buffer : output_buffers) succeed(buffer.memory.fill(kPoison, stream.handle()));
    succeed(run.capture ? exec.launch(stream.handle()) : submit());
    succeed(stream.synchronize());
    for (const FencedBuffer& buffer : output_buffers) outcome.outputs.push_back(buffer.download(*driver_));
  }
  CHECK(outcomes[0].outputs == outcomes[1].outputs);

  std::vector<HostTensor> results;
  for (auto [index, id] : llvm::enumerate(graph.outputs())) {
    const FencedBuffer& buffer = output_buffers[index];
    const auto& all = outcomes[0].outputs[index];
    CHECK(buffer.fences_hold(all));
    HostTensor got = HostTensor::make(graph.value(id).dtype, concrete_shape(graph.value(id).shape, dims));
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(buffer.begin), got.bytes.size(),
                reinterpret_cast<std::uint8_t*>(got.bytes.data()));
    results.push_back(std::move(got));
  }
  return results;
}

}  // namespace tilewright::tests
