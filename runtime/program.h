// A launch recipe with its kernels loaded into one context: what a caller launches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "runtime/artifact.h"
#include "runtime/driver.h"
#include "runtime/launch_recipe.h"
#include "runtime/module.h"

namespace tilewright {

// Elements of a tensor's storage, from its first to its last: the product of the shape for a row-major tensor, the reach of the strides
// else; 0 for an empty one. Negative strides are not supported by recipes.
std::int64_t storage_elements(const TensorSpec& tensor, llvm::ArrayRef<std::int64_t> dims);
std::int64_t storage_bytes(const TensorSpec& tensor, llvm::ArrayRef<std::int64_t> dims);
// Strides in elements, one per dimension; row-major ones where the spec has none.
llvm::SmallVector<std::int64_t, 6> element_strides(const TensorSpec& tensor, llvm::ArrayRef<std::int64_t> dims);
// Success when there is one value per symbol and each lies in its range. Error kInvalidArgument names the dimension, the value and the
// range.
llvm::Error check_dims(llvm::ArrayRef<Symbol> symbols, llvm::ArrayRef<std::int64_t> dims);
// The default value of every symbol.
llvm::SmallVector<std::int64_t, 4> default_dims(llvm::ArrayRef<Symbol> symbols);

// Bytes of scratch memory a recipe needs for these dims (0 is common). kInvalidArgument: dims out of range.
llvm::Expected<std::int64_t> workspace_bytes(const LaunchRecipe& recipe, llvm::ArrayRef<std::int64_t> dims);

// The caller's scratch memory: at least workspace_bytes(dims), aligned to 256 bytes. A workspace serves one launch at a time (one stream).
struct Workspace {
  CUdeviceptr pointer = 0;
  std::int64_t bytes = 0;
};

// Immutable after creation, so that any number of threads may launch it, each with a workspace of its own.
class Program {
 public:
  // Loads artifacts[i] for recipe.kernels[i] into the current context. `driver` must outlive the program.
  // Error kUnsupported: made for another architecture, more shared memory or threads than the device has, a parameter block above 4 KiB;
  // kInvalidArgument: counts differ; kDriver.
  static llvm::Expected<std::unique_ptr<Program>> create(const Driver& driver, LaunchRecipe recipe,
                                                         llvm::ArrayRef<std::shared_ptr<const Artifact>> artifacts);

  const LaunchRecipe& recipe() const { return recipe_; }
  llvm::ArrayRef<std::shared_ptr<const Artifact>> artifacts() const { return artifacts_; }

  // workspace_bytes() of the recipe.
  llvm::Expected<std::int64_t> workspace_bytes(llvm::ArrayRef<std::int64_t> dims) const;
  // Zeroes what the kernels expect to find zero, ordered on `stream`. Needed before the first launch with a workspace, after a launch that
  // was aborted, and when dims differ from those it was last initialised for (buffers move). Every completed launch leaves it ready for the
  // next.
  llvm::Error initialize_workspace(Workspace workspace, llvm::ArrayRef<std::int64_t> dims, CUstream stream) const;

  // Submits all kernels to `stream`, in order. inputs[i] and outputs[i] are device addresses in the recipe's order; those of empty tensors
  // may be 0. Allocates no device memory, takes no lock, does not synchronise: may be captured. Nothing is submitted when an argument is
  // refused. Error kInvalidArgument: counts, a null pointer, dims, the workspace; kUnsupported: a grid beyond the hardware's limits;
  // kDriver.
  llvm::Error launch(llvm::ArrayRef<CUdeviceptr> inputs, llvm::ArrayRef<CUdeviceptr> outputs, Workspace workspace,
                     llvm::ArrayRef<std::int64_t> dims, CUstream stream) const;

 private:
  struct Kernel {
    CUfunction function = nullptr;
    std::vector<llvm::SmallVector<std::uint32_t, 16>> layouts;  // per parameter: field offsets, then size
  };
  struct Buffers;
  Program(const Driver& driver, CUcontext context, LaunchRecipe recipe) : driver_(&driver), context_(context), recipe_(std::move(recipe)) {}
  llvm::Error load(llvm::ArrayRef<std::shared_ptr<const Artifact>> artifacts, CUdevice device);
  llvm::Error check_workspace(Workspace workspace, std::int64_t needed) const;
  void pack(const KernelLaunch& launch, std::size_t param, const Buffers& buffers, std::uint32_t misalignment, char* out,
            llvm::ArrayRef<std::uint32_t> layout) const;
  llvm::Error launch_kernel(std::size_t kernel, const Buffers& buffers, CUstream stream, bool submit) const;

  const Driver* driver_;
  CUcontext context_;
  LaunchRecipe recipe_;
  std::vector<std::shared_ptr<const Artifact>> artifacts_;
  std::vector<Module> modules_;
  std::vector<Kernel> kernels_;
};

}  // namespace tilewright
