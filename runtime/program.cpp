#include "runtime/program.h"

#include <array>
#include <limits>

#include "llvm/Support/MathExtras.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/integer.h"

namespace tilewright {
namespace {

constexpr std::size_t kMostParams = 8;
constexpr std::size_t kMostParamBytes = 4096;  // what every device and driver takes
constexpr std::int64_t kWorkspaceAlignment = 256;
constexpr std::array<std::int64_t, 3> kMostBlocks = {std::numeric_limits<std::int32_t>::max(), 65535, 65535};
constexpr unsigned kPortableCluster = 8;
constexpr char kAxes[] = "xyz";

// Inline for as many buffers as a program is likely to have, so that a launch allocates nothing.
using Offsets = llvm::SmallVector<std::int64_t, 64>;

// Byte offset of each buffer; returns the size of the whole.
std::int64_t lay_out_workspace(llvm::ArrayRef<WorkspaceSpec> buffers, llvm::ArrayRef<std::int64_t> dims, Offsets& offsets) {
  std::int64_t total = 0;
  offsets.clear();
  for (const WorkspaceSpec& buffer : buffers) {
    offsets.push_back(total);
    const std::int64_t bytes = saturating_add(buffer.bytes.evaluate(dims), kWorkspaceAlignment - 1);
    total = saturating_add(total, bytes / kWorkspaceAlignment * kWorkspaceAlignment);
  }
  return total;
}

llvm::Error check_tensors(llvm::StringRef kind, llvm::ArrayRef<TensorSpec> specs, llvm::ArrayRef<CUdeviceptr> pointers,
                          llvm::ArrayRef<std::int64_t> dims) {
  if (specs.size() != pointers.size()) {
    return make_error(Status::kInvalidArgument, "launch: {} {}s expected, {} given", specs.size(), kind, pointers.size());
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (pointers[i] == 0 && storage_elements(specs[i], dims) != 0) {
      return make_error(Status::kInvalidArgument, "launch: {} \"{}\" is a null pointer", kind, specs[i].name);
    }
    const std::size_t element = dtype_bytes(specs[i].dtype);
    if (pointers[i] % element != 0) {
      return make_error(Status::kInvalidArgument, "launch: {} \"{}\" is not aligned to its {} bytes an element", kind, specs[i].name,
                        element);
    }
  }
  return llvm::Error::success();
}

// Every symbol an expression uses must be one of the recipe's.
bool symbols_fit(const SizeExpr& value, std::size_t symbols) {
  llvm::SmallVector<unsigned, 4> used;
  value.collect_symbols(used);
  return used.empty() || used.back() < symbols;
}

bool buffer_fits(const BufferRef& buffer, const LaunchRecipe& recipe) {
  switch (buffer.kind) {
    case BufferKind::kInput:
      return buffer.index < recipe.inputs.size();
    case BufferKind::kOutput:
      return buffer.index < recipe.outputs.size();
    case BufferKind::kWorkspace:
      return buffer.index < recipe.workspace.size();
  }
  return false;
}

llvm::Error check_recipe(const LaunchRecipe& recipe) {
  const std::size_t symbols = recipe.symbols.size();
  for (const WorkspaceSpec& buffer : recipe.workspace) {
    if (!symbols_fit(buffer.bytes, symbols))
      return make_error(Status::kInternal, "program: workspace \"{}\" uses an unknown dimension", buffer.name);
  }
  for (const KernelLaunch& kernel : recipe.kernels) {
    for (const SizeExpr& blocks : kernel.grid) {
      if (!symbols_fit(blocks, symbols))
        return make_error(Status::kInternal, "kernel {}: its grid uses an unknown dimension", kernel.entry);
    }
    for (const KernelParam& param : kernel.params) {
      for (const KernelArg& field : param.fields) {
        const bool is_buffer = field.kind == KernelArg::Kind::kBuffer;
        if (is_buffer ? !buffer_fits(field.buffer, recipe) : !symbols_fit(field.value, symbols)) {
          return make_error(Status::kInternal, "kernel {}: field \"{}\" refers to something that is not there", kernel.entry, field.name);
        }
      }
    }
  }
  return llvm::Error::success();
}

// What the device allows for this function, and the attributes a launch of it needs.
llvm::Error prepare_function(const Driver& driver, CUfunction function, const KernelLaunch& launch, CUdevice device) {
  const auto attribute = [&](CUfunction_attribute which) {
    int value = 0;
    return driver.func_get_attribute(&value, which, function) == CUDA_SUCCESS ? value : 0;
  };
  const std::uint64_t threads = std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  const auto most_threads = static_cast<std::uint64_t>(attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  if (threads > most_threads) {
    return make_error(Status::kUnsupported, "kernel {}: {} threads a block, its registers and launch bounds allow {}", launch.entry,
                      threads, most_threads);
  }
  int most_shared = 0;
  if (auto error = driver.check(driver.device_get_attribute(&most_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device),
                                "shared memory of the device")) {
    return error;
  }
  const auto static_shared = static_cast<std::uint64_t>(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  if (static_shared + launch.dynamic_shared_bytes > static_cast<std::uint64_t>(most_shared)) {
    return make_error(Status::kUnsupported, "kernel {}: {} + {} bytes of shared memory a block, the device has {}", launch.entry,
                      static_shared, launch.dynamic_shared_bytes, most_shared);
  }
  if (launch.dynamic_shared_bytes > 0) {
    const CUresult result =
        driver.func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(launch.dynamic_shared_bytes));
    if (auto error = driver.check(result, fmt::format("kernel {}: dynamic shared memory", launch.entry))) return error;
  }
  if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > kPortableCluster) {
    const CUresult result = driver.func_set_attribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    if (auto error = driver.check(result, fmt::format("kernel {}: cluster size", launch.entry))) return error;
  }
  return llvm::Error::success();
}

}  // namespace

std::int64_t storage_elements(const TensorSpec& tensor, llvm::ArrayRef<std::int64_t> dims) {
  std::int64_t product = 1, reach = 1;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const std::int64_t size = tensor.shape[i].evaluate(dims);
    if (size <= 0) return 0;
    product = saturating_mul(product, size);
    if (!tensor.strides.empty()) reach = saturating_add(reach, saturating_mul(size - 1, tensor.strides[i]));
  }
  return tensor.strides.empty() ? product : reach;
}

std::int64_t storage_bytes(const TensorSpec& tensor, llvm::ArrayRef<std::int64_t> dims) {
  return saturating_mul(storage_elements(tensor, dims), static_cast<std::int64_t>(dtype_bytes(tensor.dtype)));
}

llvm::SmallVector<std::int64_t, 6> element_strides(const TensorSpec& tensor, llvm::ArrayRef<std::int64_t> dims) {
  if (!tensor.strides.empty()) return tensor.strides;
  llvm::SmallVector<std::int64_t, 6> strides(tensor.shape.size(), 1);
  for (std::size_t i = tensor.shape.size(); i-- > 1;) strides[i - 1] = saturating_mul(strides[i], tensor.shape[i].evaluate(dims));
  return strides;
}

llvm::Error check_dims(llvm::ArrayRef<Symbol> symbols, llvm::ArrayRef<std::int64_t> dims) {
  if (symbols.size() != dims.size()) {
    return make_error(Status::kInvalidArgument, "dimensions: {} expected, {} given", symbols.size(), dims.size());
  }
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (dims[i] < symbols[i].min || dims[i] > symbols[i].max) {
      return make_error(Status::kInvalidArgument, "dimension {} is {}, it must lie in {} to {}", symbols[i].name, dims[i], symbols[i].min,
                        symbols[i].max);
    }
  }
  return llvm::Error::success();
}

llvm::SmallVector<std::int64_t, 4> default_dims(llvm::ArrayRef<Symbol> symbols) {
  llvm::SmallVector<std::int64_t, 4> dims;
  for (const Symbol& symbol : symbols) dims.push_back(symbol.default_value);
  return dims;
}

// The addresses of one launch.
struct Program::Buffers {
  llvm::ArrayRef<CUdeviceptr> inputs, outputs;
  llvm::ArrayRef<std::int64_t> dims;
  Workspace workspace;
  Offsets offsets{};

  CUdeviceptr address(const BufferRef& buffer) const {
    switch (buffer.kind) {
      case BufferKind::kInput:
        return inputs[buffer.index];
      case BufferKind::kOutput:
        return outputs[buffer.index];
      case BufferKind::kWorkspace:
        return workspace.pointer + static_cast<CUdeviceptr>(offsets[buffer.index]);
    }
    return 0;
  }
};

llvm::Expected<std::unique_ptr<Program>> Program::create(const Driver& driver, LaunchRecipe recipe,
                                                         llvm::ArrayRef<std::shared_ptr<const Artifact>> artifacts) {
  if (artifacts.size() != recipe.kernels.size()) {
    return make_error(Status::kInvalidArgument, "program: {} kernels, {} artifacts", recipe.kernels.size(), artifacts.size());
  }
  if (auto error = check_recipe(recipe)) return error;
  auto context = Context::current(driver);
  if (!context) return context.takeError();
  std::unique_ptr<Program> program(new Program(driver, context->handle(), std::move(recipe)));
  if (auto error = program->load(artifacts, context->ordinal())) return error;
  return program;
}

llvm::Error Program::load(llvm::ArrayRef<std::shared_ptr<const Artifact>> artifacts, CUdevice device) {
  for (std::size_t i = 0; i < artifacts.size(); ++i) {
    const KernelLaunch& launch = recipe_.kernels[i];
    Kernel kernel;
    std::size_t bytes = 0;
    for (const KernelParam& param : launch.params) {
      kernel.layouts.push_back(param_layout(param));
      bytes += llvm::alignTo(kernel.layouts.back().back(), 8);
    }
    if (bytes > kMostParamBytes || launch.params.size() > kMostParams) {
      return make_error(Status::kUnsupported, "kernel {}: {} bytes in {} parameters, at most {} in {} are possible", launch.entry, bytes,
                        launch.params.size(), kMostParamBytes, kMostParams);
    }
    auto module = Module::load(*driver_, artifacts[i]->binary, fmt::format("kernel {} for {}", launch.entry, artifacts[i]->target.name()));
    if (!module) return module.takeError();
    auto function = module->function(launch.entry);
    if (!function) return function.takeError();
    kernel.function = *function;
    if (auto error = prepare_function(*driver_, kernel.function, launch, device)) return error;
    artifacts_.push_back(artifacts[i]);
    modules_.push_back(std::move(*module));
    kernels_.push_back(std::move(kernel));
  }
  return llvm::Error::success();
}

llvm::Expected<std::int64_t> workspace_bytes(const LaunchRecipe& recipe, llvm::ArrayRef<std::int64_t> dims) {
  if (auto error = check_dims(recipe.symbols, dims)) return error;
  Offsets offsets;
  return lay_out_workspace(recipe.workspace, dims, offsets);
}

llvm::Expected<std::int64_t> Program::workspace_bytes(llvm::ArrayRef<std::int64_t> dims) const {
  return tilewright::workspace_bytes(recipe_, dims);
}

llvm::Error Program::check_workspace(Workspace workspace, std::int64_t needed) const {
  if (needed == 0) return llvm::Error::success();
  if (workspace.pointer == 0 || workspace.bytes < needed) {
    return make_error(Status::kInvalidArgument, "workspace: {} bytes needed, {} given", needed,
                      workspace.pointer == 0 ? 0 : workspace.bytes);
  }
  if (workspace.pointer % kWorkspaceAlignment != 0) {
    return make_error(Status::kInvalidArgument, "workspace: its address must be a multiple of {}", kWorkspaceAlignment);
  }
  return llvm::Error::success();
}

llvm::Error Program::initialize_workspace(Workspace workspace, llvm::ArrayRef<std::int64_t> dims, CUstream stream) const {
  if (auto error = check_dims(recipe_.symbols, dims)) return error;
  Offsets offsets;
  if (auto error = check_workspace(workspace, lay_out_workspace(recipe_.workspace, dims, offsets))) return error;
  auto scope = ContextScope::enter(*driver_, context_);
  if (!scope) return scope.takeError();
  for (std::size_t i = 0; i < recipe_.workspace.size(); ++i) {
    if (!recipe_.workspace[i].zero_initialized) continue;
    const auto bytes = static_cast<std::uint64_t>(recipe_.workspace[i].bytes.evaluate(dims));
    const CUdeviceptr address = workspace.pointer + static_cast<CUdeviceptr>(offsets[i]);
    if (auto error = fill_async(*driver_, address, 0, bytes, stream)) return error;
  }
  return llvm::Error::success();
}

llvm::Error Program::launch(llvm::ArrayRef<CUdeviceptr> inputs, llvm::ArrayRef<CUdeviceptr> outputs, Workspace workspace,
                            llvm::ArrayRef<std::int64_t> dims, CUstream stream) const {
  if (auto error = check_dims(recipe_.symbols, dims)) return error;
  if (auto error = check_tensors("input", recipe_.inputs, inputs, dims)) return error;
  if (auto error = check_tensors("output", recipe_.outputs, outputs, dims)) return error;
  Buffers buffers{inputs, outputs, dims, workspace, {}};
  if (auto error = check_workspace(workspace, lay_out_workspace(recipe_.workspace, dims, buffers.offsets))) return error;
  auto scope = ContextScope::enter(*driver_, context_);
  if (!scope) return scope.takeError();
  // Of several kernels, all are checked before the first is submitted.
  if (kernels_.size() > 1) {
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      if (auto error = launch_kernel(i, buffers, stream, /*submit=*/false)) return error;
    }
  }
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    if (auto error = launch_kernel(i, buffers, stream, /*submit=*/true)) return error;
  }
  return llvm::Error::success();
}

void Program::pack(const KernelLaunch& launch, std::size_t param, const Buffers& buffers, std::uint32_t misalignment, char* out,
                   llvm::ArrayRef<std::uint32_t> layout) const {
  const auto address = [&](const BufferRef& buffer) { return buffers.address(buffer); };
  pack_param(launch, param, layout, address, misalignment, buffers.dims, out);
}

llvm::Error Program::launch_kernel(std::size_t index, const Buffers& buffers, CUstream stream, bool submit) const {
  const KernelLaunch& launch = recipe_.kernels[index];
  const Kernel& kernel = kernels_[index];
  std::array<unsigned, 3> grid{};
  for (std::size_t axis = 0; axis < grid.size(); ++axis) {
    const std::int64_t blocks = launch.grid[axis].evaluate(buffers.dims);
    if (blocks <= 0) return llvm::Error::success();
    if (blocks > kMostBlocks[axis]) {
      return make_error(Status::kUnsupported, "kernel {}: {} blocks along {}, the hardware takes {}", launch.entry, blocks, kAxes[axis],
                        kMostBlocks[axis]);
    }
    if (blocks % launch.cluster[axis] != 0) {
      return make_error(Status::kInternal, "kernel {}: {} blocks along {} are no multiple of the cluster's {}", launch.entry, blocks,
                        kAxes[axis], launch.cluster[axis]);
    }
    grid[axis] = static_cast<unsigned>(blocks);
  }
  std::uint32_t misalignment = 0;
  for (const KernelParam& param : launch.params) {
    for (const KernelArg& field : param.fields) {
      if (field.kind == KernelArg::Kind::kBuffer) misalignment |= static_cast<std::uint32_t>(buffers.address(field.buffer) & 15);
    }
  }
  alignas(16) std::array<char, kMostParamBytes> bytes;
  std::array<void*, kMostParams> pointers{};
  std::size_t used = 0;
  for (std::size_t i = 0; i < launch.params.size(); ++i) {
    pointers[i] = bytes.data() + used;
    pack(launch, i, buffers, misalignment, bytes.data() + used, kernel.layouts[i]);
    used += llvm::alignTo(kernel.layouts[i].back(), 8);
  }
  if (!submit) return llvm::Error::success();

  CUlaunchConfig config{};
  config.gridDimX = grid[0], config.gridDimY = grid[1], config.gridDimZ = grid[2];
  config.blockDimX = launch.block[0], config.blockDimY = launch.block[1], config.blockDimZ = launch.block[2];
  config.sharedMemBytes = launch.dynamic_shared_bytes;
  config.hStream = stream;
  CUlaunchAttribute cluster{};
  if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  const CUresult result = driver_->launch_kernel_ex(&config, kernel.function, pointers.data(), nullptr);
  if (result == CUDA_SUCCESS) return llvm::Error::success();  // the text below is made for failures alone
  return driver_->check(result, fmt::format("launching kernel {}", launch.entry));
}

}  // namespace tilewright
