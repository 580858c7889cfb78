// What the ways of `run` (GPU, host, reference) share.
#pragma once

#include <string>
#include <vector>

#include "ops/reference.h"
#include "tools/cli.h"
#include "tools/run_data.h"

namespace tilewright::cli {

struct RunOptions {
  std::string file;
  std::string on;  // "": the GPU where there is one, else host
  int device = 0;
  std::vector<std::string> dims;
  RunDataOptions data;
  std::string output;
  std::string config;
  unsigned threads = 0;
  bool no_reference = false;
  bool no_fuse = false;
  bool json = false;
  // --on host
  std::string sanitize;
  unsigned stress = 1;
  double time_limit_s = 300;
  bool contained = false;  // this is the child in which kernels run
};

struct TimedReference {
  std::vector<ReferenceTensor> outputs;
  double seconds = 0;
};
// Errors of evaluate_reference.
llvm::Expected<TimedReference> evaluate_timed(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims,
                                              llvm::ArrayRef<HostTensor> inputs);

// Writes the outputs where --output is given.
llvm::Error save_outputs(const RunOptions& options, const Graph& graph, llvm::ArrayRef<HostTensor> outputs);

// The head of every answer: name, dims, where the inputs came from.
std::string head_text(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims);
llvm::json::Object head_json(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims);

struct Judgement {
  std::string text;
  llvm::json::Array json;
  std::string complaint;  // of the first output that differs
};
Judgement judge(const Graph& graph, llvm::ArrayRef<HostTensor> outputs, const TimedReference& wanted);
// What stands in place of a judgement with --no-reference.
Judgement no_judgement();

// run --on host: in a child of this process, which prints its answer itself, or as that child.
llvm::Expected<Output> run_host(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims);

}  // namespace tilewright::cli
