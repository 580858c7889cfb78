// Candidates without a GPU: generated kernels on the CPU, timed by a simulation.
#pragma once

#include <memory>

#include "autotune/verifier.h"
#include "codegen/run_on_host.h"

namespace tilewright {

// Times made up from the cost model, with noise of a chosen size: the same for the same config, seed and number of the sample.
class SimulatedTimer {
 public:
  // `noise`: standard deviation, relative.
  SimulatedTimer(double noise, std::uint64_t seed) : noise_(noise), state_(seed) {}
  // Samples around `true_us`.
  std::vector<double> samples(double true_us, unsigned count);

 private:
  double noise_;
  std::uint64_t state_;
};

// Runs candidates by run_on_host, kernels by `builder`; times are predict_us() with noise. The graph must outlive it.
class HostRunner : public CandidateRunner {
 public:
  HostRunner(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, CompileOptions options, const Target& target, double noise,
             std::uint64_t seed, std::unique_ptr<HostBuilder> builder = make_host_builder());
  llvm::Expected<std::vector<HostTensor>> run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                              llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) override;
  llvm::Expected<TimedSamples> time(const ConfigOverrides& config, unsigned samples) override;

 private:
  const Graph& graph_;
  llvm::SmallVector<std::int64_t, 4> dims_;
  CompileOptions options_;
  Target target_;
  SimulatedTimer timer_;
  std::unique_ptr<HostBuilder> builder_;
};

}  // namespace tilewright
