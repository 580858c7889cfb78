// A launch recipe with its kernels loaded for the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "runtime/host/executor.h"
#include "runtime/host/host_builder.h"
#include "runtime/launch_recipe.h"

namespace tilewright {

struct HostRunOptions {
  ExecuteOptions execute;            // progress counts the blocks of all kernels
  std::uint32_t shift_elements = 0;  // every input and output lies that many elements off its alignment
};

class HostProgram {
 public:
  // artifacts[i] is for recipe.kernels[i]. Errors of KernelObject::load; kInvalidArgument: counts differ.
  static llvm::Expected<std::unique_ptr<HostProgram>> create(LaunchRecipe recipe,
                                                             llvm::ArrayRef<std::shared_ptr<const HostArtifact>> artifacts);

  // Runs all kernels in order. inputs[i] holds storage_bytes() of the recipe's input i; outputs are made. Every output must have been
  // written whole, and zeroed workspace left zero. Errors of execute(); kInvalidArgument: counts, sizes or dims that do not fit;
  // kOutOfMemory.
  llvm::Expected<std::vector<std::vector<std::byte>>> run(llvm::ArrayRef<llvm::ArrayRef<std::byte>> inputs,
                                                          llvm::ArrayRef<std::int64_t> dims, const HostRunOptions& options) const;

 private:
  struct Buffers;
  llvm::Error allocate(Buffers& buffers, llvm::ArrayRef<llvm::ArrayRef<std::byte>> inputs, llvm::ArrayRef<std::int64_t> dims,
                       std::uint32_t shift_elements) const;
  llvm::Error launch(std::size_t kernel, Buffers& buffers, llvm::ArrayRef<std::int64_t> dims, const ExecuteOptions& options) const;
  llvm::Error check_results(const Buffers& buffers) const;

  LaunchRecipe recipe_;
  std::vector<std::unique_ptr<KernelObject>> objects_;
};

}  // namespace tilewright
