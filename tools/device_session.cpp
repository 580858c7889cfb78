#include "tools/device_session.h"

#include "autotune/use_records.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

// What the compiler can compile for; empty when it cannot be asked.
std::vector<int> compiler_numbers(Builder& builder) {
  auto nvrtc = builder.nvrtc();
  if (!nvrtc) {
    llvm::consumeError(nvrtc.takeError());
    return {};
  }
  auto numbers = (*nvrtc)->supported_architectures();
  if (!numbers) {
    llvm::consumeError(numbers.takeError());
    return {};
  }
  return std::move(*numbers);
}

llvm::ArrayRef<std::uint8_t> bytes_of(const HostTensor& tensor) {
  return {reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()), tensor.bytes.size()};
}

}  // namespace

llvm::Expected<std::unique_ptr<DeviceSession>> DeviceSession::open(int ordinal, Builder& builder) {
  auto driver = tilewright::driver();
  if (!driver) return driver.takeError();
  auto facts = device_facts(*driver, ordinal);
  if (!facts) return facts.takeError();
  auto target = target_of_device(facts->major, facts->minor, compiler_numbers(builder));
  if (!target) return target.takeError();
  auto context = Context::primary(*driver, ordinal);
  if (!context) return context.takeError();
  auto scope = ContextScope::enter(*driver, context->handle());
  if (!scope) return scope.takeError();
  return std::unique_ptr<DeviceSession>(new DeviceSession{&*driver, std::move(*facts), *target, std::move(*context), std::move(*scope)});
}

Target default_target(Builder& builder) {
  auto driver = tilewright::driver();
  if (!driver) {
    llvm::consumeError(driver.takeError());
    return Target{};
  }
  auto facts = device_facts(*driver, 0);
  if (!facts) {
    llvm::consumeError(facts.takeError());
    return Target{};
  }
  auto target = target_of_device(facts->major, facts->minor, compiler_numbers(builder));
  if (!target) {
    llvm::consumeError(target.takeError());
    return Target{};
  }
  return *target;
}

llvm::Expected<std::unique_ptr<LoadedProgram>> LoadedProgram::create(DeviceSession& session, Builder& builder, const Graph& graph,
                                                                     llvm::ArrayRef<std::int64_t> dims, CompileOptions options) {
  options.device = device_model(session.target);
  Match match = Match::kNone;
  if (options.overrides.empty())
    match =
        use_record(RecordStore(RecordStore::Options::from_environment()), graph, dims, session.facts.name, session.target, options).match;
  auto compiled = compile_program(graph, session.target, builder, options);
  if (!compiled) return compiled.takeError();
  auto program = load_program(*session.driver, *compiled);
  if (!program) return program.takeError();
  std::unique_ptr<LoadedProgram> loaded(new LoadedProgram(*session.driver, std::move(*compiled), std::move(*program), dims));
  loaded->match_ = match;
  if (llvm::Error error = loaded->allocate()) return error;
  return loaded;
}

llvm::Error LoadedProgram::allocate() {
  auto add = [&](const TensorSpec& tensor, std::vector<DeviceBuffer>& buffers,
                 llvm::SmallVectorImpl<CUdeviceptr>& pointers) -> llvm::Error {
    auto buffer = DeviceBuffer::allocate(*driver_, static_cast<std::uint64_t>(storage_bytes(tensor, dims_)));
    if (!buffer) return buffer.takeError();
    pointers.push_back(buffer->pointer());
    buffers.push_back(std::move(*buffer));
    return llvm::Error::success();
  };
  for (const TensorSpec& tensor : program_->recipe().inputs) {
    if (llvm::Error error = add(tensor, inputs_, input_pointers_)) return error;
  }
  for (const TensorSpec& tensor : program_->recipe().outputs) {
    if (llvm::Error error = add(tensor, outputs_, output_pointers_)) return error;
  }
  auto bytes = program_->workspace_bytes(dims_);
  if (!bytes) return bytes.takeError();
  auto workspace = DeviceBuffer::allocate(*driver_, static_cast<std::uint64_t>(*bytes));
  if (!workspace) return workspace.takeError();
  workspace_ = std::move(*workspace);
  // Garbage in what the kernels must not rely on, zero in what they may.
  if (llvm::Error error = workspace_.fill(0xFF)) return error;
  if (llvm::Error error = program_->initialize_workspace({workspace_.pointer(), *bytes}, dims_, nullptr)) return error;
  return driver_->check(driver_->stream_synchronize(nullptr), "initialising the workspace");
}

llvm::Error LoadedProgram::upload(llvm::ArrayRef<HostTensor> inputs) {
  for (auto [buffer, tensor] : llvm::zip_equal(inputs_, inputs)) {
    if (buffer.bytes() == 0) continue;
    if (llvm::Error error = buffer.upload(bytes_of(tensor))) return error;
  }
  return driver_->check(driver_->stream_synchronize(nullptr), "copying inputs to the device");
}

llvm::Error LoadedProgram::poison(CUstream stream) {
  for (DeviceBuffer& buffer : outputs_) {
    if (buffer.bytes() == 0) continue;
    if (llvm::Error error = buffer.fill(0xFF, stream)) return error;
  }
  return llvm::Error::success();
}

llvm::Error LoadedProgram::launch(CUstream stream) const {
  return program_->launch(input_pointers_, output_pointers_, {workspace_.pointer(), static_cast<std::int64_t>(workspace_.bytes())}, dims_,
                          stream);
}

llvm::Expected<std::vector<HostTensor>> LoadedProgram::download(CUstream stream) const {
  std::vector<HostTensor> outputs;
  for (auto [buffer, tensor] : llvm::zip_equal(outputs_, program_->recipe().outputs)) {
    HostTensor host = HostTensor::make(tensor.dtype, concrete_shape(tensor.shape, dims_));
    if (buffer.bytes() != 0) {
      llvm::MutableArrayRef<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(host.bytes.data()), host.bytes.size());
      if (llvm::Error error = buffer.download(bytes, stream)) return error;
    }
    outputs.push_back(std::move(host));
  }
  if (llvm::Error error = driver_->check(driver_->stream_synchronize(stream), "waiting for the kernels")) return error;
  return outputs;
}

}  // namespace tilewright::cli
