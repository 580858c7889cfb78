// A GPU opened for one command, and a compiled description with its buffers on it.
#pragma once

#include <memory>
#include <vector>

#include "autotune/use_records.h"
#include "codegen/compile.h"
#include "ops/tensor.h"
#include "runtime/device.h"
#include "runtime/driver.h"
#include "runtime/program.h"

namespace tilewright::cli {

// Context of a device, current on this thread as long as this lives.
struct DeviceSession {
  // Error kMissing: no driver, no GPU, no such device; kUnsupported: too old; kDriver.
  static llvm::Expected<std::unique_ptr<DeviceSession>> open(int ordinal, Builder& builder);

  const Driver* driver;
  DeviceFacts facts;
  Target target;
  Context context;
  ContextScope scope;  // after context: ends first
};

// The target a command works for when none is named: device 0's where there is a GPU, else sm_90a.
Target default_target(Builder& builder);

class LoadedProgram {
 public:
  // Compiles for the session's target (whose device model replaces the one in `options`), with the config of a tuning record where there is
  // one and options.overrides is empty; loads, allocates. Errors of compile_program,
  // Program::create and DeviceBuffer.
  static llvm::Expected<std::unique_ptr<LoadedProgram>> create(DeviceSession& session, Builder& builder, const Graph& graph,
                                                               llvm::ArrayRef<std::int64_t> dims, CompileOptions options);

  const CompiledProgram& compiled() const { return compiled_; }
  const Program& program() const { return *program_; }
  // How the tuning record matched that gave the config; kNone for the default or a config of the caller's.
  Match match() const { return match_; }
  std::uint64_t workspace_bytes() const { return workspace_.bytes(); }

  // Host tensors in the order of graph.inputs(); done when it returns.
  llvm::Error upload(llvm::ArrayRef<HostTensor> inputs);
  // Every byte of every output 0xFF (NaN as a float), so that what is never written is seen.
  llvm::Error poison(CUstream stream);
  llvm::Error launch(CUstream stream) const;
  // The outputs, after everything submitted has completed.
  llvm::Expected<std::vector<HostTensor>> download(CUstream stream) const;

 private:
  LoadedProgram(const Driver& driver, CompiledProgram compiled, std::unique_ptr<Program> program, llvm::ArrayRef<std::int64_t> dims)
      : driver_(&driver), compiled_(std::move(compiled)), program_(std::move(program)), dims_(dims) {}
  llvm::Error allocate();

  const Driver* driver_;
  CompiledProgram compiled_;
  Match match_ = Match::kNone;
  std::unique_ptr<Program> program_;
  llvm::SmallVector<std::int64_t, 4> dims_;
  std::vector<DeviceBuffer> inputs_, outputs_;
  llvm::SmallVector<CUdeviceptr, 8> input_pointers_, output_pointers_;
  DeviceBuffer workspace_;
};

}  // namespace tilewright::cli
