#include "autotune/compile_pool.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "autotune/proc_facts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/error.h"

namespace tilewright {

std::uint64_t ProgramCompiler::bytes_per_compile() const { return compiled_ ? peak_memory(::getpid()) : 0; }

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
    if (artifact->origin == Origin::kCompiled) compiled_ = true;
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
  std::optional<Candidate> result;
};

CompilePool::CompilePool(CandidateCompiler& compiler, PoolOptions options) : compiler_(compiler), options_(options) {
  if (options_.threads == 0) options_.threads = std::max(1u, std::thread::hardware_concurrency());
  if (options_.memory_bytes == 0) options_.memory_bytes = available_memory() / 2;
  for (unsigned i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
}

CompilePool::~CompilePool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  compiler_.stop();
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
  ready_.wait(lock, [&] { return job->result.has_value(); });
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

void CompilePool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || (!waiting_.empty() && running_ < width_); });
    if (stop_) return;
    const std::shared_ptr<Job> job = waiting_.front();
    waiting_.pop_front();
    ++running_;
    lock.unlock();
    run(job);
    lock.lock();
  }
}

// Until the first compilation is done only one runs; what it was seen to use says how many fit.
void CompilePool::run(const std::shared_ptr<Job>& job) {
  Candidate result = compiler_.compile(job->config);
  const std::uint64_t bytes = compiler_.bytes_per_compile();
  {
    const std::lock_guard lock(mutex_);
    --running_;
    // One that was refused says nothing.
    if (bytes > 0 || result.compile_ms > 0) {
      const std::uint64_t fit = bytes > 0 ? options_.memory_bytes / bytes : options_.threads;
      width_ = static_cast<unsigned>(std::clamp<std::uint64_t>(fit, 1, options_.threads));
    }
    job->result = std::move(result);
  }
  ready_.notify_all();
  wake_.notify_all();
}

}  // namespace tilewright
