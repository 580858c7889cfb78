// Candidates on a GPU: launches into fenced, poisoned buffers, times by graph replay.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "autotune/timer.h"
#include "autotune/verifier.h"
#include "codegen/compile.h"
#include "runtime/nvml.h"
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
  llvm::Expected<bool> renew(llvm::ArrayRef<HostTensor> inputs) override;
  llvm::Expected<TimedSamples> time(const ConfigOverrides& config, unsigned samples) override;
  ~DeviceRunner() override;

 private:
  struct Fenced;  // a buffer between two fences
  struct Loaded;  // a candidate
  struct Kept {   // inputs of a verification
    std::uint32_t shift_elements = 0;
    std::vector<Fenced> buffers;
  };
  DeviceRunner(DeviceSession& session, Builder& builder, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, CompileOptions options,
               TimingPolicy policy, Timer timer);
  llvm::Expected<Loaded*> load(const ConfigOverrides& config);
  llvm::Expected<Fenced> make_fenced(std::uint64_t bytes, std::uint64_t shift_bytes) const;
  llvm::Expected<std::vector<Fenced>> upload(llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) const;
  // Those on the device; `own` holds what is not worth keeping. Null pointers stand for empty tensors.
  llvm::Expected<llvm::SmallVector<CUdeviceptr, 8>> inputs_on_device(llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements,
                                                                     std::vector<Fenced>& own);
  llvm::Expected<std::vector<HostTensor>> take_outputs(llvm::ArrayRef<TensorSpec> specs, llvm::ArrayRef<Fenced> buffers,
                                                       llvm::ArrayRef<std::int64_t> dims);
  llvm::Error make_buffers();
  llvm::Error prepare_timing(Loaded& candidate);
  llvm::Error warm_up(Loaded& candidate);
  llvm::Expected<double> sample(Loaded& candidate, std::vector<DeviceReading>& during);

  DeviceSession& session_;
  Builder& builder_;
  const Graph& graph_;
  llvm::SmallVector<std::int64_t, 4> dims_;
  CompileOptions options_;
  TimingPolicy policy_;
  Timer timer_;
  std::optional<DeviceSensor> sensor_;
  std::vector<DeviceBuffer> buffers_;  // of timing: inputs and outputs of the real size, shared by all candidates
  llvm::SmallVector<CUdeviceptr, 8> inputs_, outputs_;
  std::map<std::uint64_t, GraphExec> flushes_;  // by the number of flushes in it
  std::map<ConfigOverrides, std::unique_ptr<Loaded>> loaded_;
  std::map<const HostTensor*, Kept> kept_;  // by where the inputs lie on the host
  std::uint64_t may_keep_bytes_ = 0;        // besides what is kept
  std::vector<std::uint8_t> staging_;       // outputs come through it: fresh memory costs more than the copy
  std::chrono::steady_clock::time_point last_sample_;
};

}  // namespace tilewright::cli
