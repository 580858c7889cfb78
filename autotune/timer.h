// How long work on a stream takes, by the two protocols that published records used, and how fast the memory of the device in hand is.
#pragma once

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "runtime/artifact.h"
#include "runtime/device.h"
#include "runtime/target.h"

namespace tilewright {

// Statistics of a set of samples, in microseconds.
struct Timing {
  double mean_us = 0;
  double std_us = 0;     // of the sample (divided by count - 1); 0 for fewer than two
  double median_us = 0;  // the lower of the two middle ones of an even count
  double min_us = 0;
  std::uint64_t samples = 0;
  std::uint64_t runs_per_sample = 1;
};

// Error kInternal for no samples.
llvm::Expected<Timing> summarize(llvm::ArrayRef<double> samples_us);

// Samples of runs of the work between things that take time themselves: together_ms[i] minus alone_ms[i], over `runs`. Error kUnsupported:
// the mean is not above zero, so the work is too short to be told from what stands around it.
llvm::Expected<Timing> summarize_differences(llvm::ArrayRef<double> together_ms, llvm::ArrayRef<double> alone_ms, std::uint64_t runs);

// exp(mean(log x)) of positive numbers; 0 for none.
double geometric_mean(llvm::ArrayRef<double> numbers);

// Submits the work to be timed to a stream.
using Launch = llvm::function_ref<llvm::Error(CUstream)>;

struct KernelBenchOptions {
  unsigned warmups = 5;
  unsigned runs = 101;  // the first is dropped
};

struct KernelBotOptions {
  unsigned samples = 10;
  double sample_ms = 100;  // aimed at length of one sample
};

// Owns a stream, two events and the buffer whose writing clears the L2 cache. Needs a current context, for its whole life. One thread.
class Timer {
 public:
  // Error kOutOfMemory, kDriver.
  static llvm::Expected<Timer> create(const Driver& driver);

  // Events around each run on the stream; the flush buffer is written before each. `step` is called after every run.
  llvm::Expected<Timing> kernelbench(Launch launch, const KernelBenchOptions& options = {}, llvm::function_ref<void()> step = {});

  // n runs captured in one graph, each after a memset of the flush buffer; a second graph of the memsets alone; the difference over n is
  // one sample. n comes from sample_ms and an estimate. `step` is called after every sample. Errors of summarize_differences.
  llvm::Expected<Timing> kernelbot(Launch launch, const KernelBotOptions& options = {}, llvm::function_ref<void()> step = {});

  // Bytes/s of a device-to-device copy of up to 4 GiB (read plus written bytes).
  llvm::Expected<double> copy_bandwidth();

  // Bytes/s of reading up to 4 GiB: the row sums of a large matrix, by a kernel built for `target`.
  llvm::Expected<double> read_bandwidth(Builder& builder, const Target& target);

  // Writes the flush buffer, in stream order.
  llvm::Error flush();
  // Milliseconds between two events around the work. `meanwhile` is called once the work is submitted, before it is waited for.
  llvm::Expected<double> time_ms(Launch work, llvm::function_ref<void()> meanwhile = {});
  llvm::Error synchronize() const { return stream_.synchronize(); }
  CUstream stream() const { return stream_.handle(); }

 private:
  static constexpr std::uint64_t kFlushBytes = std::uint64_t{256} << 20;
  Timer(const Driver& driver, Stream stream, Event start, Event end, DeviceBuffer flush)
      : driver_(&driver), stream_(std::move(stream)), start_(std::move(start)), end_(std::move(end)), flush_(std::move(flush)) {}
  llvm::Expected<double> bandwidth(std::uint64_t bytes, llvm::function_ref<llvm::Error(CUstream)> work);

  const Driver* driver_;
  Stream stream_;
  Event start_, end_;
  DeviceBuffer flush_;
};

}  // namespace tilewright
