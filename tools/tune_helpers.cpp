#include "tools/tune_helpers.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "autotune/host_runner.h"
#include "codegen/compile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "tools/device_runner.h"

namespace tilewright::cli {
namespace {

std::vector<std::string> arguments_of(const TuneCommand& options, const char* command, const std::string& file) {
  std::vector<std::string> arguments{command, file};
  for (const std::string& dim : options.dims) arguments.insert(arguments.end(), {"--dim", dim});
  if (options.no_fuse) arguments.push_back("--no-fuse");
  return arguments;
}

std::string this_program() { return llvm::sys::fs::getMainExecutable(nullptr, nullptr); }

llvm::Expected<Output> serve_candidates(const TuneCommand& options) {
  auto sized = load_sized(options.files[0], options.dims);
  if (!sized) return sized.takeError();
  CompileOptions compile;
  compile.plan.fuse = !options.no_fuse;
  Verifier verifier(sized->graph, sized->dims);
  std::unique_ptr<Builder> builder;
  std::unique_ptr<DeviceSession> session;
  std::unique_ptr<CandidateRunner> runner;
  if (options.on == "host") {
    const Target target;
    compile.device = device_model(target);
    runner = std::make_unique<HostRunner>(sized->graph, sized->dims, compile, target, options.noise, options.seed);
  } else {
    auto policy = parse_timing_policy(options.policy);
    if (!policy) return policy.takeError();
    builder = make_builder();
    auto opened = DeviceSession::open(options.device, *builder);
    if (!opened) return opened.takeError();
    session = std::move(*opened);
    // Outputs of the real size come and go with every candidate: their memory stays, as getting it costs more than filling it.
    ::mallopt(M_MMAP_MAX, 0);
    ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    auto created = DeviceRunner::create(*session, *builder, sized->graph, sized->dims, compile, *policy);
    if (!created) return created.takeError();
    runner = std::move(*created);
  }
  LocalTester tester(verifier, *runner);
  if (llvm::Error error = serve_tester(tester, STDIN_FILENO, STDOUT_FILENO)) return error;
  return Output{};
}

llvm::Expected<Output> serve_compilations(const TuneCommand& options) {
  auto sized = load_sized(options.files[0], options.dims);
  if (!sized) return sized.takeError();
  auto target = parse_target(options.targets);
  if (!target) return target.takeError();
  CompileOptions compile;
  compile.plan.fuse = !options.no_fuse;
  compile.device = device_model(*target);
  std::unique_ptr<Builder> builder = make_builder();
  ProgramCompiler compiler(sized->graph, sized->dims, *target, compile, *builder);
  if (llvm::Error error = serve_compiler(compiler, STDIN_FILENO, STDOUT_FILENO)) return error;
  return Output{};
}

// Whoever started this says why it fails, once.
llvm::Expected<Output> run_helper(llvm::function_ref<llvm::Expected<Output>()> serve) {
  become_helper();
  auto served = serve();
  if (served) return served;
  ErrorFacts facts = take_error_facts(served.takeError());
  refuse_requests(facts.message, STDOUT_FILENO);
  return Output{"", exit_status(facts.status)};
}

void add_sized(CLI::App& app, TuneCommand& options) {
  app.group("");  // hidden
  app.add_option("FILE", options.files, "description")->required()->expected(1);
  app.add_option("--dim", options.dims, "NAME=VALUE of a named dimension")->expected(1)->take_all();
}

}  // namespace

HelperOptions tester_options(const TuneCommand& options, const std::string& file) {
  HelperOptions helper;
  helper.program = this_program();
  helper.arguments = arguments_of(options, "tune-helper", file);
  helper.arguments.insert(helper.arguments.end(),
                          {"--on", options.on, "--policy", options.policy, "--device", std::to_string(options.device), "--seed",
                           std::to_string(options.seed), "--noise", std::to_string(options.noise)});
  helper.time_limit_s = options.time_limit_s;
  return helper;
}

WorkerOptions worker_options(const TuneCommand& options, const std::string& file, const Target& target) {
  WorkerOptions worker;
  worker.program = this_program();
  worker.arguments = arguments_of(options, "tune-compiler", file);
  worker.arguments.insert(worker.arguments.end(), {"--target", target.name()});
  return worker;
}

llvm::Expected<TemporaryDirectory> share_store() {
  const StoreOptions store = StoreOptions::from_environment();
  if (!store.directory.empty() && !llvm::sys::fs::create_directories(store.directory) && ::access(store.directory.c_str(), W_OK) == 0)
    return TemporaryDirectory();
  auto directory = TemporaryDirectory::make("tilewright-store");
  if (!directory) return directory.takeError();
  std::vector<std::string> layers = store.layers;
  if (llvm::sys::fs::is_directory(store.directory)) layers.insert(layers.begin(), store.directory);
  ::setenv("TILEWRIGHT_CACHE_DIR", directory->path().c_str(), 1);
  ::setenv("TILEWRIGHT_CACHE_LAYERS", llvm::join(layers, ":").c_str(), 1);
  fmt::print(stderr, "tilewright: the store {} cannot be written: kernels are kept for this tuning alone\n",
             store.directory.empty() ? "has no directory and" : store.directory);
  return directory;
}

void add_tune_common(CLI::App& app, TuneCommand& options) {
  app.add_option("--on", options.on, "gpu, or host: kernels run on the CPU and times are simulated")
      ->capture_default_str()
      ->check(CLI::IsMember({"gpu", "host"}));
  app.add_option("--policy", options.policy, "how it is timed: cold (graph replay, L2 flushed), warm, plain (single launches)")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the search, and of the simulation's noise")->capture_default_str();
  app.add_option("--noise", options.noise, "on host: standard deviation of simulated times, relative")->capture_default_str();
  app.add_flag("--no-fuse", options.no_fuse, "one kernel per op");
}

Action add_tune_helper(CLI::App& app) {
  auto options = std::make_shared<TuneCommand>();
  add_sized(app, *options);
  app.add_option("--device", options->device, "ordinal of the GPU")->capture_default_str();
  add_tune_common(app, *options);
  return [options] { return run_helper([&] { return serve_candidates(*options); }); };
}

Action add_tune_compiler(CLI::App& app) {
  auto options = std::make_shared<TuneCommand>();
  add_sized(app, *options);
  app.add_option("--target", options->targets, "what is compiled for")->required();
  app.add_flag("--no-fuse", options->no_fuse, "one kernel per op");
  return [options] { return run_helper([&] { return serve_compilations(*options); }); };
}

}  // namespace tilewright::cli
