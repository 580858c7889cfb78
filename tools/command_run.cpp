// tilewright run FILE: on a GPU or on the CPU, compared with the reference, or the reference alone.
#include <chrono>

#include "autotune/timer.h"
#include "autotune/verify.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "ops/json.h"
#include "ops/reference.h"
#include "tools/cli.h"
#include "tools/command_run.h"
#include "tools/device_session.h"
#include "tools/progress.h"
#include "tools/run_data.h"

namespace tilewright::cli {
namespace {

llvm::json::Object comparison_json(llvm::StringRef name, const HostTensor& tensor, const Comparison& comparison) {
  llvm::json::Object json = summary_json(name, tensor, summarize_tensor(tensor));
  json["passed"] = comparison.passed;
  json["normwise_error"] = json_number(comparison.normwise);
  json["max_absolute_error"] = json_number(comparison.max_absolute);
  json["mismatches"] = comparison.mismatches;
  json["special_mismatches"] = comparison.special_mismatches;
  json["worst_index"] = comparison.worst_index;
  return json;
}

}  // namespace

llvm::Expected<TimedReference> evaluate_timed(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims,
                                              llvm::ArrayRef<HostTensor> inputs) {
  const auto start = std::chrono::steady_clock::now();
  ReferenceOptions reference;
  reference.threads = options.threads;
  auto outputs = evaluate_reference(graph, inputs, dims, reference);
  if (!outputs) return outputs.takeError();
  return TimedReference{std::move(*outputs), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

llvm::Error save_outputs(const RunOptions& options, const Graph& graph, llvm::ArrayRef<HostTensor> outputs) {
  if (options.output.empty()) return llvm::Error::success();
  for (auto [id, tensor] : llvm::zip_equal(graph.outputs(), outputs)) {
    if (llvm::Error error = save_tensor(options.output, graph.value(id).name, tensor)) return error;
  }
  return llvm::Error::success();
}

std::string head_text(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  const std::string sizes = dims_text(graph, dims);
  return fmt::format("{}{}, inputs: seed {}{}\n", graph.name(), sizes.empty() ? "" : " " + sizes, options.data.seed,
                     options.data.files.empty() ? "" : fmt::format(" and {}", llvm::join(options.data.files, ", ")));
}

llvm::json::Object head_json(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  return llvm::json::Object{{"name", graph.name()},
                            {"on", options.on},
                            {"dims", dims_json(graph, dims)},
                            {"seed", json_count(options.data.seed)},
                            {"signature", signature(graph)}};
}

Judgement judge(const Graph& graph, llvm::ArrayRef<HostTensor> outputs, const TimedReference& wanted) {
  Judgement judgement;
  judgement.text = fmt::format("compared with the reference ({}):\n", time_text(wanted.seconds * 1e6));
  for (auto [index, id] : llvm::enumerate(graph.outputs())) {
    const std::string& name = graph.value(id).name;
    const Comparison comparison = compare(outputs[index], wanted.outputs[index], default_tolerance(graph, id));
    judgement.text += fmt::format("  {} {}: {} ({})\n", name, tensor_text(outputs[index]), comparison.passed ? "good" : "DIFFERS",
                                  comparison_text(comparison));
    judgement.json.push_back(comparison_json(name, outputs[index], comparison));
    if (!comparison.passed && judgement.complaint.empty())
      judgement.complaint = fmt::format("{} differs from the reference: {}", name, comparison_text(comparison));
  }
  return judgement;
}

Judgement no_judgement() {
  Judgement judgement;
  judgement.text = "NOT compared with the reference (--no-reference)\n";
  return judgement;
}

namespace {

llvm::Expected<Output> run_reference(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims,
                                     llvm::ArrayRef<HostTensor> inputs) {
  Progress progress("run", 1);
  progress.step("reference");
  auto reference = evaluate_timed(options, graph, dims, inputs);
  if (!reference) return reference.takeError();
  std::vector<HostTensor> outputs;
  for (auto [id, tensor] : llvm::zip_equal(graph.outputs(), reference->outputs)) outputs.push_back(stored(tensor, graph.value(id).dtype));
  if (llvm::Error error = save_outputs(options, graph, outputs)) return error;

  std::string text = head_text(options, graph, dims) + fmt::format("reference in {}\n", time_text(reference->seconds * 1e6));
  llvm::json::Object json = head_json(options, graph, dims);
  json["reference_s"] = json_number(reference->seconds);
  llvm::json::Array array;
  for (auto [id, tensor] : llvm::zip_equal(graph.outputs(), outputs)) {
    const TensorSummary summary = summarize_tensor(tensor);
    text += summary_text(graph.value(id).name, tensor, summary);
    array.push_back(summary_json(graph.value(id).name, tensor, summary));
  }
  json["outputs"] = std::move(array);
  if (!options.output.empty()) text += fmt::format("written to {}\n", options.output);
  return Output{options.json ? json_text(std::move(json)) : std::move(text)};
}

// What the GPU gave: outputs of the first launch, whether a second gave the same bits, and a quick time.
struct GpuResult {
  std::string device, target;
  std::vector<HostTensor> outputs;
  std::vector<std::shared_ptr<const Artifact>> artifacts;
  std::optional<std::string> unstable;  // name of an output whose bits differed
  Timing timing;
  double datasheet_bandwidth = 0;
  Match match = Match::kNone;  // of the tuning record whose config it is
};

constexpr unsigned kQuickRuns = 21;

llvm::Expected<GpuResult> launch_twice(const Graph& graph, LoadedProgram& program, Timer& timer) {
  GpuResult result;
  std::vector<HostTensor> runs[2];
  for (std::vector<HostTensor>& outputs : runs) {
    if (llvm::Error error = program.poison(timer.stream())) return error;
    if (llvm::Error error = program.launch(timer.stream())) return error;
    auto downloaded = program.download(timer.stream());
    if (!downloaded) return downloaded.takeError();
    outputs = std::move(*downloaded);
  }
  for (auto [id, first, second] : llvm::zip_equal(graph.outputs(), runs[0], runs[1])) {
    if (first.bytes != second.bytes && !result.unstable) result.unstable = graph.value(id).name;
  }
  result.outputs = std::move(runs[0]);
  result.artifacts = program.compiled().artifacts;
  KernelBenchOptions quick;
  quick.runs = kQuickRuns;
  auto timing = timer.kernelbench([&](CUstream stream) { return program.launch(stream); }, quick);
  if (!timing) return timing.takeError();
  result.timing = *timing;
  return result;
}

// An error of opening the GPU, with the way out.
llvm::Error without_gpu(llvm::Error error) {
  ErrorFacts facts = take_error_facts(std::move(error));
  if (facts.status != Status::kMissing) return make_error_text(facts.status, std::move(facts.message));
  return make_error(facts.status,
                    "{}; without a GPU, `tilewright run --on host` runs the kernels on the CPU, and --on reference evaluates the reference",
                    facts.message);
}

llvm::Expected<GpuResult> compute_on_gpu(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims,
                                         llvm::ArrayRef<HostTensor> inputs, DeviceSession& session, Builder& builder, Progress& progress) {
  auto overrides = parse_config(options.config);
  if (!overrides) return overrides.takeError();
  CompileOptions compile;
  compile.plan.fuse = !options.no_fuse;
  compile.overrides = std::move(*overrides);
  progress.step("compiling");
  auto program = LoadedProgram::create(session, builder, graph, dims, compile);
  if (!program) return program.takeError();
  progress.advance();
  progress.step("launching");
  if (llvm::Error error = (*program)->upload(inputs)) return error;
  auto timer = Timer::create(*session.driver);
  if (!timer) return timer.takeError();
  auto result = launch_twice(graph, **program, *timer);
  if (!result) return result.takeError();
  result->match = (*program)->match();
  result->device = session.facts.name;
  result->target = session.target.name();
  result->datasheet_bandwidth = session.facts.datasheet_bandwidth;
  progress.advance();
  return result;
}

Output report_gpu(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const GpuResult& result,
                  Judgement judgement) {
  const Cost cost = graph_cost(graph, dims);
  const double floor_us = result.datasheet_bandwidth > 0 ? static_cast<double>(cost.bytes) / result.datasheet_bandwidth * 1e6 : 0;
  const std::string same_bits = result.unstable ? fmt::format("no ({})", *result.unstable) : "yes";
  Output output;
  if (!judgement.complaint.empty()) {
    output.status = kBad;
    output.complaint = judgement.complaint;
  }
  if (options.json) {
    llvm::json::Object json = head_json(options, graph, dims);
    llvm::json::Array kernels;
    for (const auto& artifact : result.artifacts) {
      kernels.push_back(llvm::json::Object{{"kernel", artifact->entry}, {"key", artifact->key}, {"origin", origin_name(artifact->origin)}});
    }
    json["device"] = result.device;
    json["target"] = result.target;
    json["kernels"] = std::move(kernels);
    json["record"] = match_name(result.match);
    json["compared"] = !options.no_reference;
    json["outputs"] = std::move(judgement.json);
    json["same_bits_twice"] = !result.unstable;
    json["ok"] = output.status == kGood;
    json["median_us"] = json_number(result.timing.median_us);
    json["floor_datasheet_us"] = json_number(floor_us);
    output.text = json_text(std::move(json));
    return output;
  }
  output.text = head_text(options, graph, dims) +
                fmt::format("{} ({}), {}\n", result.device, result.target, count_text(result.artifacts.size(), "kernel"));
  for (const auto& artifact : result.artifacts)
    output.text += fmt::format("  {} from {}\n", artifact->entry, origin_name(artifact->origin));
  if (is_used(result.match)) output.text += fmt::format("config of a tuning record ({} match)\n", match_name(result.match));
  output.text += judgement.text;
  output.text += fmt::format("same bits on a second launch: {}\n", same_bits);
  output.text += fmt::format("quick time {} (median of {}, cold L2), floor {} for {} at the datasheet's bandwidth ({:.2f} x)\n",
                             time_text(result.timing.median_us), result.timing.samples, time_text(floor_us),
                             bytes_text(static_cast<double>(cost.bytes)), floor_us > 0 ? result.timing.median_us / floor_us : 0.0);
  if (!options.output.empty()) output.text += fmt::format("written to {}\n", options.output);
  return output;
}

llvm::Expected<Output> run_gpu(const RunOptions& options, const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  std::unique_ptr<Builder> builder = make_builder();
  auto session = DeviceSession::open(options.device, *builder);
  if (!session) return without_gpu(session.takeError());
  Progress progress("run", options.no_reference ? 3 : 4);
  progress.step("inputs");
  auto inputs = make_inputs(graph, dims, options.data);
  if (!inputs) return inputs.takeError();
  progress.advance();
  auto result = compute_on_gpu(options, graph, dims, *inputs, **session, *builder, progress);
  if (!result) return result.takeError();

  Judgement judgement = no_judgement();
  if (!options.no_reference) {
    progress.step("reference");
    auto reference = evaluate_timed(options, graph, dims, *inputs);
    if (!reference) return reference.takeError();
    judgement = judge(graph, result->outputs, *reference);
  }
  if (result->unstable && graph.deterministic() && judgement.complaint.empty()) {
    judgement.complaint = fmt::format("{}: two launches on the same inputs gave different bits", *result->unstable);
  }
  if (llvm::Error error = save_outputs(options, graph, result->outputs)) return error;
  return report_gpu(options, graph, dims, *result, std::move(judgement));
}

bool has_gpu(int device) {
  auto found = driver();
  if (!found) {
    llvm::consumeError(found.takeError());
    return false;
  }
  auto facts = device_facts(*found, device);
  const bool good = static_cast<bool>(facts);
  if (!good) llvm::consumeError(facts.takeError());
  return good;
}

llvm::Expected<Output> run_run(RunOptions options) {
  if (options.on.empty()) options.on = has_gpu(options.device) ? "gpu" : "host";
  if (options.on != "gpu" && options.on != "host" && options.on != "reference") {
    return make_error(Status::kInvalidArgument, "run --on {}: wanted gpu, host or reference", options.on);
  }
  auto sized = load_sized(options.file, options.dims);
  if (!sized) return sized.takeError();
  const Graph* const graph = &sized->graph;
  const auto* const dims = &sized->dims;
  if (options.on == "gpu") return run_gpu(options, *graph, *dims);
  if (options.on == "host") return run_host(options, *graph, *dims);
  if (options.no_reference) return make_error(Status::kInvalidArgument, "run --on reference and --no-reference contradict each other");
  auto inputs = make_inputs(*graph, *dims, options.data);
  if (!inputs) return inputs.takeError();
  return run_reference(options, *graph, *dims, *inputs);
}

}  // namespace

Action add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  app.add_option("FILE", options->file, "description")->required();
  app.add_option("--on", options->on, "gpu, host (the kernels on the CPU; the default where no GPU is) or reference (the Eigen reference)")
      ->take_last();
  app.add_option("--device", options->device, "ordinal of the GPU")->capture_default_str();
  app.add_option("--dim", options->dims, "NAME=VALUE of a named dimension")->expected(1)->take_all();
  app.add_option("--seed", options->data.seed, "seed of the random inputs")->capture_default_str();
  app.add_option("--low", options->data.low, "smallest value of random floats")->capture_default_str();
  app.add_option("--high", options->data.high, "bound above random floats")->capture_default_str();
  app.add_option("--input", options->data.files, "NAME=FILE.npy: an input from a file")->expected(1)->take_all();
  app.add_option("--output", options->output, "directory to write the outputs to, as NAME.npy");
  app.add_option("--config", options->config, "tile parameters as JSON, for instance {\"block_threads\": 256}");
  app.add_option("--threads", options->threads, "threads of the reference and of --on host (0: one per core)")->capture_default_str();
  app.add_flag("--no-reference", options->no_reference, "do not compare with the reference");
  app.add_flag("--no-fuse", options->no_fuse, "one kernel per op");
  app.add_option("--stress", options->stress, "on host: so many schedules, drawn from --seed on, must give the same bits")
      ->capture_default_str();
  app.add_option("--time-limit", options->time_limit_s, "on host: seconds that a kernel may take")->capture_default_str();
  app.add_option("--sanitize", options->sanitize, "on host: compile with address, undefined or both instead of the checks of our own");
  app.add_flag("--contained", options->contained)->group("");  // not for users: the child of run --on host
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return run_run(*options); };
}

}  // namespace tilewright::cli
