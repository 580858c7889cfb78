#include "autotune/host_runner.h"

#include <algorithm>
#include <cmath>

#include "autotune/prune.h"
#include "runtime/error.h"
#include "runtime/random.h"

namespace tilewright {

std::vector<double> SimulatedTimer::samples(double true_us, unsigned count) {
  auto uniform = [&] { return static_cast<double>((splitmix64(state_) >> 11) + 1) * 0x1p-53; };  // (0, 1]
  std::vector<double> samples;
  for (unsigned i = 0; i < count; ++i) {
    const double gauss = std::sqrt(-2 * std::log(uniform())) * std::cos(2 * 3.14159265358979 * uniform());
    samples.push_back(true_us * std::max(0.1, 1 + noise_ * gauss));
  }
  return samples;
}

HostRunner::HostRunner(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, CompileOptions options, const Target& target, double noise,
                       std::uint64_t seed, std::unique_ptr<HostBuilder> builder)
    : graph_(graph), dims_(dims), options_(std::move(options)), target_(target), timer_(noise, seed), builder_(std::move(builder)) {}

llvm::Expected<std::vector<HostTensor>> HostRunner::run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                                        llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) {
  RunOnHostOptions options;
  options.compile = options_;
  options.compile.overrides = config;
  options.run.shift_elements = shift_elements;
  auto result = run_on_host(graph_, inputs, dims, *builder_, options);
  if (!result) return result.takeError();
  return std::move(result->outputs);
}

llvm::Expected<TimedSamples> HostRunner::time(const ConfigOverrides& config, unsigned samples) {
  CompileOptions options = options_;
  options.overrides = config;
  auto prepared = prepare_program(graph_, options);
  if (!prepared) return prepared.takeError();
  const double true_us = predict_us(graph_, *prepared, dims_, options.device, sm_model(target_), DeviceRates());
  return TimedSamples{timer_.samples(true_us, samples), {}, {}};
}

}  // namespace tilewright
