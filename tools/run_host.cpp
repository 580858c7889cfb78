// run --on host: generated kernels on the CPU, in a child process that may crash.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "codegen/run_on_host.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Program.h"
#include "runtime/files.h"
#include "tools/command_run.h"
#include "tools/progress.h"

extern "C" char** environ;

namespace tilewright::cli {
namespace {

constexpr std::size_t kProgressSteps = 1000;
constexpr double kGrace = 5;  // seconds between asking a kernel to stop and stopping the process

void write_line(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) std::abort();
}

// A kernel crashed: says which thread of it, and leaves.
void on_crash(int signal) {
  static std::atomic<bool> first{true};
  if (!first.exchange(false)) ::_exit(kBad);
  char who[256], text[400];
  describe_current_thread(who, sizeof(who));
  std::snprintf(text, sizeof(text), "tilewright: error: %s: crashed (%s)\n", *who != '\0' ? who : "outside of any kernel",
                ::strsignal(signal));
  write_line(text);
  ::_exit(kBad);
}

// Handlers run on a stack of their own: a fiber's may be what overflowed. A sanitizer reports faults of memory itself, then aborts.
void install_crash_handlers(bool sanitized) {
  static thread_local char stack[64 << 10];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  ::sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGABRT, SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGTRAP}) {
    if (sanitized && (signal == SIGSEGV || signal == SIGBUS)) continue;
    ::sigaction(signal, &action, nullptr);
  }
}

// Ends the process when a kernel does not end: one that touches no memory cannot be asked to stop.
class Watchdog {
 public:
  explicit Watchdog(double limit_s) : thread_([this, limit_s] { watch(limit_s); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  void watch(double limit_s) {
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, std::chrono::duration<double>(limit_s + kGrace), [this] { return done_; })) return;
    write_line(
        fmt::format("tilewright: error: time limit of {:.1f} s reached; an endless loop that touches no memory?\n", limit_s).c_str());
    ::_exit(kBad);
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

// Blocks done, as steps of a bar that any thread may move.
class BlockProgress {
 public:
  explicit BlockProgress(Progress& progress) : progress_(progress) {}
  void operator()(std::uint64_t done, std::uint64_t total) {
    const std::lock_guard lock(mutex_);
    for (const auto wanted = static_cast<std::size_t>(done * kProgressSteps / std::max<std::uint64_t>(total, 1)); shown_ < wanted; ++shown_)
      progress_.advance();
  }

 private:
  Progress& progress_;
  std::mutex mutex_;
  std::size_t shown_ = 0;
};

struct HostOutcome {
  HostRun first;
  std::string compiler;
  std::string unstable;  // an output whose bits another schedule changed
};

llvm::Expected<HostOutcome> compute_on_host(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims,
                                            llvm::ArrayRef<HostTensor> inputs) {
  auto overrides = parse_config(options.config);
  if (!overrides) return overrides.takeError();
  const std::unique_ptr<HostBuilder> builder = make_host_builder();
  auto compiler = builder->compiler();
  if (!compiler) return compiler.takeError();
  RunOnHostOptions run;
  run.compile.plan.fuse = !options.no_fuse;
  run.compile.overrides = std::move(*overrides);
  run.sanitize = options.sanitize;
  run.run.execute.threads = options.threads;
  run.run.execute.time_limit_s = options.time_limit_s;
  HostOutcome outcome;
  outcome.compiler = compiler->identity();
  for (unsigned i = 0; i < std::max(1u, options.stress); ++i) {
    Progress progress("run on host", kProgressSteps);
    BlockProgress blocks(progress);
    progress.step(i == 0 ? "blocks" : fmt::format("blocks, schedule {} of {}", i + 1, options.stress));
    run.run.execute.seed = options.data.seed + i;
    run.run.execute.progress = [&](std::uint64_t done, std::uint64_t total) { blocks(done, total); };
    auto result = run_on_host(graph, inputs, dims, *builder, run);
    if (!result) return prefix_error(result.takeError(), i == 0 ? "" : fmt::format("schedule of seed {}: ", run.run.execute.seed));
    if (i == 0) {
      outcome.first = std::move(*result);
      continue;
    }
    for (auto [id, first, again] : llvm::zip_equal(graph.outputs(), outcome.first.outputs, result->outputs)) {
      if (first.bytes != again.bytes && outcome.unstable.empty())
        outcome.unstable = fmt::format("{} (schedule of seed {})", graph.value(id).name, run.run.execute.seed);
    }
  }
  return outcome;
}

Output report_host(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const HostOutcome& outcome,
                   Judgement judgement) {
  Output output;
  if (!judgement.complaint.empty()) output.status = kBad, output.complaint = judgement.complaint;
  const HostRun& run = outcome.first;
  const std::string checks = options.sanitize.empty() ? "accesses, races and barriers checked" : "under -fsanitize=" + options.sanitize;
  if (options.json) {
    llvm::json::Object json = head_json(options, graph, dims);
    llvm::json::Array kernels;
    for (const auto& artifact : run.artifacts) {
      kernels.push_back(llvm::json::Object{{"kernel", artifact->entry}, {"key", artifact->key}, {"origin", origin_name(artifact->origin)}});
    }
    json["on"] = "host";
    json["compiler"] = outcome.compiler;
    json["kernels"] = std::move(kernels);
    json["checks"] = checks;
    json["schedules"] = static_cast<std::int64_t>(std::max(1u, options.stress));
    json["compared"] = !options.no_reference;
    json["outputs"] = std::move(judgement.json);
    json["run_s"] = json_number(run.run_s);
    json["ok"] = output.status == kGood;
    output.text = json_text(std::move(json));
    return output;
  }
  output.text = head_text(options, graph, dims) +
                fmt::format("on the CPU ({}), {}, {}\n", outcome.compiler, count_text(run.artifacts.size(), "kernel"), checks);
  for (const auto& artifact : run.artifacts) output.text += fmt::format("  {} from {}\n", artifact->entry, origin_name(artifact->origin));
  output.text += judgement.text;
  if (options.stress > 1) {
    output.text +=
        fmt::format("same bits under {} schedules: {}\n", options.stress, outcome.unstable.empty() ? "yes" : "no, " + outcome.unstable);
  }
  output.text += fmt::format("ran in {} (for correctness, not speed)\n", time_text(run.run_s * 1e6));
  if (!options.output.empty()) output.text += fmt::format("written to {}\n", options.output);
  return output;
}

llvm::Expected<Output> run_contained(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  auto inputs = make_inputs(graph, dims, options.data);
  if (!inputs) return inputs.takeError();
  install_crash_handlers(!options.sanitize.empty());
  llvm::Expected<HostOutcome> outcome = [&] {
    const Watchdog watchdog(options.time_limit_s * std::max(1u, options.stress));
    return compute_on_host(options, graph, dims, *inputs);
  }();
  if (!outcome) return outcome.takeError();
  Judgement judgement = no_judgement();
  if (!options.no_reference) {
    Progress progress("run on host", 1);
    progress.step("reference");
    auto reference = evaluate_timed(options, graph, dims, *inputs);
    if (!reference) return reference.takeError();
    judgement = judge(graph, outcome->first.outputs, *reference);
  }
  if (!outcome->unstable.empty() && graph.deterministic() && judgement.complaint.empty())
    judgement.complaint = fmt::format("{}: the order of warps and blocks changes its bits", outcome->unstable);
  if (llvm::Error error = save_outputs(options, graph, outcome->first.outputs)) return error;
  return report_host(options, graph, dims, *outcome, std::move(judgement));
}

// This process's environment, and what a sanitized child needs besides.
llvm::Expected<std::vector<std::string>> child_environment(const RunOptions& options) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  if (options.sanitize.empty()) return environment;
  auto compiler = HostCompiler::find();
  if (!compiler) return compiler.takeError();
  const std::string runtime = compiler->sanitizer_runtime();
  if (runtime.empty())
    return make_error(Status::kMissing, "--sanitize: {} has no shared library of its address sanitizer", compiler->identity());
  environment.push_back("LD_PRELOAD=" + runtime);
  environment.push_back("ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=0");
  environment.push_back("UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1");
  return environment;
}

}  // namespace

llvm::Expected<Output> run_host(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  if (!options.sanitize.empty()) {
    for (llvm::StringRef kind : llvm::split(options.sanitize, ',')) {
      if (kind != "address" && kind != "undefined")
        return make_error(Status::kInvalidArgument, "--sanitize {}: wanted address, undefined or both", options.sanitize);
    }
  }
  if (options.contained) return run_contained(options, graph, dims);
  auto command_line = read_file("/proc/self/cmdline");
  if (!command_line) return command_line.takeError();
  llvm::SmallVector<llvm::StringRef, 16> arguments;
  llvm::StringRef(*command_line).drop_back(command_line->empty() || command_line->back() != '\0' ? 0 : 1).split(arguments, '\0');
  arguments.append({"--on", "host", "--contained"});
  auto environment = child_environment(options);
  if (!environment) return environment.takeError();
  const llvm::SmallVector<llvm::StringRef, 64> variables(environment->begin(), environment->end());
  std::string message;
  const int status = llvm::sys::ExecuteAndWait("/proc/self/exe", arguments, llvm::ArrayRef<llvm::StringRef>(variables), {}, 0, 0, &message);
  // The child has said everything itself, unless something ended it that no handler sees.
  if (status < 0) return make_error(Status::kKernelFault, "the process in which the kernels ran ended: {}", message);
  return Output{"", static_cast<ExitStatus>(status)};
}

}  // namespace tilewright::cli
