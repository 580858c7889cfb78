// tilewright tune FILE|DIR...: finds, verifies and records the config of each description.
#include <atomic>
#include <cmath>
#include <csignal>
#include <thread>

#include "autotune/records.h"
#include "autotune/report.h"
#include "autotune/use_records.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "tools/cli.h"
#include "tools/device_runner.h"
#include "tools/tune_helpers.h"
#include "tools/tune_problem.h"

namespace tilewright::cli {

using Options = TuneCommand;

llvm::Expected<Budget> parse_budget(llvm::StringRef text) {
  llvm::StringRef number = text;
  const char unit = !text.empty() && !llvm::isDigit(text.back()) ? text.back() : 's';
  if (!text.empty() && !llvm::isDigit(text.back())) number = text.drop_back();
  constexpr double kNoLimit = 1e9;
  double value = 0;
  if (number.getAsDouble(value) || !(value > 0 && value <= kNoLimit) || (unit != 's' && unit != 'm' && unit != 'c') ||
      (unit == 'c' && value != std::floor(value))) {
    return make_error(Status::kInvalidArgument,
                      "--budget {}: wanted a positive number of seconds (60s) or minutes (2m), or a whole one of candidates (100c)", text);
  }
  if (unit == 'c') return Budget{kNoLimit, static_cast<std::size_t>(value)};
  return Budget{unit == 'm' ? value * 60 : value, 0};
}

namespace {

std::atomic<bool> interrupted{false};
void on_interrupt(int) { interrupted.store(true); }

// Targets other than those here get the config of a record, or else their first guess, into the store. One line each.
llvm::Expected<std::vector<std::string>> compile_absent(const Options& options, llvm::ArrayRef<TuneJob> jobs, llvm::ArrayRef<Place> places,
                                                        Builder& builder) {
  const RecordStore records(RecordStore::Options::from_environment());
  std::vector<std::string> lines;
  for (const TuneJob& job : jobs) {
    for (const Target& target : job.targets) {
      if (llvm::any_of(places, [&](const Place& place) { return place.target == target; })) continue;
      CompileOptions compile;
      compile.plan.fuse = !options.no_fuse;
      compile.device = device_model(target);
      const RecordHit hit = use_record(records, job.graph, job.at, "", target, compile);
      auto compiled = compile_program(job.graph, target, builder, compile);
      if (!compiled) return prefix_error(compiled.takeError(), job.file + ": ");
      const char* what = is_used(hit.match) ? "the config of a record" : "its first guess";
      lines.push_back(fmt::format("{} for {}: no such device here, {} is in the store", job.graph.name(), target.name(), what));
    }
  }
  return lines;
}

// What came of one description on one model of devices.
struct Outcome {
  std::vector<Tuned> tuned;
  std::string failure;  // "" for none
  Status status = Status::kInternal;
};

// The devices of a model take jobs one after the other; each has its own helper. outcomes[i] is of jobs[i].
std::vector<Outcome> tune_model(const TuneSession& session, llvm::ArrayRef<TuneJob> jobs, llvm::ArrayRef<Place> places,
                                llvm::ArrayRef<std::size_t> members) {
  std::vector<Outcome> outcomes(jobs.size());
  std::atomic<std::size_t> next{0};
  auto work = [&](std::size_t slot) {
    for (std::size_t i = next++; i < jobs.size() && !session.interrupted(); i = next++) {
      auto tuned = tune_problem(session, jobs[i], places[slot], slot);
      if (tuned) {
        outcomes[i].tuned = std::move(*tuned);
        // A lost device begins no more; another of its model takes what is left.
        if (llvm::any_of(outcomes[i].tuned, [](const Tuned& t) { return !t.tuned.result.lost.empty(); })) return;
        continue;
      }
      ErrorFacts facts = take_error_facts(tuned.takeError());
      outcomes[i].failure = jobs[i].file + ": " + facts.message;
      outcomes[i].status = facts.status;
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t member : members.drop_front()) threads.emplace_back(work, member);
  work(members.front());
  threads.clear();
  return outcomes;
}

// outcomes[m][i] is of models[m] and jobs[i].
std::vector<std::vector<Outcome>> tune_all(const TuneSession& session, llvm::ArrayRef<TuneJob> jobs, llvm::ArrayRef<Place> places,
                                           llvm::ArrayRef<std::vector<std::size_t>> models) {
  std::vector<std::vector<Outcome>> outcomes(models.size());
  std::vector<std::jthread> threads;
  for (std::size_t m = 1; m < models.size(); ++m)
    threads.emplace_back([&, m] { outcomes[m] = tune_model(session, jobs, places, models[m]); });
  if (!models.empty()) outcomes[0] = tune_model(session, jobs, places, models[0]);
  return outcomes;
}

// What is printed of everything. A single description that cannot be tuned is the error itself; of several the others are told all the
// same.
llvm::Expected<Output> tell(const Options& options, llvm::ArrayRef<TuneJob> jobs, llvm::ArrayRef<Place> places,
                            llvm::ArrayRef<std::vector<std::size_t>> models, llvm::ArrayRef<std::string> absent,
                            std::vector<std::vector<Outcome>> outcomes) {
  Output output;
  llvm::json::Array array, failures;
  std::vector<ReportProblem> reports;
  auto complain = [&](std::string text, ExitStatus status) {
    output.status = std::max(output.status, status);
    if (output.complaint.empty()) output.complaint = std::move(text);
  };
  for (const std::string& line : absent) output.text += line + "\n";
  for (auto [m, of_model] : llvm::enumerate(outcomes)) {
    for (auto [i, outcome] : llvm::enumerate(of_model)) {
      if (!outcome.failure.empty()) {
        if (jobs.size() == 1) return make_error_text(outcome.status, outcome.failure);
        output.text += outcome.failure + "\n";
        failures.push_back(outcome.failure);
        complain(outcome.failure, kBad);
      }
      for (Tuned& tuned : outcome.tuned) {
        output.text += tuned_text(jobs[i], tuned);
        array.push_back(tuned_json(jobs[i], tuned, places[models[m].front()]));
        reports.push_back(std::move(tuned.report));
        const TuneResult& result = tuned.tuned.result;
        if (!result.lost.empty()) {
          complain(fmt::format("{}: {}; {}. tune --resume goes on from here", jobs[i].file, result.lost,
                               result.winner ? "the best so far is recorded" : "nothing is recorded"),
                   kLacking);
        } else if (!result.winner) {
          complain(fmt::format("{}: no candidate passed; the default: {}", jobs[i].file,
                               result.candidates.empty() ? "not tried" : result.candidates.front().reason),
                   kBad);
        }
      }
    }
  }
  if (!options.report.empty()) {
    if (llvm::Error error = replace_file(options.report, report_html(reports))) return error;
  }
  if (options.json)
    output.text = json_text(llvm::json::Object{
        {"tuned", std::move(array)}, {"absent", llvm::json::Array(absent)}, {"failed", std::move(failures)}, {"budget", options.budget}});
  return output;
}

llvm::Expected<Output> run_tune(const Options& options) {
  auto budget = parse_budget(options.budget);
  if (!budget) return budget.takeError();
  if (auto policy = parse_timing_policy(options.policy); !policy) return policy.takeError();
  auto jobs = collect_tune_jobs(options.files, options.dims, options.targets);
  if (!jobs) return jobs.takeError();
  auto shared_store = share_store();
  if (!shared_store) return shared_store.takeError();
  std::unique_ptr<Builder> builder = make_builder();
  std::vector<Place> places;
  if (auto found = find_places(options, *builder)) {
    places = std::move(*found);
  } else if (llvm::any_of(*jobs, [](const TuneJob& job) { return job.targets.empty(); })) {
    return found.takeError();
  } else {
    llvm::consumeError(found.takeError());
  }
  auto absent = compile_absent(options, *jobs, places, *builder);
  if (!absent) return absent.takeError();
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  const std::vector<std::vector<std::size_t>> models = models_of(places);
  TuneDisplay display(places.size(), jobs->size() * models.size(), *budget);
  TuneSession session{options, *budget, display, [] { return interrupted.load(); }, options.jobs};
  if (session.compile_threads == 0 && places.size() > 1)
    session.compile_threads = std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(places.size()));
  return tell(options, *jobs, places, models, *absent, tune_all(session, *jobs, places, models));
}

}  // namespace

Action add_tune(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files, "descriptions, directories of them, or manifests (docs/autotuning.md)")->required();
  app.add_option("--dim", options->dims,
                 "a named dimension: NAME=VALUE tunes at that size, NAME=LOW..HIGH and NAME=VALUE,VALUE tune the buckets of these sizes; "
                 "not given: the bucket of the default size")
      ->expected(1)
      ->take_all();
  app.add_option("--device", options->devices, "ordinals of the GPUs that share the work (0,1), or all")->capture_default_str();
  app.add_option(
         "--budget", options->budget,
         "for each problem, which is a bucket of a description on one model of GPU: seconds (60s), minutes (2m) or candidates (100c)")
      ->capture_default_str();
  app.add_option("--target", options->targets, "also compile the first guess for these where no such device is here, comma-separated");
  app.add_option("-j,--jobs", options->jobs, "kernels compiled at once (0: one per core)")->capture_default_str();
  app.add_option("--time-limit", options->time_limit_s, "seconds one timing of a candidate may take")->capture_default_str();
  app.add_option("--report", options->report, "HTML page to write: pictures of times and parameters, fates and reasons");
  app.add_flag("--exhaustive", options->exhaustive,
               "try every config, in the order of the cost model, instead of searching (spaces of up to 200,000)");
  app.add_flag("--resume", options->resume, "go on where an interrupted tuning ended");
  app.add_flag("--json", options->json, "print JSON");
  add_tune_common(app, *options);
  return [options] { return run_tune(*options); };
}

}  // namespace tilewright::cli
