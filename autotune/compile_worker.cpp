#include "autotune/compile_worker.h"

#include <algorithm>

#include "autotune/proc_facts.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {

HelperProcess* WorkerCompiler::acquire(std::string& reason) {
  HelperProcess* worker = nullptr;
  {
    // Spawned under the lock, so that stop() finds every worker there is.
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      reason = "the compilation was stopped";
      return nullptr;
    }
    while (!idle_.empty()) {
      worker = idle_.back();
      idle_.pop_back();
      if (worker->running()) return worker;
      // Ended while it had nothing to do: that costs no candidate.
      llvm::erase_if(workers_, [&](const auto& one) { return one.get() == worker; });
    }
    auto created = std::make_unique<HelperProcess>();
    if (llvm::Error error = created->spawn(options_.program, options_.arguments)) {
      reason = take_error_facts(std::move(error)).message;
      return nullptr;
    }
    worker = created.get();
    workers_.push_back(std::move(created));
  }
  auto greeted = worker->greet(options_.start_limit_s);
  reason = greeted ? *greeted : take_error_facts(greeted.takeError()).message;
  if (reason.empty()) return worker;
  reason = "no compiler: " + reason;
  retire(worker, false);
  return nullptr;
}

void WorkerCompiler::release(HelperProcess* worker) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(worker);
}

std::string WorkerCompiler::retire(HelperProcess* worker, bool ends_by_itself) {
  std::unique_ptr<HelperProcess> mine;
  {
    const std::lock_guard lock(mutex_);
    const auto at = llvm::find_if(workers_, [&](const auto& one) { return one.get() == worker; });
    mine = std::move(*at);
    workers_.erase(at);
  }
  return ends_by_itself ? mine->wait_for_end() : mine->stop();
}

void WorkerCompiler::note_memory(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ = std::max(bytes_, bytes);
}

Candidate WorkerCompiler::compile(const ConfigOverrides& config) {
  Candidate failed;
  failed.config = config;
  failed.fate = Fate::kCompileFailed;
  HelperProcess* worker = acquire(failed.reason);
  if (worker == nullptr) return failed;
  std::string line;
  const LineRead read = worker->ask(llvm::json::Object{{"config", config_json(config)}}, line, options_.time_limit_s);
  if (read == LineRead::kLate) {
    note_memory(peak_memory(worker->process()));
    retire(worker, false);
    failed.reason = fmt::format("not compiled within {:g} s", options_.time_limit_s);
    return failed;
  }
  if (read == LineRead::kEnd) {
    failed.reason = "the compiler ended: " + retire(worker, true);
    return failed;
  }
  auto json = llvm::json::parse(line);
  auto candidate = json ? parse_candidate(*json) : llvm::Expected<Candidate>(json.takeError());
  if (candidate && candidate->config == config) {
    note_memory(static_cast<std::uint64_t>(json->getAsObject()->getInteger("bytes").value_or(0)));
    release(worker);
    return std::move(*candidate);
  }
  failed.reason =
      "the compiler's answer cannot be read: " + (candidate ? "it is of another config" : take_error_facts(candidate.takeError()).message);
  retire(worker, false);
  return failed;
}

void WorkerCompiler::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& worker : workers_) worker->kill();
}

std::uint64_t WorkerCompiler::bytes_per_compile() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::vector<int> WorkerCompiler::processes() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ids;
  for (const auto& worker : workers_) {
    if (const int id = worker->process(); id > 0) ids.push_back(id);
  }
  return ids;
}

llvm::Error serve_compiler(CandidateCompiler& compiler, int in, int out) {
  return serve_requests(in, out, [&](const llvm::json::Object&, const ConfigOverrides& config) -> llvm::Expected<llvm::json::Object> {
    llvm::json::Object answer = candidate_json(compiler.compile(config));
    answer["bytes"] = static_cast<std::int64_t>(compiler.bytes_per_compile());
    return answer;
  });
}

}  // namespace tilewright
