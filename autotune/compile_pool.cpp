#include "autotune/compile_pool.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

// "VmHWM:   1234 kB" of a file in /proc, in bytes.
std::uint64_t proc_field(llvm::StringRef text, llvm::StringRef name) {
  const std::size_t at = text.find(name);
  if (at == llvm::StringRef::npos) return 0;
  llvm::StringRef number = text.substr(at + name.size()).ltrim(": \t");
  std::uint64_t kilobytes = 0;
  return number.consumeInteger(10, kilobytes) ? 0 : kilobytes << 10;
}

std::string proc_text(const char* path) {
  auto buffer = llvm::MemoryBuffer::getFileAsStream(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

}  // namespace

MemoryFacts memory_facts() {
  const std::string self = proc_text("/proc/self/status"), machine = proc_text("/proc/meminfo");
  return {proc_field(self, "VmRSS"), proc_field(self, "VmHWM"), proc_field(machine, "MemAvailable")};
}

Candidate ProgramCompiler::compile(const ConfigOverrides& config) {
  Candidate candidate;
  candidate.config = config;
  auto fail = [&](Fate fate, llvm::Error error) {
    candidate.fate = fate;
    candidate.reason = take_error_facts(std::move(error)).message;
    return candidate;
  };
  CompileOptions options = options_;
  options.overrides = config;
  auto prepared = prepare_program(graph_, options);
  if (!prepared) return fail(Fate::kRefused, prepared.takeError());
  auto artifacts = builder_.get_all(prepared->sources, target_, 1);
  if (!artifacts) return fail(Fate::kCompileFailed, artifacts.takeError());
  const SmModel sm = sm_model(target_);
  std::vector<CubinFacts> facts;
  std::vector<std::string> logs;
  for (const auto& artifact : *artifacts) {
    candidate.keys.push_back(artifact->key);
    candidate.compile_ms += artifact->compile_ms;
    facts.push_back(artifact->facts);
    logs.push_back(artifact->log);
  }
  candidate.resources = resources_of(prepared->lowered, facts, sm);
  candidate.predicted_us = predict_us(graph_, *prepared, dims_, options.device, sm, DeviceRates(), facts);
  candidate.reason = prune_reason(candidate.resources, sm, logs);
  if (!candidate.reason.empty()) candidate.fate = Fate::kPruned;
  return candidate;
}

struct CompilePool::Job {
  ConfigOverrides config;
  std::optional<Clock::time_point> started;
  std::optional<Candidate> result;
};

CompilePool::CompilePool(CandidateCompiler& compiler, PoolOptions options) : compiler_(compiler), options_(options) {
  if (options_.threads == 0) options_.threads = std::max(1u, std::thread::hardware_concurrency());
  if (options_.memory_bytes == 0) options_.memory_bytes = memory_facts().available / 2;
  for (unsigned i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
}

CompilePool::~CompilePool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CompilePool::submit(const ConfigOverrides& config) {
  auto job = std::make_shared<Job>();
  job->config = config;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(job);
    order_.push_back(std::move(job));
  }
  wake_.notify_one();
}

Candidate CompilePool::take() {
  std::unique_lock lock(mutex_);
  if (order_.empty()) return {};
  const std::shared_ptr<Job> job = order_.front();
  order_.pop_front();
  const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.time_limit_s));
  while (!job->result) {
    if (!job->started) {
      ready_.wait_for(lock, std::chrono::milliseconds(50));
    } else if (ready_.wait_until(lock, *job->started + limit) == std::cv_status::timeout && !job->result) {
      Candidate late;
      late.config = job->config;
      late.fate = Fate::kCompileFailed;
      late.reason = fmt::format("not compiled within {:.0f} s", options_.time_limit_s);
      return late;
    }
  }
  return std::move(*job->result);
}

std::size_t CompilePool::pending() const {
  const std::lock_guard lock(mutex_);
  return order_.size();
}

unsigned CompilePool::width() const {
  const std::lock_guard lock(mutex_);
  return width_;
}

std::uint64_t CompilePool::bytes_per_compile() const {
  const std::lock_guard lock(mutex_);
  return bytes_per_compile_;
}

void CompilePool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || (!waiting_.empty() && running_ < width_); });
    if (stop_) return;
    const std::shared_ptr<Job> job = waiting_.front();
    waiting_.pop_front();
    job->started = Clock::now();
    ++running_;
    lock.unlock();
    run(job);
    lock.lock();
  }
}

// The first compilation runs alone, and what it added to the peak says how many fit.
void CompilePool::run(const std::shared_ptr<Job>& job) {
  const MemoryFacts before = memory_facts();
  Candidate result = compiler_.compile(job->config);
  const MemoryFacts after = memory_facts();
  {
    const std::lock_guard lock(mutex_);
    --running_;
    // One that came from the store, or was refused, says nothing.
    if (!measured_ && result.compile_ms > 0) {
      measured_ = true;
      bytes_per_compile_ = after.peak - std::min(after.peak, std::max(before.resident, std::uint64_t{1}));
      const std::uint64_t fit = bytes_per_compile_ > 0 ? options_.memory_bytes / bytes_per_compile_ : options_.threads;
      width_ = static_cast<unsigned>(std::clamp<std::uint64_t>(fit, 1, options_.threads));
    }
    job->result = std::move(result);
  }
  ready_.notify_all();
  wake_.notify_all();
}

}  // namespace tilewright
