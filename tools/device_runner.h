// Candidates on a GPU: launches into fenced, poisoned buffers, times by graph replay.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "autotune/verifier.h"
#include "codegen/compile.h"
#include "tools/device_session.h"

namespace tilewright::cli {

enum class TimingPolicy : std::uint8_t {
  kCold,   // graph replay, the L2 cache flushed before each launch, the flushes subtracted
  kWarm,   // graph replay, launches back to back
  kPlain,  // one launch between events after a flush
};
// "cold", "warm", "plain". Error kInvalidArgument.
llvm::Expected<TimingPolicy> parse_timing_policy(llvm::StringRef name);

// Context and builder must outlive it. One thread.
class DeviceRunner : public CandidateRunner {
 public:
  static llvm::Expected<std::unique_ptr<DeviceRunner>> create(DeviceSession& session, Builder& builder, const Graph& graph,
                                                              llvm::ArrayRef<std::int64_t> dims, CompileOptions options,
                                                              TimingPolicy policy);
  llvm::Expected<std::vector<HostTensor>> run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                              llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) override;
  llvm::Expected<std::vector<double>> time(const ConfigOverrides& config, unsigned samples) override;

 private:
  struct Timed;  // a candidate loaded for timing
  DeviceRunner(DeviceSession& session, Builder& builder, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, CompileOptions options,
               TimingPolicy policy, Stream stream, Event start, Event end, DeviceBuffer flush);
  llvm::Expected<std::unique_ptr<Program>> load(const ConfigOverrides& config);
  llvm::Expected<Timed*> timed(const ConfigOverrides& config);
  llvm::Error make_buffers();
  llvm::Error flush(CUstream stream);
  llvm::Expected<double> time_ms(llvm::function_ref<llvm::Error(CUstream)> work);
  llvm::Expected<double> sample(Timed& candidate);

  DeviceSession& session_;
  Builder& builder_;
  const Graph& graph_;
  llvm::SmallVector<std::int64_t, 4> dims_;
  CompileOptions options_;
  TimingPolicy policy_;
  Stream stream_;
  Event start_, end_;
  DeviceBuffer flush_;
  std::vector<DeviceBuffer> buffers_;  // of timing: inputs and outputs of the real size, shared by all candidates
  llvm::SmallVector<CUdeviceptr, 8> inputs_, outputs_;
  std::map<std::uint64_t, GraphExec> flushes_;  // by the number of flushes in it
  std::map<ConfigOverrides, std::unique_ptr<Timed>> loaded_;

 public:
  ~DeviceRunner() override;
};

}  // namespace tilewright::cli
