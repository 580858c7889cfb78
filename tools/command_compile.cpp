// tilewright compile FILE... --target T: fills the store; needs no GPU.
#include "autotune/use_records.h"
#include "codegen/compile.h"
#include "llvm/ADT/STLExtras.h"
#include "ops/json.h"
#include "runtime/parallel.h"
#include "tools/cli.h"
#include "tools/progress.h"

namespace tilewright::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string targets = "sm_90a,sm_100a";
  std::string config;
  std::vector<std::string> dims;
  unsigned jobs = 0;
  bool no_fuse = false;
  bool json = false;
};

// One kernel to build.
struct Job {
  std::string file;
  std::string graph;
  Target target;
  KernelSource source;
  std::shared_ptr<const Artifact> artifact;
};

llvm::Expected<std::vector<Job>> collect_jobs(const Options& options) {
  auto targets = parse_targets(options.targets);
  if (!targets) return targets.takeError();
  auto overrides = parse_config(options.config);
  if (!overrides) return overrides.takeError();
  const RecordStore records(RecordStore::Options::from_environment());
  std::vector<Job> jobs;
  for (const std::string& file : options.files) {
    auto sized = load_sized(file, options.dims);
    if (!sized) return sized.takeError();
    const Graph* const graph = &sized->graph;
    for (const Target& target : *targets) {
      CompileOptions compile;
      compile.plan.fuse = !options.no_fuse;
      compile.device = device_model(target);
      compile.overrides = *overrides;
      if (compile.overrides.empty()) use_record(records, *graph, sized->dims, "", target, compile);
      auto prepared = prepare_program(*graph, compile);
      if (!prepared) return prepared.takeError();
      for (KernelSource& source : prepared->sources) jobs.push_back({file, graph->name(), target, std::move(source), nullptr});
    }
  }
  return jobs;
}

llvm::Error run_jobs(std::vector<Job>& jobs, Builder& builder, unsigned threads) {
  Progress progress("compiling", jobs.size());
  auto artifacts = parallel_results(jobs.size(), threads, [&](std::size_t i) {
    const Job& job = jobs[i];
    progress.step(fmt::format("{} {}", job.source.entry, job.target.name()));
    auto artifact = builder.get(job.source, job.target);
    progress.advance();
    if (artifact) return artifact;
    const std::string where = fmt::format("{}: {} for {}: ", job.file, job.source.entry, job.target.name());
    return llvm::Expected<std::shared_ptr<const Artifact>>(prefix_error(artifact.takeError(), where));
  });
  if (!artifacts) return artifacts.takeError();
  for (auto [job, artifact] : llvm::zip(jobs, *artifacts)) job.artifact = std::move(artifact);
  return llvm::Error::success();
}

std::string jobs_text(llvm::ArrayRef<Job> jobs, llvm::StringRef directory) {
  std::string text;
  std::uint64_t compiled = 0, bytes = 0;
  for (const Job& job : jobs) {
    const Artifact& artifact = *job.artifact;
    compiled += artifact.origin == Origin::kCompiled;
    bytes += artifact.binary.size();
    // PTX gets its registers from the driver, when it is loaded.
    const std::string facts =
        job.target.ptx ? "PTX"
                       : fmt::format("{:>3} registers, {}", artifact.facts.registers,
                                     artifact.facts.local_bytes == 0 ? "no spills" : fmt::format("{} B local", artifact.facts.local_bytes));
    text += fmt::format("{:<24} {:<10} {:<32} {:<24}, {} ({:.0f} ms)  {}\n", job.graph, job.target.name(), job.source.entry, facts,
                        origin_name(artifact.origin), artifact.compile_ms, llvm::StringRef(artifact.key).substr(0, 16));
  }
  text += fmt::format("{}: {} compiled, {} already there, {} in {}\n", count_text(jobs.size(), "kernel"), compiled, jobs.size() - compiled,
                      bytes_text(static_cast<double>(bytes)), directory);
  return text;
}

std::string jobs_json(llvm::ArrayRef<Job> jobs, llvm::StringRef directory) {
  llvm::json::Array kernels;
  for (const Job& job : jobs) {
    const Artifact& artifact = *job.artifact;
    llvm::json::Object kernel{{"file", job.file},
                              {"name", job.graph},
                              {"target", job.target.name()},
                              {"kernel", job.source.entry},
                              {"key", artifact.key},
                              {"origin", origin_name(artifact.origin)},
                              {"compile_ms", json_number(artifact.compile_ms)},
                              {"bytes", json_count(artifact.binary.size())}};
    if (!job.target.ptx) {
      kernel["registers"] = static_cast<std::int64_t>(artifact.facts.registers);
      kernel["local_bytes"] = static_cast<std::int64_t>(artifact.facts.local_bytes);
    }
    kernels.push_back(std::move(kernel));
  }
  return json_text(llvm::json::Object{{"store", directory}, {"kernels", std::move(kernels)}});
}

llvm::Expected<Output> run_compile(const Options& options) {
  auto jobs = collect_jobs(options);
  if (!jobs) return jobs.takeError();
  const StoreOptions store = StoreOptions::from_environment();
  if (store.directory.empty()) {
    return make_error(Status::kInvalidArgument, "compile: no directory to fill; set TILEWRIGHT_CACHE_DIR (or XDG_CACHE_HOME or HOME)");
  }
  std::unique_ptr<Builder> builder = make_builder(store);
  if (llvm::Error error = run_jobs(*jobs, *builder, options.jobs)) return error;
  if (builder->store().counters().write_failures > 0) {
    return make_error(Status::kIo,
                      "compile: the kernels compile, but the store {} cannot be written; set TILEWRIGHT_CACHE_DIR to a directory that can",
                      store.directory);
  }
  return Output{options.json ? jobs_json(*jobs, store.directory) : jobs_text(*jobs, store.directory)};
}

}  // namespace

Action add_compile(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files, "descriptions")->required();
  app.add_option("--target", options->targets, "targets, comma-separated")->capture_default_str();
  app.add_option("--config", options->config, "tile parameters as JSON, for instance {\"block_threads\": 256}");
  app.add_option("--dim", options->dims, "NAME=VALUE of a dimension the description bakes in")->expected(1)->take_all();
  app.add_option("-j,--jobs", options->jobs, "kernels compiled at once (0: one per core)")->capture_default_str();
  app.add_flag("--no-fuse", options->no_fuse, "one kernel per op");
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return run_compile(*options); };
}

}  // namespace tilewright::cli
