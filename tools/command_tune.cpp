// tilewright tune FILE|DIR...: finds, verifies and records the config of each description; and the hidden helper in which candidates run.
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>

#include "autotune/host_runner.h"
#include "autotune/records.h"
#include "autotune/report.h"
#include "autotune/search.h"
#include "codegen/embedded_templates.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "ops/json.h"
#include "runtime/nvml.h"
#include "tools/cli.h"
#include "tools/device_runner.h"
#include "tools/progress.h"

namespace tilewright::cli {
namespace {

struct Options {
  std::vector<std::string> files, dims;
  std::string budget = "60s";
  std::string targets;
  std::string on = "gpu";
  std::string policy = "cold";
  std::string report;
  int device = 0;
  std::uint64_t seed = 1;
  double noise = 0.01;
  unsigned jobs = 0;
  double time_limit_s = 10;
  bool no_fuse = false, resume = false, json = false;
};

struct Budget {
  double seconds = 60;
  std::size_t candidates = 0;
};

// "60", "60s", "2m" or "100c".
llvm::Expected<Budget> parse_budget(llvm::StringRef text) {
  llvm::StringRef number = text;
  const char unit = !text.empty() && !llvm::isDigit(text.back()) ? text.back() : 's';
  if (!text.empty() && !llvm::isDigit(text.back())) number = text.drop_back();
  double value = 0;
  if (number.getAsDouble(value) || !(value > 0) || (unit != 's' && unit != 'm' && unit != 'c'))
    return make_error(Status::kInvalidArgument, "--budget {}: wanted a positive number of seconds (60s), minutes (2m) or candidates (100c)",
                      text);
  constexpr double kNoLimit = 1e9;
  if (unit == 'c') return Budget{kNoLimit, static_cast<std::size_t>(std::max(1.0, value))};
  return Budget{unit == 'm' ? value * 60 : value, 0};
}

// Files named, and the *.json below directories named, sorted.
llvm::Expected<std::vector<std::string>> collect_files(llvm::ArrayRef<std::string> names) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code error;
    if (!fs::is_directory(name, error)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> found;
    for (fs::recursive_directory_iterator at(name, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".json") found.push_back(at->path().string());
    }
    if (error) return make_error(Status::kIo, "cannot read {}: {}", name, error.message());
    if (found.empty()) return make_error(Status::kInvalidArgument, "tune: no description (*.json) below {}", name);
    llvm::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::atomic<bool> interrupted{false};
void on_interrupt(int) { interrupted.store(true); }

// Where candidates of this process run, and what is recorded of it.
struct Place {
  std::string device;
  Target target;
  DeviceRates rates;
  llvm::json::Object environment;
};

// f32 multiply-adds of the vector units, two operations each; 0 where the driver does not say the clock. Lanes of a multiprocessor: CUDA
// programming guide, arithmetic throughput per compute capability.
double peak_f32_flops(const Target& target, int sm_count, int core_khz) {
  const int lanes = target.number() == 80 ? 64 : 128;
  return 2.0 * lanes * sm_count * core_khz * 1e3;
}

llvm::Expected<Place> find_place(const Options& options, Builder& builder) {
  Place place;
  auto nvrtc = builder.nvrtc();
  if (!nvrtc) return nvrtc.takeError();
  auto version = (*nvrtc)->version();
  if (!version) return version.takeError();
  place.environment["nvrtc"] = *version;
  if (options.on == "host") {
    place.device = "host simulation";
    return place;
  }
  auto driver = tilewright::driver();
  if (!driver) return driver.takeError();
  auto facts = device_facts(*driver, options.device);
  if (!facts) return facts.takeError();
  auto numbers = (*nvrtc)->supported_architectures();
  if (!numbers) return numbers.takeError();
  auto target = target_of_device(facts->major, facts->minor, *numbers);
  if (!target) return target.takeError();
  place.device = facts->name;
  place.target = *target;
  CUdevice device = 0;
  int core_khz = 0, memory_khz = 0;
  if (driver->device_get(&device, options.device) == CUDA_SUCCESS) {
    driver->device_get_attribute(&core_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
    driver->device_get_attribute(&memory_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device);
  }
  auto nvml = tilewright::nvml();
  place.environment["nvml"] = nvml ? nvml->path : take_error_facts(nvml.takeError()).message;
  place.environment["driver"] = driver->version_text();
  place.environment["device"] = facts->name;
  place.environment["sm_count"] = facts->sm_count;
  place.environment["most_core_mhz"] = core_khz / 1000;
  place.environment["most_memory_mhz"] = memory_khz / 1000;
  place.rates = {facts->datasheet_bandwidth, peak_f32_flops(place.target, facts->sm_count, core_khz)};
  return place;
}

std::string policy_of(const Options& options) { return options.on == "host" ? "simulated" : options.policy; }

HelperOptions helper_options(const Options& options, const std::string& file) {
  HelperOptions helper;
  helper.program = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  helper.arguments = {"tune-helper", file,
                      "--on",        options.on,
                      "--policy",    options.policy,
                      "--device",    std::to_string(options.device),
                      "--seed",      std::to_string(options.seed),
                      "--noise",     std::to_string(options.noise)};
  for (const std::string& dim : options.dims) helper.arguments.insert(helper.arguments.end(), {"--dim", dim});
  if (options.no_fuse) helper.arguments.push_back("--no-fuse");
  helper.time_limit_s = options.time_limit_s;
  return helper;
}

// What is kept of an unfinished tuning, beside the records.
class SavedState {
 public:
  SavedState(std::string directory, std::string name, std::string space)
      : directory_(std::move(directory)), path_(directory_ + "/" + name), space_(std::move(space)) {}
  // Candidates of an earlier run over the same space by the same library; none where there is no such state.
  std::vector<Candidate> load() const {
    auto text = read_file(path_);
    if (!text) return drop(text.takeError());
    auto json = llvm::json::parse(*text);
    if (!json) return drop(json.takeError());
    const llvm::json::Object* object = json->getAsObject();
    const llvm::json::Array* array = object != nullptr ? object->getArray("candidates") : nullptr;
    if (array == nullptr || object->getString("space") != llvm::StringRef(space_) || object->getString("build") != build_identity())
      return {};
    std::vector<Candidate> candidates;
    for (const llvm::json::Value& value : *array) {
      auto candidate = parse_candidate(value);
      if (!candidate) return drop(candidate.takeError());
      candidates.push_back(std::move(*candidate));
    }
    return candidates;
  }
  void save(llvm::ArrayRef<Candidate> candidates) const {
    llvm::json::Array array;
    for (const Candidate& candidate : candidates) array.push_back(candidate_json(candidate));
    llvm::sys::fs::create_directories(directory_);
    // A state that cannot be written costs the resumption, not the tuning.
    llvm::consumeError(
        write_file(path_, json_text(llvm::json::Object{{"space", space_}, {"build", build_identity()}, {"candidates", std::move(array)}})));
  }
  void remove() const { llvm::sys::fs::remove(path_); }

 private:
  static std::vector<Candidate> drop(llvm::Error error) {
    llvm::consumeError(std::move(error));
    return {};
  }
  std::string directory_, path_, space_;
};

// One description, ready to be tuned.
struct Job {
  std::string file;
  Graph graph;
  llvm::SmallVector<std::int64_t, 4> dims;
};

struct Tuned {
  TuneResult result;
  RecordProblem problem;
  ConfigOverrides fallback;
  std::string record_path;
  ReportProblem report;
};

void show_progress(Progress& bar, const TuneProgress& progress, bool timed) {
  const std::string left = timed ? fmt::format(", {:.0f} s left", std::max(0.0, progress.budget_s - progress.seconds)) : "";
  bar.step(fmt::format("{}: {} tried, best {:.2f} us, default {:.2f} us{}", progress.phase, progress.tried, progress.best_us,
                       progress.default_us, left));
  bar.advance();
}

llvm::Expected<Tuned> tune_one(const Options& options, const Budget& budget, const Job& job, const Place& place, Builder& builder) {
  CompileOptions compile;
  compile.plan.fuse = !options.no_fuse;
  compile.device = device_model(place.target);
  auto space = make_space(job.graph, compile);
  if (!space) return space.takeError();
  const RecordStore records(RecordStore::Options::from_environment());
  Tuned tuned;
  tuned.problem = record_problem(job.graph, job.dims, place.device, place.target, policy_of(options), compile.plan.fuse);
  tuned.fallback = space->default_config();
  const SavedState state(records.options().directory + "/unfinished",
                         fmt::format("{}-{}-{}.json", tuned.problem.signature, fmt::join(job.dims, "_"), tuned.problem.policy),
                         space->identity());

  ProgramCompiler compiler(job.graph, job.dims, place.target, compile, builder);
  PoolOptions pool_options;
  pool_options.threads = options.jobs;
  CompilePool pool(compiler, pool_options);
  HelperTester tester(helper_options(options, job.file));
  const Verifier verifier(job.graph, job.dims);
  TuneOptions tune;
  tune.budget_s = budget.seconds;
  tune.budget_candidates = budget.candidates;
  tune.seed = options.seed;
  for (const TuningRecord& record : records.related(tuned.problem, space->identity())) tune.hints.push_back(record.winner());
  if (options.resume) tune.known = state.load();
  Progress bar("tune " + job.graph.name(), budget.candidates != 0 ? budget.candidates : 1000);
  tune.progress = [&](const TuneProgress& progress) { show_progress(bar, progress, budget.candidates == 0); };
  tune.save = [&](llvm::ArrayRef<Candidate> candidates) { state.save(candidates); };
  tune.interrupted = [] { return interrupted.load(); };
  tune.say = [&](const std::string& text) { fmt::print(stderr, "tilewright: {}: {}\n", job.graph.name(), text); };
  auto accepts = [&](const ConfigOverrides& config) {
    CompileOptions chosen = compile;
    chosen.overrides = config;
    auto prepared = prepare_program(job.graph, chosen);
    if (prepared) return true;
    llvm::consumeError(prepared.takeError());
    return false;
  };
  Search search(*space, accepts, pool, tester, verifier, std::move(tune));
  auto result = search.run();
  if (!result) return result.takeError();
  tuned.result = std::move(*result);
  llvm::json::Object environment(place.environment);
  environment["strategy"] = tuned.result.strategy;
  environment["seed"] = json_count(options.seed);
  environment["helpers"] = static_cast<std::int64_t>(tester.starts());
  environment["ended"] = tuned.result.ended;
  environment["seconds"] = json_number(tuned.result.seconds);
  environment["sizes"] = dims_text(job.graph, job.dims);
  environment["conditions"] = llvm::json::Object(tuned.result.conditions);
  environment["floor"] = floor_json(graph_cost(job.graph, job.dims), place.rates);
  if (!tuned.result.winner) {
    tuned.report = {tuned.problem,         {}, tuned.fallback, tuned.result.candidates, {}, std::move(environment), space->identity(),
                    build_identity().str()};
    return tuned;
  }
  auto record = make_record(tuned.problem, *tuned.result.winner,
                            {tuned.result.candidates, tuned.fallback, space->identity(), std::move(environment)});
  if (!record) return record.takeError();
  tuned.report = report_problem(*record);
  if (llvm::Error error = records.write(*record)) return error;
  tuned.record_path = records.options().directory + "/" + record->file_name();
  // What others or a lost device cut short may be continued.
  if (tuned.result.ended == "settled" || tuned.result.ended == "budget") state.remove();
  return tuned;
}

double median_of(const TuneResult& result, const ConfigOverrides& config) {
  for (const Candidate& candidate : result.candidates) {
    if (candidate.config == config) return median_interval(candidate.samples_us).median;
  }
  return 0;
}

std::map<std::string, std::int64_t> fates_of(const TuneResult& result) {
  std::map<std::string, std::int64_t> fates;
  for (const Candidate& candidate : result.candidates) ++fates[fate_name(candidate.fate).str()];
  return fates;
}

std::string tuned_text(const Job& job, const Tuned& tuned) {
  const TuneResult& result = tuned.result;
  std::vector<std::string> fates;
  for (const auto& [name, count] : fates_of(result)) fates.push_back(fmt::format("{} {}", count, name));
  std::string text =
      fmt::format("{} {}\n  {}, {} in {:.1f} s ({}): {}\n", job.graph.name(), dims_text(job.graph, job.dims), result.strategy,
                  count_text(result.candidates.size(), "candidate"), result.seconds, result.ended, fmt::join(fates, ", "));
  if (!result.winner) return text + "  no candidate passed; nothing is recorded\n";
  text += fmt::format("  winner  {:.2f} us  {}\n  default {:.2f} us  {}\n  verified: {} cases, normwise error {:.1e}\n  record  {}\n",
                      median_of(result, result.winner->config()), config_text(result.winner->config()), median_of(result, tuned.fallback),
                      config_text(tuned.fallback), result.winner->report().cases.size(), result.winner->normwise(), tuned.record_path);
  for (const std::string& skipped : result.winner->report().skipped) text += fmt::format("  not compared: {}\n", skipped);
  return text;
}

llvm::json::Object tuned_json(const Job& job, const Tuned& tuned) {
  llvm::json::Object fates;
  for (const auto& [name, count] : fates_of(tuned.result)) fates[name] = count;
  llvm::json::Object json{{"name", job.graph.name()},
                          {"file", job.file},
                          {"dims", dims_json(job.graph, job.dims)},
                          {"strategy", tuned.result.strategy},
                          {"ended", tuned.result.ended},
                          {"seconds", json_number(tuned.result.seconds)},
                          {"fates", std::move(fates)},
                          {"record", tuned.record_path}};
  if (tuned.result.winner) {
    json["winner"] = config_json(tuned.result.winner->config());
    json["winner_us"] = json_number(median_of(tuned.result, tuned.result.winner->config()));
    json["default_us"] = json_number(median_of(tuned.result, tuned.fallback));
  }
  return json;
}

// Targets other than the device's get their first guess into the store.
llvm::Expected<std::string> compile_absent(const Options& options, llvm::ArrayRef<Job> jobs, const std::optional<Place>& place,
                                           Builder& builder) {
  std::string text;
  if (options.targets.empty()) return text;
  auto targets = parse_targets(options.targets);
  if (!targets) return targets.takeError();
  for (const Target& target : *targets) {
    if (place && target == place->target) continue;
    for (const Job& job : jobs) {
      CompileOptions compile;
      compile.plan.fuse = !options.no_fuse;
      compile.device = device_model(target);
      auto compiled = compile_program(job.graph, target, builder, compile);
      if (!compiled) return prefix_error(compiled.takeError(), job.file + ": ");
      text += fmt::format("{} for {}: no such device here, its first guess is in the store\n", job.graph.name(), target.name());
    }
  }
  return text;
}

llvm::Expected<Output> run_tune(const Options& options) {
  auto budget = parse_budget(options.budget);
  if (!budget) return budget.takeError();
  if (auto policy = parse_timing_policy(options.policy); !policy) return policy.takeError();
  auto files = collect_files(options.files);
  if (!files) return files.takeError();
  std::vector<Job> jobs;
  for (const std::string& file : *files) {
    auto sized = load_sized(file, options.dims);
    if (!sized) return sized.takeError();
    jobs.push_back({file, std::move(sized->graph), std::move(sized->dims)});
  }
  std::unique_ptr<Builder> builder = make_builder();
  std::optional<Place> place;
  if (auto found = find_place(options, *builder)) {
    place = std::move(*found);
  } else if (options.targets.empty()) {
    return found.takeError();
  } else {
    llvm::consumeError(found.takeError());
  }
  auto absent = compile_absent(options, jobs, place, *builder);
  if (!absent) return absent.takeError();
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  Output output;
  llvm::json::Array array;
  std::vector<ReportProblem> reports;
  for (const Job& job : jobs) {
    if (!place || interrupted.load()) break;
    auto tuned = tune_one(options, *budget, job, *place, *builder);
    if (!tuned) return prefix_error(tuned.takeError(), job.file + ": ");
    output.text += tuned_text(job, *tuned);
    array.push_back(tuned_json(job, *tuned));
    reports.push_back(std::move(tuned->report));
    if (!tuned->result.lost.empty()) {
      output.status = kLacking;
      output.complaint = fmt::format("{}: {}; {}. tune --resume goes on from here", job.file, tuned->result.lost,
                                     tuned->result.winner ? "the best so far is recorded" : "nothing is recorded");
      break;
    }
    if (!tuned->result.winner && output.complaint.empty()) {
      output.status = kBad;
      output.complaint = fmt::format("{}: no candidate passed; the default: {}", job.file,
                                     tuned->result.candidates.empty() ? "not tried" : tuned->result.candidates.front().reason);
    }
  }
  if (!options.report.empty()) {
    if (llvm::Error error = write_file(options.report, report_html(reports))) return error;
  }
  output.text =
      options.json ? json_text(llvm::json::Object{{"tuned", std::move(array)}, {"budget", options.budget}}) : *absent + output.text;
  return output;
}

llvm::Expected<Output> serve(const Options& options) {
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
    auto created = DeviceRunner::create(*session, *builder, sized->graph, sized->dims, compile, *policy);
    if (!created) return created.takeError();
    runner = std::move(*created);
  }
  LocalTester tester(verifier, *runner);
  if (llvm::Error error = serve_tester(tester, STDIN_FILENO, STDOUT_FILENO)) return error;
  return Output{};
}

llvm::Expected<Output> run_helper(const Options& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a helper that hangs must not outlive who started it
  std::signal(SIGINT, SIG_IGN);        // the parent decides what an interrupt ends
  auto served = serve(options);
  if (served) return served;
  ErrorFacts facts = take_error_facts(served.takeError());
  refuse_tester(facts.message, STDOUT_FILENO);  // whoever started this says it, once
  return Output{"", exit_status(facts.status)};
}

void add_common(CLI::App& app, Options& options) {
  app.add_option("--dim", options.dims, "NAME=VALUE of a named dimension")->expected(1)->take_all();
  app.add_option("--device", options.device, "ordinal of the GPU")->capture_default_str();
  app.add_option("--on", options.on, "gpu, or host: kernels run on the CPU and times are simulated")
      ->capture_default_str()
      ->check(CLI::IsMember({"gpu", "host"}));
  app.add_option("--policy", options.policy, "how it is timed: cold (graph replay, L2 flushed), warm, plain (single launches)")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the search, and of the simulation's noise")->capture_default_str();
  app.add_option("--noise", options.noise, "on host: standard deviation of simulated times, relative")->capture_default_str();
  app.add_flag("--no-fuse", options.no_fuse, "one kernel per op");
}

}  // namespace

Action add_tune(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files, "descriptions, or directories of them")->required();
  app.add_option("--budget", options->budget, "for each description: seconds (60s), minutes (2m) or candidates (100c)")
      ->capture_default_str();
  app.add_option("--target", options->targets, "also compile the first guess for these where no such device is here, comma-separated");
  app.add_option("-j,--jobs", options->jobs, "kernels compiled at once (0: one per core)")->capture_default_str();
  app.add_option("--time-limit", options->time_limit_s, "seconds one timing of a candidate may take")->capture_default_str();
  app.add_option("--report", options->report, "HTML page to write: pictures of times and parameters, fates and reasons");
  app.add_flag("--resume", options->resume, "go on where an interrupted tuning ended");
  app.add_flag("--json", options->json, "print JSON");
  add_common(app, *options);
  return [options] { return run_tune(*options); };
}

Action add_tune_helper(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.group("");  // hidden: the process in which tune runs candidates
  app.add_option("FILE", options->files, "description")->required()->expected(1);
  add_common(app, *options);
  return [options] { return run_helper(*options); };
}

}  // namespace tilewright::cli
