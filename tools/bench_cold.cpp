#include "tools/bench_cold.h"

#include <chrono>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "ops/json.h"
#include "runtime/files.h"
#include "tools/device_session.h"
#include "tools/progress.h"

namespace tilewright::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Milliseconds by stage, in the order they happen.
class Stopwatch {
 public:
  void lap(llvm::StringRef stage) {
    const Clock::time_point now = Clock::now();
    stages_.emplace_back(stage.str(), std::chrono::duration<double, std::milli>(now - last_).count());
    last_ = now;
  }
  void restart() { last_ = Clock::now(); }
  llvm::ArrayRef<std::pair<std::string, double>> stages() const { return stages_; }

 private:
  Clock::time_point last_ = Clock::now();
  std::vector<std::pair<std::string, double>> stages_;
};

// Stages of the way from description to launch; the others are reported apart: driver and context come before it, buffers are the caller's.
constexpr llvm::StringRef kWay[] = {"parse", "plan", "build", "load", "launch"};

// A GPU without asking the compiler what it supports: a warm start must not load NVRTC. Null when there is none.
llvm::Expected<std::unique_ptr<DeviceSession>> open_device(int ordinal, Stopwatch& watch) {
  watch.restart();
  auto driver = tilewright::driver();
  if (!driver) {
    llvm::consumeError(driver.takeError());
    return nullptr;
  }
  auto facts = device_facts(*driver, ordinal);
  if (!facts) return facts.takeError();
  watch.lap("driver");
  auto target = target_of_device(facts->major, facts->minor);
  if (!target) return target.takeError();
  auto context = Context::primary(*driver, ordinal);
  if (!context) return context.takeError();
  auto scope = ContextScope::enter(*driver, context->handle());
  if (!scope) return scope.takeError();
  watch.lap("context");
  return std::unique_ptr<DeviceSession>(new DeviceSession{&*driver, std::move(*facts), *target, std::move(*context), std::move(*scope)});
}

// Device memory of a program's tensors, zeroed: class 0 is a valid target whatever the operator.
struct Buffers {
  std::vector<DeviceBuffer> owned;
  llvm::SmallVector<CUdeviceptr, 8> inputs, outputs;
  Workspace workspace;
};

llvm::Expected<Buffers> make_buffers(const DeviceSession& session, const Program& program, llvm::ArrayRef<std::int64_t> dims) {
  Buffers buffers;
  auto add = [&](std::int64_t bytes) -> llvm::Expected<CUdeviceptr> {
    auto buffer = DeviceBuffer::allocate(*session.driver, static_cast<std::uint64_t>(bytes));
    if (!buffer) return buffer.takeError();
    if (bytes > 0) {
      if (llvm::Error error = buffer->fill(0)) return error;
    }
    buffers.owned.push_back(std::move(*buffer));
    return buffers.owned.back().pointer();
  };
  auto workspace_bytes = program.workspace_bytes(dims);
  if (!workspace_bytes) return workspace_bytes.takeError();
  auto workspace = add(*workspace_bytes);
  if (!workspace) return workspace.takeError();
  buffers.workspace = {*workspace, *workspace_bytes};
  for (auto [tensors, pointers] :
       {std::pair(&program.recipe().inputs, &buffers.inputs), std::pair(&program.recipe().outputs, &buffers.outputs)}) {
    for (const TensorSpec& tensor : *tensors) {
      auto pointer = add(storage_bytes(tensor, dims));
      if (!pointer) return pointer.takeError();
      pointers->push_back(*pointer);
    }
  }
  if (llvm::Error error = program.initialize_workspace(buffers.workspace, dims, nullptr)) return error;
  if (llvm::Error error = session.context.synchronize()) return error;
  return buffers;
}

llvm::Error load_and_launch(const DeviceSession& session, const CompiledProgram& compiled, llvm::ArrayRef<std::int64_t> dims,
                            Stopwatch& watch) {
  watch.restart();
  auto program = load_program(*session.driver, compiled);
  if (!program) return program.takeError();
  watch.lap("load");
  auto buffers = make_buffers(session, **program, dims);
  if (!buffers) return buffers.takeError();
  watch.lap("buffers");
  if (llvm::Error error = (*program)->launch(buffers->inputs, buffers->outputs, buffers->workspace, dims, nullptr)) return error;
  watch.lap("launch");
  if (llvm::Error error = session.context.synchronize()) return error;
  watch.lap("finish");
  return llvm::Error::success();
}

// One fresh process; its JSON.
llvm::Expected<llvm::json::Object> run_child(const ColdOptions& options, const std::string& store, const std::string& scratch) {
  const std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  const std::string device = std::to_string(options.device);
  llvm::SmallVector<llvm::StringRef, 16> arguments{self, "bench", options.file, "--cold", "--cold-child", store, "--device", device};
  if (!options.target.empty()) arguments.append({"--target", options.target});
  for (const std::string& dim : options.dims) arguments.append({"--dim", dim});
  const std::string out = scratch + "/stdout", err = scratch + "/stderr";
  // A redirection writes over what is there without cutting it off.
  for (const std::string& file : {out, err}) llvm::sys::fs::remove(file);
  std::string problem;
  const int status = llvm::sys::ExecuteAndWait(self, arguments, std::nullopt, {std::nullopt, llvm::StringRef(out), llvm::StringRef(err)},
                                               300, 0, &problem);
  auto text = read_file(status == 0 ? out : err);
  if (!text) return text.takeError();
  if (status != 0) {
    llvm::StringRef message = llvm::StringRef(*text).trim();
    message.consume_front("tilewright: error: ");
    return make_error(status == kLacking ? Status::kMissing
                      : status == kUsage ? Status::kInvalidArgument
                                         : Status::kInternal,
                      "{}{}", message, problem);
  }
  auto parsed = llvm::json::parse(*text);
  if (!parsed) return make_error(Status::kInternal, "bench --cold: a child printed no JSON: {}", llvm::toString(parsed.takeError()));
  if (llvm::json::Object* object = parsed->getAsObject()) return std::move(*object);
  return make_error(Status::kInternal, "bench --cold: a child printed {}", *text);
}

// Median (`least`: minimum) of a field over the children; nullopt when none has it.
std::optional<double> over_children(llvm::ArrayRef<llvm::json::Object> children, llvm::StringRef field, bool least) {
  std::vector<double> values;
  for (const llvm::json::Object& child : children) {
    if (std::optional<double> value = child.getNumber(field)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  llvm::sort(values);
  return least ? values.front() : values[(values.size() - 1) / 2];
}

// The fields of the children, numbers as their medians; {"least": ...} has their minima, which say what the machine can do when nothing
// else runs on it.
llvm::json::Object summary(llvm::ArrayRef<llvm::json::Object> children) {
  llvm::json::Object object, least;
  for (const auto& [field, value] : children.front()) {
    if (std::optional<double> middle = over_children(children, field, false)) {
      object[field] = json_number(*middle);
      least[field] = json_number(*over_children(children, field, true));
    } else {
      object[field] = value;
    }
  }
  object["least"] = std::move(least);
  return object;
}

std::string cold_text(const llvm::json::Object& cold, const llvm::json::Object& warm, unsigned repeats) {
  auto cell = [](const llvm::json::Object& object, llvm::StringRef field) {
    std::optional<double> value = object.getNumber(field);
    if (!value) return std::string("-");
    return fmt::format("{:.2f} ({:.2f})", *value, object.getObject("least")->getNumber(field).value_or(*value));
  };
  const bool launched = cold.getBoolean("launched").value_or(false);
  std::string text =
      fmt::format("{} for {}: medians of {} fresh processes (and least), in ms\n{:<28}{:>22}{:>22}\n", cold.getString("name").value_or(""),
                  cold.getString("target").value_or(""), repeats, "", "empty store", "warm store");
  auto row = [&](llvm::StringRef title, llvm::StringRef field) {
    text += fmt::format("{:<28}{:>22}{:>22}\n", title, cell(cold, field), cell(warm, field));
  };
  row("parse", "parse");
  row("plan, lower, emit", "plan");
  row("build (store or NVRTC)", "build");
  row("  NVRTC, longest kernel", "nvrtc_longest");
  row("  NVRTC, all kernels", "nvrtc_total");
  if (launched) row("load", "load");
  if (launched) row("launch", "launch");
  row(launched ? "description to launch" : "description to cubin", "total");
  row("apart: driver", "driver");
  row("apart: context", "context");
  if (launched) row("apart: buffers", "buffers");
  if (launched) row("apart: until finished", "finish");
  if (!launched) text += "no GPU here: nothing is loaded or launched\n";
  return text;
}

}  // namespace

llvm::Expected<Output> bench_cold_child(const ColdOptions& options, const std::string& directory) {
  StoreOptions store;
  store.directory = directory;
  std::unique_ptr<Builder> builder = make_builder(std::move(store));
  // As an engine would: the compiler gets ready while the driver does.
  builder->prepare_compiler();
  Stopwatch watch;
  auto session = open_device(options.device, watch);
  if (!session) return session.takeError();
  Target target;
  if (*session) target = (*session)->target;
  if (!options.target.empty()) {
    auto parsed = parse_target(options.target);
    if (!parsed) return parsed.takeError();
    target = *parsed;
  }
  watch.restart();
  auto sized = load_sized(options.file, options.dims);
  if (!sized) return sized.takeError();
  const Graph* const graph = &sized->graph;
  const auto* const dims = &sized->dims;
  watch.lap("parse");
  CompileOptions compile;
  compile.device = device_model(target);
  auto prepared = prepare_program(*graph, compile);
  if (!prepared) return prepared.takeError();
  watch.lap("plan");
  auto artifacts = builder->get_all(prepared->sources, target);
  if (!artifacts) return artifacts.takeError();
  watch.lap("build");
  const CompiledProgram compiled{std::move(*prepared), std::move(*artifacts)};
  const bool launch = *session && (*session)->target == target;
  if (launch) {
    if (llvm::Error error = load_and_launch(**session, compiled, *dims, watch)) return error;
  }
  llvm::json::Object object{{"name", graph->name()}, {"target", target.name()}, {"launched", launch}};
  double total = 0, nvrtc_total = 0, nvrtc_longest = 0;
  for (const auto& [stage, milliseconds] : watch.stages()) {
    object[stage] = milliseconds;
    if (llvm::is_contained(kWay, stage)) total += milliseconds;
  }
  for (const auto& artifact : compiled.artifacts) {
    if (artifact->origin != Origin::kCompiled) continue;
    nvrtc_total += artifact->compile_ms;
    nvrtc_longest = std::max(nvrtc_longest, artifact->compile_ms);
  }
  object["total"] = total;
  object["nvrtc_total"] = nvrtc_total;
  object["nvrtc_longest"] = nvrtc_longest;
  return Output{json_text(std::move(object))};
}

llvm::Expected<Output> bench_cold(const ColdOptions& options, bool json) {
  std::vector<llvm::json::Object> cold, warm;
  Progress progress("cold start", 2 * std::size_t{options.repeats});
  for (unsigned repeat = 0; repeat < options.repeats; ++repeat) {
    auto scratch = TemporaryDirectory::make("tilewright-cold");
    if (!scratch) return scratch.takeError();
    const std::string store = scratch->file("store");
    for (auto* children : {&cold, &warm}) {
      progress.step(children == &cold ? "empty store" : "warm store");
      auto child = run_child(options, store, scratch->path());
      if (!child) return child.takeError();
      children->push_back(std::move(*child));
      progress.advance();
    }
  }
  llvm::json::Object cold_summary = summary(cold), warm_summary = summary(warm);
  if (!json) return Output{cold_text(cold_summary, warm_summary, options.repeats)};
  return Output{json_text(llvm::json::Object{{"unit", "ms"},
                                             {"repeats", static_cast<std::int64_t>(options.repeats)},
                                             {"empty_store", std::move(cold_summary)},
                                             {"warm_store", std::move(warm_summary)}})};
}

}  // namespace tilewright::cli
