// tilewright bench FILE...: time against the floor, by the protocols of published records.
#include "autotune/timer.h"
#include "llvm/ADT/STLExtras.h"
#include "ops/json.h"
#include "tools/bench_cold.h"
#include "tools/cli.h"
#include "tools/device_session.h"
#include "tools/progress.h"

namespace tilewright::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string protocol = "kernelbench";
  std::vector<std::string> dims, cases;
  std::string json;
  std::string config;
  std::string target;
  int device = 0;
  std::uint64_t seed = 1;
  double low = 0.0, high = 1.0;
  bool no_fuse = false;
  bool cold = false;
  unsigned repeats = 5;
  std::string cold_child;
};

struct Case {
  std::string file;
  Graph graph;
  llvm::SmallVector<std::int64_t, 4> dims;
};

struct Bandwidth {
  double datasheet = 0, copy = 0, read = 0;  // bytes/s
  std::string read_problem;
  double measured() const { return std::max(copy, read); }
};

struct Result {
  const Case* which;
  Timing timing;
  Cost cost;
  std::size_t kernels = 0;
  Match match = Match::kNone;  // of the tuning record whose config it is
};

// Every file with every --case (or once, without any).
llvm::Expected<std::vector<Case>> collect_cases(const Options& options) {
  std::vector<Case> cases;
  for (const std::string& file : options.files) {
    const std::vector<std::string> sets = options.cases.empty() ? std::vector<std::string>{""} : options.cases;
    for (const std::string& set : sets) {
      std::vector<std::string> items = options.dims;
      if (!set.empty()) items.push_back(set);
      auto sized = load_sized(file, items);
      if (!sized) return sized.takeError();
      cases.push_back({file, std::move(sized->graph), std::move(sized->dims)});
    }
  }
  return cases;
}

llvm::Expected<Bandwidth> measure_bandwidth(Timer& timer, Builder& builder, const DeviceSession& session) {
  Bandwidth bandwidth;
  bandwidth.datasheet = session.facts.datasheet_bandwidth;
  auto copy = timer.copy_bandwidth();
  if (!copy) return copy.takeError();
  bandwidth.copy = *copy;
  if (auto read = timer.read_bandwidth(builder, session.target)) {
    bandwidth.read = *read;
  } else {
    bandwidth.read_problem = take_error_facts(read.takeError()).message;
  }
  return bandwidth;
}

llvm::Expected<Result> time_case(const Options& options, const ConfigOverrides& overrides, const Case& which, DeviceSession& session,
                                 Builder& builder, Timer& timer, Progress& progress) {
  CompileOptions compile;
  compile.plan.fuse = !options.no_fuse;
  compile.overrides = overrides;
  auto program = LoadedProgram::create(session, builder, which.graph, which.dims, compile);
  if (!program) return program.takeError();
  std::vector<HostTensor> inputs;
  for (auto [index, input] : llvm::enumerate(which.graph.inputs())) {
    inputs.push_back(random_input(which.graph, input, which.dims, options.seed + index, options.low, options.high));
  }
  if (llvm::Error error = (*program)->upload(inputs)) return error;
  inputs.clear();
  auto launch = [&](CUstream stream) { return (*program)->launch(stream); };
  auto step = [&] { progress.advance(); };
  auto timing = options.protocol == "kernelbench" ? timer.kernelbench(launch, {}, step) : timer.kernelbot(launch, {}, step);
  if (!timing) return timing.takeError();
  return Result{&which, *timing, graph_cost(which.graph, which.dims), (*program)->compiled().artifacts.size(), (*program)->match()};
}

// Time that bytes take at a bandwidth; 0 when it is unknown.
double floor_us(std::uint64_t bytes, double bandwidth) { return bandwidth > 0 ? static_cast<double>(bytes) / bandwidth * 1e6 : 0; }
double ratio(double time_us, double floor) { return floor > 0 ? time_us / floor : 0; }

std::string result_text(const Result& result, const Bandwidth& bandwidth) {
  const Timing& timing = result.timing;
  const double seconds = timing.mean_us * 1e-6;
  const double datasheet = floor_us(result.cost.bytes, bandwidth.datasheet), measured = floor_us(result.cost.bytes, bandwidth.measured());
  std::string text = fmt::format("{} {}\n", result.which->graph.name(), dims_text(result.which->graph, result.which->dims));
  text += fmt::format("  time      {:.2f} us mean of {}{}, std {:.2f}, median {:.2f}, min {:.2f}; {}\n", timing.mean_us, timing.samples,
                      timing.runs_per_sample > 1 ? fmt::format(" samples of {} runs", timing.runs_per_sample) : " runs", timing.std_us,
                      timing.median_us, timing.min_us, count_text(result.kernels, "kernel"));
  if (is_used(result.match)) text += fmt::format("  config    of a tuning record ({} match)\n", match_name(result.match));
  text += fmt::format("  achieved  {:.3f} TB/s, {:.2f} Tflop/s\n", static_cast<double>(result.cost.bytes) / seconds * 1e-12,
                      static_cast<double>(result.cost.flops) / seconds * 1e-12);
  text += fmt::format(
      "  floor     {:.2f} us for {} at the datasheet's bandwidth (time is {:.2f} x), {:.2f} us at the measured one ({:.2f} x)\n", datasheet,
      bytes_text(static_cast<double>(result.cost.bytes)), ratio(timing.mean_us, datasheet), measured, ratio(timing.mean_us, measured));
  return text;
}

llvm::json::Object result_json(const Result& result, const Bandwidth& bandwidth) {
  const Timing& timing = result.timing;
  const double seconds = timing.mean_us * 1e-6;
  const double datasheet = floor_us(result.cost.bytes, bandwidth.datasheet), measured = floor_us(result.cost.bytes, bandwidth.measured());
  return llvm::json::Object{{"name", result.which->graph.name()},
                            {"file", result.which->file},
                            {"dims", dims_json(result.which->graph, result.which->dims)},
                            {"kernels", json_count(result.kernels)},
                            {"record", match_name(result.match)},
                            {"mean_us", json_number(timing.mean_us)},
                            {"std_us", json_number(timing.std_us)},
                            {"median_us", json_number(timing.median_us)},
                            {"min_us", json_number(timing.min_us)},
                            {"samples", json_count(timing.samples)},
                            {"runs_per_sample", json_count(timing.runs_per_sample)},
                            {"bytes", json_count(result.cost.bytes)},
                            {"flops", json_count(result.cost.flops)},
                            {"bytes_per_s", json_number(static_cast<double>(result.cost.bytes) / seconds)},
                            {"flops_per_s", json_number(static_cast<double>(result.cost.flops) / seconds)},
                            {"floor_datasheet_us", json_number(datasheet)},
                            {"floor_measured_us", json_number(measured)},
                            {"ratio_datasheet", json_number(ratio(timing.mean_us, datasheet))},
                            {"ratio_measured", json_number(ratio(timing.mean_us, measured))}};
}

std::string report_text(const Options& options, const DeviceSession& session, const Bandwidth& bandwidth, llvm::ArrayRef<Result> results,
                        double mean_us) {
  std::string text = fmt::format("{} ({}), protocol {}; memory {:.2f} TB/s by datasheet, measured {:.2f} copying", session.facts.name,
                                 session.target.name(), options.protocol, bandwidth.datasheet * 1e-12, bandwidth.copy * 1e-12);
  text += bandwidth.read > 0 ? fmt::format(", {:.2f} reading\n", bandwidth.read * 1e-12)
                             : fmt::format(" (reading not measured: {})\n", bandwidth.read_problem);
  for (const Result& result : results) text += result_text(result, bandwidth);
  if (results.size() > 1) text += fmt::format("geometric mean of {} cases: {:.2f} us\n", results.size(), mean_us);
  return text;
}

std::string report_json(const Options& options, const DeviceSession& session, const Bandwidth& bandwidth, llvm::ArrayRef<Result> results,
                        double mean_us) {
  llvm::json::Array cases;
  for (const Result& result : results) cases.push_back(result_json(result, bandwidth));
  return json_text(llvm::json::Object{{"device", session.facts.name},
                                      {"target", session.target.name()},
                                      {"protocol", options.protocol},
                                      {"bandwidth", llvm::json::Object{{"datasheet_bytes_per_s", json_number(bandwidth.datasheet)},
                                                                       {"copy_bytes_per_s", json_number(bandwidth.copy)},
                                                                       {"read_bytes_per_s", json_number(bandwidth.read)}}},
                                      {"cases", std::move(cases)},
                                      {"geometric_mean_us", json_number(mean_us)}});
}

// --json -: JSON instead of text on stdout; --json PATH: text on stdout, JSON in the file.
llvm::Expected<Output> deliver(const Options& options, std::string text, std::string json) {
  if (options.json == "-") return Output{std::move(json)};
  if (!options.json.empty()) {
    if (llvm::Error error = replace_file(options.json, json)) return error;
  }
  return Output{std::move(text)};
}

llvm::Expected<Output> run_cold(const Options& options) {
  if (options.files.size() != 1) return make_error(Status::kInvalidArgument, "bench --cold wants one FILE, got {}", options.files.size());
  const ColdOptions cold{options.files[0], options.dims, options.target, options.device, options.repeats};
  if (!options.cold_child.empty()) return bench_cold_child(cold, options.cold_child);
  auto output = bench_cold(cold, !options.json.empty());
  if (!output || options.json.empty() || options.json == "-") return output;
  if (llvm::Error error = replace_file(options.json, output->text)) return error;
  return Output{fmt::format("written to {}\n", options.json)};
}

llvm::Expected<Output> run_bench(const Options& options) {
  if (options.cold || !options.cold_child.empty()) return run_cold(options);
  if (!(options.low < options.high))
    return make_error(Status::kInvalidArgument, "--low {} must lie below --high {}", options.low, options.high);
  auto overrides = parse_config(options.config);
  if (!overrides) return overrides.takeError();
  auto cases = collect_cases(options);
  if (!cases) return cases.takeError();
  std::unique_ptr<Builder> builder = make_builder();
  auto session = DeviceSession::open(options.device, *builder);
  if (!session) return session.takeError();
  auto timer = Timer::create(*(*session)->driver);
  if (!timer) return timer.takeError();
  const std::size_t steps = options.protocol == "kernelbench" ? KernelBenchOptions().runs : KernelBotOptions().samples;
  Progress progress("bench", cases->size() * steps);
  progress.step("memory bandwidth");
  auto bandwidth = measure_bandwidth(*timer, *builder, **session);
  if (!bandwidth) return bandwidth.takeError();
  std::vector<Result> results;
  std::vector<double> means_us;
  for (const Case& which : *cases) {
    progress.step(which.graph.name());
    auto result = time_case(options, *overrides, which, **session, *builder, *timer, progress);
    if (!result) return result.takeError();
    means_us.push_back(result->timing.mean_us);
    results.push_back(*result);
  }
  const double mean_us = geometric_mean(means_us);
  return deliver(options, report_text(options, **session, *bandwidth, results, mean_us),
                 report_json(options, **session, *bandwidth, results, mean_us));
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files, "descriptions")->required();
  CLI::Option* protocol =
      app.add_option("--protocol", options->protocol, "kernelbench (events around 100 runs) or kernelbot (graph replay)")
          ->capture_default_str()
          ->check(CLI::IsMember({"kernelbench", "kernelbot"}));
  app.add_option("--dim", options->dims, "NAME=VALUE of a named dimension, for all cases")->expected(1)->take_all();
  CLI::Option* cases =
      app.add_option("--case", options->cases, "NAME=VALUE,...: one case; several give a geometric mean")->expected(1)->take_all();
  app.add_option("--device", options->device, "ordinal of the GPU")->capture_default_str();
  CLI::Option* seed = app.add_option("--seed", options->seed, "seed of the data")->capture_default_str();
  CLI::Option* low = app.add_option("--low", options->low, "smallest value of random floats")->capture_default_str();
  CLI::Option* high = app.add_option("--high", options->high, "bound above random floats")->capture_default_str();
  CLI::Option* config = app.add_option("--config", options->config, "tile parameters as JSON");
  app.add_option("--json", options->json, "also write JSON to this file; - prints JSON instead of text");
  CLI::Option* no_fuse = app.add_flag("--no-fuse", options->no_fuse, "one kernel per op");
  CLI::Option* cold = app.add_flag("--cold", options->cold,
                                   "time the way from description to launch in fresh processes; works without a GPU up to the cubin");
  // A cold start is that of the default kernels, and no data is involved.
  for (CLI::Option* other : {protocol, cases, seed, low, high, config, no_fuse}) cold->excludes(other);
  app.add_option("--repeats", options->repeats, "with --cold: processes per store state")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000))
      ->needs(cold);
  app.add_option("--target", options->target, "with --cold: what to compile for")->needs(cold);
  app.add_option("--cold-child", options->cold_child, "")->group("");  // hidden: one measured process of --cold
  return [options] { return run_bench(*options); };
}

}  // namespace tilewright::cli
