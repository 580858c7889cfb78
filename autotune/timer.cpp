#include "autotune/timer.h"

#include <algorithm>
#include <cmath>

#include "codegen/compile.h"
#include "llvm/ADT/STLExtras.h"
#include "ops/builder.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr std::uint64_t kBandwidthBytes = std::uint64_t{4} << 30;  // far beyond any L2 cache
constexpr unsigned kBandwidthWarmups = 3;
constexpr unsigned kBandwidthRuns = 10;
constexpr std::int64_t kReadColumns = 16384;
constexpr unsigned kEstimateRuns = 5;

// y[r] = sum_c x[r, c]
llvm::Expected<Graph> row_sums(std::int64_t rows) {
  GraphBuilder builder("read_bandwidth");
  auto x = builder.input("x", DType::kF32, Shape{rows, kReadColumns});
  if (!x) return x.takeError();
  auto y = builder.reduce(*x, ReduceKind::kSum, {1}, false, "y");
  if (!y) return y.takeError();
  return std::move(builder).build({*y});
}

// Bytes to move on this device: 4 GiB, or an eighth of what is free where that is less.
llvm::Expected<std::uint64_t> bandwidth_bytes(const Driver& driver) {
  std::size_t free_bytes = 0, total_bytes = 0;
  if (llvm::Error error = driver.check(driver.mem_get_info(&free_bytes, &total_bytes), "asking for free device memory")) return error;
  constexpr std::uint64_t kRowBytes = kReadColumns * sizeof(float);
  return std::max(std::min<std::uint64_t>(kBandwidthBytes, free_bytes / 8) / kRowBytes * kRowBytes, kRowBytes);
}

}  // namespace

llvm::Expected<Timing> summarize(llvm::ArrayRef<double> samples_us) {
  if (samples_us.empty()) return make_error(Status::kInternal, "timer: no samples");
  std::vector<double> sorted(samples_us.begin(), samples_us.end());
  llvm::sort(sorted);
  Timing timing;
  timing.samples = sorted.size();
  const double count = static_cast<double>(sorted.size());
  for (double sample : sorted) timing.mean_us += sample / count;
  double squares = 0;
  for (double sample : sorted) squares += (sample - timing.mean_us) * (sample - timing.mean_us);
  if (sorted.size() > 1) timing.std_us = std::sqrt(squares / (count - 1));
  timing.median_us = sorted[(sorted.size() - 1) / 2];
  timing.min_us = sorted.front();
  return timing;
}

llvm::Expected<Timing> summarize_differences(llvm::ArrayRef<double> together_ms, llvm::ArrayRef<double> alone_ms, std::uint64_t runs) {
  std::vector<double> samples;
  for (auto [together, alone] : llvm::zip_equal(together_ms, alone_ms)) {
    samples.push_back((together - alone) * 1e3 / static_cast<double>(runs));
  }
  auto timing = summarize(samples);
  if (!timing) return timing.takeError();
  if (!(timing->mean_us > 0)) {
    return make_error(Status::kUnsupported,
                      "protocol kernelbot: with the work {} runs take {:.4f} us each less than without it (std {:.4f} us): it is too short "
                      "for this protocol, use kernelbench",
                      runs, -timing->mean_us, timing->std_us);
  }
  timing->runs_per_sample = runs;
  return timing;
}

double geometric_mean(llvm::ArrayRef<double> numbers) {
  if (numbers.empty()) return 0;
  double logs = 0;
  for (double number : numbers) logs += std::log(number);
  return std::exp(logs / static_cast<double>(numbers.size()));
}

llvm::Expected<Timer> Timer::create(const Driver& driver) {
  auto stream = Stream::create(driver);
  if (!stream) return stream.takeError();
  auto start = Event::create(driver);
  if (!start) return start.takeError();
  auto end = Event::create(driver);
  if (!end) return end.takeError();
  auto flush = DeviceBuffer::allocate(driver, kFlushBytes);
  if (!flush) return flush.takeError();
  return Timer(driver, std::move(*stream), std::move(*start), std::move(*end), std::move(*flush));
}

llvm::Error Timer::flush() { return fill_async(*driver_, flush_.pointer(), 0, kFlushBytes, stream()); }

llvm::Expected<double> Timer::time_ms(Launch work, llvm::function_ref<void()> meanwhile) {
  if (llvm::Error error = start_.record(stream())) return error;
  if (llvm::Error error = work(stream())) return error;
  if (llvm::Error error = end_.record(stream())) return error;
  if (meanwhile) meanwhile();
  if (llvm::Error error = stream_.synchronize()) return error;
  return end_.milliseconds_since(start_);
}

llvm::Expected<Timing> Timer::kernelbench(Launch launch, const KernelBenchOptions& options, llvm::function_ref<void()> step) {
  for (unsigned run = 0; run < options.warmups; ++run) {
    if (llvm::Error error = launch(stream())) return error;
    if (llvm::Error error = stream_.synchronize()) return error;
  }
  std::vector<double> samples;
  for (unsigned run = 0; run < options.runs; ++run) {
    if (llvm::Error error = stream_.synchronize()) return error;
    // The published protocol fills with the number 42 by a kernel; a memset writes the same bytes' worth of dirty lines.
    if (llvm::Error error = flush()) return error;
    auto elapsed = time_ms(launch);
    if (!elapsed) return elapsed.takeError();
    if (run > 0 || options.runs == 1) samples.push_back(*elapsed * 1e3);
    if (step) step();
  }
  return summarize(samples);
}

llvm::Expected<Timing> Timer::kernelbot(Launch launch, const KernelBotOptions& options, llvm::function_ref<void()> step) {
  auto flushed_run = [&](CUstream stream) -> llvm::Error {
    if (llvm::Error error = flush()) return error;
    return launch(stream);
  };
  if (llvm::Error error = flushed_run(stream())) return error;
  if (llvm::Error error = stream_.synchronize()) return error;
  auto estimate = time_ms([&](CUstream stream) -> llvm::Error {
    for (unsigned run = 0; run < kEstimateRuns; ++run) {
      if (llvm::Error error = flushed_run(stream)) return error;
    }
    return llvm::Error::success();
  });
  if (!estimate) return estimate.takeError();
  const double run_ms = std::max(*estimate / kEstimateRuns, 1e-3);
  const auto runs = static_cast<std::uint64_t>(std::max(1.0, options.sample_ms / run_ms));

  auto capture = [&](bool with_work) {
    return GraphExec::capture(*driver_, stream(), [&]() -> llvm::Error {
      for (std::uint64_t run = 0; run < runs; ++run) {
        if (llvm::Error error = with_work ? flushed_run(stream()) : flush()) return error;
      }
      return llvm::Error::success();
    });
  };
  auto work = capture(true);
  if (!work) return work.takeError();
  auto memsets = capture(false);
  if (!memsets) return memsets.takeError();
  std::vector<double> together_ms, alone_ms;
  for (unsigned sample = 0; sample < options.samples; ++sample) {
    auto alone = time_ms([&](CUstream stream) { return memsets->launch(stream); });
    if (!alone) return alone.takeError();
    auto both = time_ms([&](CUstream stream) { return work->launch(stream); });
    if (!both) return both.takeError();
    alone_ms.push_back(*alone);
    together_ms.push_back(*both);
    if (step) step();
  }
  return summarize_differences(together_ms, alone_ms, runs);
}

llvm::Expected<double> Timer::bandwidth(std::uint64_t bytes, llvm::function_ref<llvm::Error(CUstream)> work) {
  for (unsigned run = 0; run < kBandwidthWarmups; ++run) {
    if (llvm::Error error = work(stream())) return error;
  }
  if (llvm::Error error = stream_.synchronize()) return error;
  auto elapsed = time_ms([&](CUstream stream) -> llvm::Error {
    for (unsigned run = 0; run < kBandwidthRuns; ++run) {
      if (llvm::Error error = work(stream)) return error;
    }
    return llvm::Error::success();
  });
  if (!elapsed) return elapsed.takeError();
  return static_cast<double>(bytes) * kBandwidthRuns / (*elapsed * 1e-3);
}

llvm::Expected<double> Timer::copy_bandwidth() {
  auto bytes = bandwidth_bytes(*driver_);
  if (!bytes) return bytes.takeError();
  auto from = DeviceBuffer::allocate(*driver_, *bytes);
  if (!from) return from.takeError();
  auto to = DeviceBuffer::allocate(*driver_, *bytes);
  if (!to) return to.takeError();
  if (llvm::Error error = from->fill(1, stream())) return error;
  return bandwidth(2 * *bytes, [&](CUstream stream) {
    return driver_->check(driver_->memcpy_on_device_async(to->pointer(), from->pointer(), *bytes, stream), "copying on the device");
  });
}

llvm::Expected<double> Timer::read_bandwidth(Builder& builder, const Target& target) {
  auto bytes = bandwidth_bytes(*driver_);
  if (!bytes) return bytes.takeError();
  const auto rows = static_cast<std::int64_t>(*bytes / (kReadColumns * sizeof(float)));
  auto graph = row_sums(rows);
  if (!graph) return graph.takeError();
  CompileOptions options;
  options.device = device_model(target);
  auto compiled = compile_program(*graph, target, builder, options);
  if (!compiled) return compiled.takeError();
  auto program = load_program(*driver_, *compiled);
  if (!program) return program.takeError();
  auto workspace_bytes = (*program)->workspace_bytes({});
  if (!workspace_bytes) return workspace_bytes.takeError();
  auto x = DeviceBuffer::allocate(*driver_, *bytes);
  if (!x) return x.takeError();
  auto y = DeviceBuffer::allocate(*driver_, static_cast<std::uint64_t>(rows) * sizeof(float));
  if (!y) return y.takeError();
  auto scratch = DeviceBuffer::allocate(*driver_, static_cast<std::uint64_t>(*workspace_bytes));
  if (!scratch) return scratch.takeError();
  const Workspace workspace{scratch->pointer(), *workspace_bytes};
  if (llvm::Error error = x->fill(0, stream())) return error;
  if (llvm::Error error = (*program)->initialize_workspace(workspace, {}, stream())) return error;
  return bandwidth(*bytes, [&](CUstream stream) { return (*program)->launch({x->pointer()}, {y->pointer()}, workspace, {}, stream); });
}

}  // namespace tilewright
