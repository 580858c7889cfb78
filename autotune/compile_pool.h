// Compiles several candidates at a time while others are timed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "autotune/candidate.h"
#include "autotune/prune.h"
#include "codegen/compile.h"

namespace tilewright {

// Makes a candidate ready to run: lowers, compiles, prunes. Thread-safe. Never an error: what fails is the candidate's fate.
class CandidateCompiler {
 public:
  virtual ~CandidateCompiler() = default;
  // The candidate with keys, resources and prediction filled in; its fate stays kWaiting when it may run.
  virtual Candidate compile(const ConfigOverrides& config) = 0;
  // What is being compiled may end at once, with any result: nobody waits for it, and nothing more is compiled.
  virtual void stop() {}
  // The most memory one compilation was seen to use; 0: not known.
  virtual std::uint64_t bytes_per_compile() const { return 0; }
};

// The real one, in this process. References must outlive it.
class ProgramCompiler : public CandidateCompiler {
 public:
  ProgramCompiler(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, Target target, CompileOptions options, Builder& builder)
      : graph_(graph), dims_(dims), target_(target), options_(std::move(options)), builder_(builder) {}
  Candidate compile(const ConfigOverrides& config) override;
  // The peak of this whole process, once it has compiled and not only taken kernels from the store.
  std::uint64_t bytes_per_compile() const override;

 private:
  const Graph& graph_;
  llvm::SmallVector<std::int64_t, 4> dims_;
  Target target_;
  CompileOptions options_;
  Builder& builder_;
  std::atomic<bool> compiled_ = false;
};

struct PoolOptions {
  unsigned threads = 0;            // 0: one per core
  std::uint64_t memory_bytes = 0;  // what all compilations together may use; 0: half of what is available
};

class CompilePool {
 public:
  CompilePool(CandidateCompiler& compiler, PoolOptions options);
  ~CompilePool();  // stops the compiler; what waits is dropped
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  void submit(const ConfigOverrides& config);
  // The oldest submitted, when it is ready. Nothing submitted: a default Candidate.
  Candidate take();
  std::size_t pending() const;
  // Threads that compile at a time: fewer than asked for where a compilation was measured to need much memory.
  unsigned width() const;

 private:
  struct Job;
  void work();
  void run(const std::shared_ptr<Job>& job);

  CandidateCompiler& compiler_;
  PoolOptions options_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable wake_, ready_;
  std::deque<std::shared_ptr<Job>> waiting_, order_;
  unsigned running_ = 0, width_ = 1;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tilewright
