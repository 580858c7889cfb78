// Compiles candidates in worker processes, which unlike the compiler itself can be ended at any moment.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "autotune/compile_pool.h"
#include "autotune/helper_process.h"

namespace tilewright {

struct WorkerOptions {
  std::string program;                 // absolute path
  std::vector<std::string> arguments;  // without the program's name
  double time_limit_s = 20;            // of one compilation
  double start_limit_s = 30;           // until a worker says that it can compile
};

// One worker for each compilation at a time, started when it is wanted and kept for later ones. A worker that ends or takes longer than the
// limit costs its candidate alone (kCompileFailed). What it compiled is found through the store on disk. Workers end with this object; they
// may end with the thread that first had something compiled in them.
class WorkerCompiler : public CandidateCompiler {
 public:
  explicit WorkerCompiler(WorkerOptions options) : options_(std::move(options)) {}
  Candidate compile(const ConfigOverrides& config) override;
  void stop() override;
  std::uint64_t bytes_per_compile() const override;  // of a whole worker
  std::vector<int> processes() const;                // ids of the workers that are there

 private:
  // nullptr and the reason: there is none to be had.
  HelperProcess* acquire(std::string& reason);
  void note_memory(std::uint64_t bytes);
  void release(HelperProcess* worker);                             // keeps it for the next
  std::string retire(HelperProcess* worker, bool ends_by_itself);  // what ended it

  WorkerOptions options_;
  mutable std::mutex mutex_;  // guards the rest
  std::vector<std::unique_ptr<HelperProcess>> workers_;
  std::vector<HelperProcess*> idle_;
  std::uint64_t bytes_ = 0;
  bool stopped_ = false;
};

// Answers the requests of a WorkerCompiler, as serve_requests.
llvm::Error serve_compiler(CandidateCompiler& compiler, int in, int out);

}  // namespace tilewright
