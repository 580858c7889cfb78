#include "tools/tune_problem.h"

#include "codegen/embedded_templates.h"
#include "llvm/ADT/STLExtras.h"
#include "tools/cli.h"
#include "tools/tune_helpers.h"
#include "tools/tune_state.h"

namespace tilewright::cli {
namespace {

constexpr std::int64_t kMostExhaustive = 200'000;  // combinations, with --exhaustive
constexpr std::size_t kMostBuckets = 256;          // of one description
// Of the budget of a problem with a bucket, for each of the two sizes its winner is compared at.
constexpr double kCompareShare = 0.1;

std::string policy_of(const TuneCommand& options) { return options.on == "host" ? "simulated" : options.policy; }

llvm::json::Object transfer_json(const Graph& graph, const Transfer& transfer) {
  return llvm::json::Object{{"dims", dims_json(graph, transfer.dims)},
                            {"regret", json_number(transfer.regret())},
                            {"winner_us", json_number(transfer.winner_us.median)},
                            {"best_us", json_number(transfer.best_us.median)},
                            {"best", config_json(transfer.best)},
                            {"failure", transfer.failure}};
}

llvm::json::Array transfers_json(const Graph& graph, llvm::ArrayRef<Transfer> transfers) {
  llvm::json::Array array;
  for (const Transfer& transfer : transfers) array.push_back(transfer_json(graph, transfer));
  return array;
}

class ProblemTuner : public BucketTuner {
 public:
  ProblemTuner(const TuneSession& session, const TuneJob& job, const Place& place, std::size_t slot, CompileOptions compile, Space space)
      : session_(session),
        job_(job),
        place_(place),
        slot_(slot),
        compile_(std::move(compile)),
        space_(std::move(space)),
        records_(RecordStore::Options::from_environment()),
        open_(llvm::is_contained(job.fixed, false)) {}

  std::vector<BucketSplit> known_splits() const {
    return records_.index(problem(job_.at, {}), job_.graph.symbols(), space_.identity()).splits().vec();
  }

  llvm::Expected<TuneResult> tune(const Dims& dims, llvm::ArrayRef<BucketSplit> splits, llvm::ArrayRef<ConfigOverrides> hints) override {
    const RecordProblem wanted = problem(dims, splits);
    const SavedState state(records_.options().directory + "/unfinished", record_file_name(wanted), space_.identity());
    TuneOptions tune;
    tune.budget_s = session_.budget.seconds * (open_ ? 1 - 2 * kCompareShare : 1);
    tune.budget_candidates = session_.budget.candidates;
    if (session_.options.exhaustive) tune.exhaustive_limit = kMostExhaustive;
    tune.hints.assign(hints.begin(), hints.end());
    for (const TuningRecord& record : records_.related(wanted, space_.identity())) tune.hints.push_back(record.winner());
    if (session_.options.resume) {
      auto known = state.load();
      if (known) {
        tune.known = std::move(*known);
      } else {
        say(fmt::format("nothing to resume: {}", take_error_facts(known.takeError()).message));
      }
    }
    tune.save = [&](llvm::ArrayRef<Candidate> candidates) { state.save(candidates); };
    unsigned starts = 0;
    auto result = search(dims, "", std::move(tune), starts);
    if (!result) return result.takeError();
    llvm::json::Object environment(place_.environment);
    environment["strategy"] = result->strategy;
    environment["seed"] = json_count(session_.options.seed);
    environment["helpers"] = static_cast<std::int64_t>(starts);
    environment["ended"] = result->ended;
    environment["seconds"] = json_number(result->seconds);
    environment["waited_for_compiler_s"] = json_number(result->waited_s);
    environment["sizes"] = dims_text(job_.graph, dims);
    environment["conditions"] = llvm::json::Object(result->conditions);
    environment["floor"] = floor_json(graph_cost(job_.graph, dims), place_.rates);
    environments_[{dims.begin(), dims.end()}] = std::move(environment);
    // Before its winner is compared at other sizes: what comes between costs that comparison alone.
    auto path = write({bucket_of(job_.graph.symbols(), dims, splits), {splits.begin(), splits.end()}, *result, {}}, dims);
    if (!path) return path.takeError();
    // What others or a lost device cut short may be continued.
    if (result->winner && (result->ended == "settled" || result->ended == "budget")) complete_.push_back(state);
    return result;
  }

  llvm::Expected<TuneResult> compare(const Dims& dims, llvm::ArrayRef<ConfigOverrides> candidates) override {
    TuneOptions tune;
    tune.budget_s = session_.budget.seconds * kCompareShare;
    tune.budget_candidates = candidates.size() + 1;
    tune.exhaustive_limit = 0;
    tune.hints.assign(candidates.begin(), candidates.end());
    unsigned starts = 0;
    return search(dims, "compare ", std::move(tune), starts);
  }

  llvm::Error keep(const TunedBucket& tuned) override {
    Tuned finished;
    finished.tuned = tuned;
    finished.dims = tuned.bucket.representative();
    for (auto [index, fixed] : llvm::enumerate(job_.fixed)) {
      if (fixed) finished.dims[index] = job_.at[index];
    }
    finished.whole_bucket = open_;
    finished.problem = problem(finished.dims, tuned.splits);
    finished.fallback = space_.default_config();
    auto path = write(tuned, finished.dims);
    if (!path) return path.takeError();
    finished.record_path = std::move(*path);
    finished.report = std::move(report_);
    finished_.push_back(std::move(finished));
    return llvm::Error::success();
  }

  bool interrupted() const override { return session_.interrupted(); }
  // All buckets are done: nothing of them is continued any more.
  std::vector<Tuned> take_finished() {
    for (const SavedState& state : complete_) state.remove();
    return std::move(finished_);
  }

 private:
  RecordProblem problem(const Dims& dims, llvm::ArrayRef<BucketSplit> splits) const {
    return record_problem(job_.graph, dims, place_.device, place_.target, policy_of(session_.options), compile_.plan.fuse, splits);
  }

  void say(const std::string& text) const { fmt::print(stderr, "tilewright: {}: {}\n", job_.graph.name(), text); }

  std::optional<double> predict(const ConfigOverrides& config, const Dims& dims) const {
    CompileOptions chosen = compile_;
    chosen.overrides = config;
    auto prepared = prepare_program(job_.graph, chosen);
    if (prepared) return predict_us(job_.graph, *prepared, dims, compile_.device, sm_model(place_.target), DeviceRates());
    llvm::consumeError(prepared.takeError());
    return std::nullopt;
  }

  // What the helpers are told of one size.
  TuneCommand at(const Dims& dims) const {
    TuneCommand command = session_.options;
    command.device = place_.ordinal;
    command.dims = job_.baked;
    for (auto [symbol, value] : llvm::zip_equal(job_.graph.symbols(), dims))
      command.dims.push_back(fmt::format("{}={}", symbol.name, value));
    return command;
  }

  // One search at one size; `starts` gets the number of helpers it took.
  llvm::Expected<TuneResult> search(const Dims& dims, const char* what, TuneOptions tune, unsigned& starts) {
    const TuneCommand command = at(dims);
    WorkerCompiler compiler(worker_options(command, job_.file, place_.target));
    PoolOptions pool_options;
    pool_options.threads = session_.compile_threads;
    CompilePool pool(compiler, pool_options);
    HelperTester tester(tester_options(command, job_.file));
    const Verifier verifier(job_.graph, dims);
    tune.seed = session_.options.seed;
    tune.progress = [&](const TuneProgress& progress) { session_.display.show(slot_, progress); };
    tune.interrupted = session_.interrupted;
    tune.say = [this](const std::string& text) { say(text); };
    const std::string sizes = dims_text(job_.graph, dims);
    const Floor floor{static_cast<double>(graph_cost(job_.graph, dims).bytes), 0, place_.rates.bytes_per_s, 0};
    session_.display.begin(slot_, fmt::format("{}{}{}{}", what, job_.graph.name(), sizes.empty() ? "" : " ", sizes), floor.us(),
                           tune.budget_s);
    auto result = Search(
                      space_, [&](const ConfigOverrides& config) { return predict(config, dims); }, pool, tester, verifier, std::move(tune))
                      .run();
    starts = tester.starts();
    return result;
  }

  // The record of a bucket's winner, where there is one: its path, "" without. Fills report_.
  llvm::Expected<std::string> write(const TunedBucket& tuned, const Dims& dims) {
    llvm::json::Object environment(environments_[{dims.begin(), dims.end()}]);
    if (!tuned.transfers.empty()) environment["transfers"] = transfers_json(job_.graph, tuned.transfers);
    RecordProblem about = problem(dims, tuned.splits);
    if (!tuned.result.winner) {
      report_ = {std::move(about),      {}, space_.default_config(), tuned.result.candidates, {}, std::move(environment), space_.identity(),
                 build_identity().str()};
      return std::string();
    }
    auto record = make_record(std::move(about), *tuned.result.winner,
                              {tuned.result.candidates, space_.default_config(), space_.identity(), std::move(environment)});
    if (!record) return record.takeError();
    report_ = report_problem(*record);
    if (llvm::Error error = records_.write(*record)) return error;
    return records_.options().directory + "/" + record->file_name();
  }

  const TuneSession& session_;
  const TuneJob& job_;
  const Place& place_;
  const std::size_t slot_;
  const CompileOptions compile_;
  const Space space_;
  const RecordStore records_;
  const bool open_;  // some dimension is not fixed
  std::map<std::vector<std::int64_t>, llvm::json::Object> environments_;
  ReportProblem report_;  // of what was written last
  std::vector<Tuned> finished_;
  std::vector<SavedState> complete_;  // kept while other sizes are compared, so that a killed tuning loses none of it
};

double median_of(const TuneResult& result, const ConfigOverrides& config) {
  const Candidate* candidate = find_candidate(result.candidates, config);
  return candidate == nullptr ? 0 : median_interval(candidate->samples_us).median;
}

std::map<std::string, std::int64_t> fates_of(const TuneResult& result) {
  std::map<std::string, std::int64_t> fates;
  for (const Candidate& candidate : result.candidates) ++fates[fate_name(candidate.fate).str()];
  return fates;
}

// "N=65..128 M=7"
std::string bucket_text(const TuneJob& job, const Tuned& tuned) {
  std::string text;
  for (auto [index, symbol] : llvm::enumerate(job.graph.symbols())) {
    const std::int64_t low = tuned.tuned.bucket.low[index], high = tuned.tuned.bucket.high[index];
    text += text.empty() ? "" : " ";
    text += job.fixed[index] || low == high ? fmt::format("{}={}", symbol.name, tuned.dims[index])
                                            : fmt::format("{}={}..{}", symbol.name, low, high);
  }
  return text;
}

std::string transfer_text(const Graph& graph, const Transfer& transfer) {
  if (!(transfer.winner_us.median > 0))
    return fmt::format("  at {}: the winner does not run there: {}\n", dims_text(graph, transfer.dims), transfer.failure);
  return fmt::format("  at {}: {:.2f} us, the best of those compared {:.2f} us: regret {:.1f} %\n", dims_text(graph, transfer.dims),
                     transfer.winner_us.median, transfer.best_us.median, 100 * transfer.regret());
}

}  // namespace

llvm::Expected<std::vector<Tuned>> tune_problem(const TuneSession& session, const TuneJob& job, const Place& place, std::size_t slot) {
  CompileOptions compile;
  compile.plan.fuse = !session.options.no_fuse;
  compile.device = device_model(place.target);
  auto space = make_space(job.graph, compile);
  if (!space) return space.takeError();
  ProblemTuner tuner(session, job, place, slot, std::move(compile), std::move(*space));
  std::vector<BucketSplit> splits = tuner.known_splits();
  std::vector<Bucket> buckets;
  for (const Bucket& range : job.ranges) {
    auto found = buckets_in(job.graph.symbols(), range, splits, kMostBuckets);
    if (!found) return found.takeError();
    for (Bucket& bucket : *found) {
      if (!llvm::is_contained(buckets, bucket)) buckets.push_back(std::move(bucket));
    }
  }
  auto done = tune_buckets(std::move(buckets), splits, job.fixed, job.at, kTieBand, tuner);
  session.display.finish(slot);
  if (!done) return done.takeError();
  return tuner.take_finished();
}

std::string tuned_text(const TuneJob& job, const Tuned& tuned) {
  const TuneResult& result = tuned.tuned.result;
  std::vector<std::string> fates;
  for (const auto& [name, count] : fates_of(result)) fates.push_back(fmt::format("{} {}", count, name));
  std::string text = fmt::format("{} {}", job.graph.name(), dims_text(job.graph, tuned.dims));
  if (tuned.whole_bucket) text += fmt::format(", for {}", bucket_text(job, tuned));
  text += fmt::format("\n  {}, {} in {:.1f} s ({}): {}\n", result.strategy, count_text(result.candidates.size(), "candidate"),
                      result.seconds, result.ended, fmt::join(fates, ", "));
  if (!result.winner) return text + "  no candidate passed; nothing is recorded\n";
  text += fmt::format("  winner  {:.2f} us  {}\n  default {:.2f} us  {}\n  verified: {} cases, normwise error {:.1e}\n  record  {}\n",
                      median_of(result, result.winner->config()), config_text(result.winner->config()), median_of(result, tuned.fallback),
                      config_text(tuned.fallback), result.winner->report().cases.size(), result.winner->normwise(), tuned.record_path);
  for (const std::string& skipped : result.winner->report().skipped) text += fmt::format("  not compared: {}\n", skipped);
  for (const Transfer& transfer : tuned.tuned.transfers) text += transfer_text(job.graph, transfer);
  return text;
}

llvm::json::Object tuned_json(const TuneJob& job, const Tuned& tuned, const Place& place) {
  const TuneResult& result = tuned.tuned.result;
  llvm::json::Object fates;
  for (const auto& [name, count] : fates_of(result)) fates[name] = count;
  llvm::json::Object json{{"name", job.graph.name()},
                          {"file", job.file},
                          {"device", place.device},
                          {"dims", dims_json(job.graph, tuned.dims)},
                          {"strategy", result.strategy},
                          {"ended", result.ended},
                          {"seconds", json_number(result.seconds)},
                          {"fates", std::move(fates)},
                          {"record", tuned.record_path}};
  if (tuned.whole_bucket) {
    json["bucket"] =
        llvm::json::Object{{"low", dims_json(job.graph, tuned.tuned.bucket.low)}, {"high", dims_json(job.graph, tuned.tuned.bucket.high)}};
    json["splits"] = json_count(tuned.tuned.splits.size());
    json["transfers"] = transfers_json(job.graph, tuned.tuned.transfers);
  }
  if (result.winner) {
    json["winner"] = config_json(result.winner->config());
    json["winner_us"] = json_number(median_of(result, result.winner->config()));
    json["default_us"] = json_number(median_of(result, tuned.fallback));
  }
  return json;
}

}  // namespace tilewright::cli
