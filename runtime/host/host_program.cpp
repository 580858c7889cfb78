#include "runtime/host/host_program.h"

#include <cstring>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "runtime/error.h"
#include "runtime/program.h"

namespace tilewright {

struct HostProgram::Buffers {
  GlobalMemory memory;
  std::vector<Region*> inputs, outputs, workspace;

  Region* region(const BufferRef& buffer) const {
    switch (buffer.kind) {
      case BufferKind::kInput:
        return inputs[buffer.index];
      case BufferKind::kOutput:
        return outputs[buffer.index];
      case BufferKind::kWorkspace:
        return workspace[buffer.index];
    }
    return nullptr;
  }
};

llvm::Expected<std::unique_ptr<HostProgram>> HostProgram::create(LaunchRecipe recipe,
                                                                 llvm::ArrayRef<std::shared_ptr<const HostArtifact>> artifacts) {
  if (artifacts.size() != recipe.kernels.size())
    return make_error(Status::kInvalidArgument, "program: {} kernels, {} artifacts", recipe.kernels.size(), artifacts.size());
  auto program = std::make_unique<HostProgram>();
  program->recipe_ = std::move(recipe);
  for (const auto& artifact : artifacts) {
    auto object = KernelObject::load(artifact->object);
    if (!object) return prefix_error(object.takeError(), fmt::format("kernel {}: ", artifact->entry));
    program->objects_.push_back(std::move(*object));
  }
  return program;
}

llvm::Error HostProgram::allocate(Buffers& buffers, llvm::ArrayRef<llvm::ArrayRef<std::byte>> inputs, llvm::ArrayRef<std::int64_t> dims,
                                  std::uint32_t shift_elements) const {
  const auto add = [&](RegionSpec spec, std::vector<Region*>& regions) -> llvm::Error {
    const std::string name = spec.name;
    const std::uint64_t bytes = spec.bytes;
    regions.push_back(buffers.memory.add(std::move(spec)));
    if (regions.back() == nullptr) return make_error(Status::kOutOfMemory, "no {} bytes of memory for {}", bytes, name);
    return llvm::Error::success();
  };
  const auto tensor_spec = [&](const TensorSpec& tensor, RegionKind kind) {
    const auto element = static_cast<std::uint32_t>(dtype_bytes(tensor.dtype));
    RegionSpec spec{tensor.name, kind, static_cast<std::uint64_t>(storage_bytes(tensor, dims)), element, {}, shift_elements * element};
    for (const SizeExpr& size : tensor.shape) spec.shape.push_back(size.evaluate(dims));
    return spec;
  };
  for (auto [tensor, bytes] : llvm::zip_equal(recipe_.inputs, inputs)) {
    RegionSpec spec = tensor_spec(tensor, RegionKind::kInput);
    if (bytes.size() != spec.bytes)
      return make_error(Status::kInvalidArgument, "input {} holds {} bytes, {} are wanted", tensor.name, bytes.size(), spec.bytes);
    if (llvm::Error error = add(std::move(spec), buffers.inputs)) return error;
    Region& region = *buffers.inputs.back();
    if (!bytes.empty()) std::memcpy(region.data(), bytes.data(), bytes.size());
    region.mark_initialized();
  }
  for (const TensorSpec& tensor : recipe_.outputs) {
    if (llvm::Error error = add(tensor_spec(tensor, RegionKind::kOutput), buffers.outputs)) return error;
  }
  for (const WorkspaceSpec& workspace : recipe_.workspace) {
    RegionSpec spec{workspace.name, RegionKind::kWorkspace, static_cast<std::uint64_t>(workspace.bytes.evaluate(dims)), 4, {}, 0};
    if (llvm::Error error = add(std::move(spec), buffers.workspace)) return error;
    if (!workspace.zero_initialized) continue;
    Region& region = *buffers.workspace.back();
    std::memset(region.data(), 0, region.spec().bytes);
    region.mark_initialized();
  }
  return llvm::Error::success();
}

llvm::Error HostProgram::launch(std::size_t kernel, Buffers& buffers, llvm::ArrayRef<std::int64_t> dims,
                                const ExecuteOptions& options) const {
  const KernelLaunch& recipe = recipe_.kernels[kernel];
  const auto blocks = [&](int axis) { return static_cast<unsigned>(recipe.grid[axis].evaluate(dims)); };
  HostLaunch launch;
  launch.kernel = recipe.entry;
  launch.grid = {blocks(0), blocks(1), blocks(2)};
  launch.block = {recipe.block[0], recipe.block[1], recipe.block[2]};
  launch.cluster = {recipe.cluster[0], recipe.cluster[1], recipe.cluster[2]};
  launch.dynamic_shared_bytes = recipe.dynamic_shared_bytes;
  if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) return llvm::Error::success();

  const auto address = [&](const BufferRef& buffer) { return reinterpret_cast<std::uint64_t>(buffers.region(buffer)->data()); };
  std::uint32_t misalignment = 0;
  for (const KernelParam& param : recipe.params) {
    for (const KernelArg& field : param.fields) {
      if (field.kind == KernelArg::Kind::kBuffer) misalignment |= static_cast<std::uint32_t>(address(field.buffer) & 15);
    }
  }
  std::vector<std::vector<std::uint64_t>> bytes;  // words, for alignment
  std::vector<const void*> parameters;
  for (std::size_t i = 0; i < recipe.params.size(); ++i) {
    const auto layout = param_layout(recipe.params[i]);
    bytes.emplace_back(llvm::divideCeil(layout.back(), 8));
    pack_param(recipe, i, layout, address, misalignment, dims, reinterpret_cast<char*>(bytes.back().data()));
    parameters.push_back(bytes.back().data());
  }
  launch.parameters = parameters.data();
  return execute(*objects_[kernel], launch, buffers.memory, options);
}

llvm::Error HostProgram::check_results(const Buffers& buffers) const {
  for (const Region* region : buffers.outputs) {
    std::uint64_t count = 0;
    const auto first = buffers.memory.sees_all() ? region->first_unwritten(count) : std::nullopt;
    if (!first) continue;
    return make_error(Status::kKernelFault, "output {}: {} of {} elements were never written, the first at {}", region->spec().name, count,
                      region->spec().bytes / region->spec().element_bytes,
                      region->element_text(static_cast<std::int64_t>(*first * region->spec().element_bytes)));
  }
  for (auto [region, spec] : llvm::zip_equal(buffers.workspace, recipe_.workspace)) {
    if (!spec.zero_initialized) continue;
    const llvm::ArrayRef<char> bytes(region->data(), region->spec().bytes);
    const auto* const found = llvm::find_if(bytes, [](char byte) { return byte != 0; });
    if (found != bytes.end()) {
      return make_error(Status::kKernelFault, "workspace {} is not left zero: byte {} is not", spec.name,
                        static_cast<std::int64_t>(found - bytes.begin()));
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<std::vector<std::byte>>> HostProgram::run(llvm::ArrayRef<llvm::ArrayRef<std::byte>> inputs,
                                                                     llvm::ArrayRef<std::int64_t> dims,
                                                                     const HostRunOptions& options) const {
  if (llvm::Error error = check_dims(recipe_.symbols, dims)) return error;
  if (inputs.size() != recipe_.inputs.size())
    return make_error(Status::kInvalidArgument, "{} inputs expected, {} given", recipe_.inputs.size(), inputs.size());
  Buffers buffers;
  if (llvm::Error error = allocate(buffers, inputs, dims, options.shift_elements)) return error;
  std::uint64_t total = 0, before = 0;
  for (const KernelLaunch& kernel : recipe_.kernels)
    total += static_cast<std::uint64_t>(kernel.grid[0].evaluate(dims) * kernel.grid[1].evaluate(dims) * kernel.grid[2].evaluate(dims));
  for (std::size_t i = 0; i < recipe_.kernels.size(); ++i) {
    ExecuteOptions execute = options.execute;
    std::uint64_t blocks = 0;
    if (options.execute.progress) {
      execute.progress = [&](std::uint64_t done, std::uint64_t all) {
        blocks = all;
        options.execute.progress(before + done, total);
      };
    }
    if (llvm::Error error = launch(i, buffers, dims, execute)) return error;
    before += blocks;
  }
  if (llvm::Error error = check_results(buffers)) return error;
  std::vector<std::vector<std::byte>> outputs;
  for (const Region* region : buffers.outputs) {
    const auto* const begin = reinterpret_cast<const std::byte*>(region->data());
    outputs.emplace_back(begin, begin + region->spec().bytes);
  }
  return outputs;
}

}  // namespace tilewright
