// tilewright show FILE --what ...: every stage between a description and its cubin.
#include "codegen/space.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"
#include "ops/json.h"
#include "tools/cli.h"
#include "tools/device_session.h"
#include "tools/progress.h"

namespace tilewright::cli {
namespace {

struct Options {
  std::string file;
  std::string target;
  std::string what = "plan";
  std::string config;
  std::vector<std::string> dims;
  bool no_fuse = false;
  bool json = false;
};

// A description as far as it is needed to show any of its stages.
struct Subject {
  Graph graph;
  llvm::SmallVector<std::int64_t, 4> dims;
  Target target;
  PreparedProgram prepared;
  std::unique_ptr<Builder> builder;
  CompileOptions compile;

  const KernelLaunch& launch(std::size_t kernel) const { return prepared.lowered.recipe.kernels[kernel]; }
};

// Each answer: "text" is what a person reads, the rest is for --json.
struct Answer {
  std::string text;
  llvm::json::Object json;
};

llvm::Expected<Subject> open_subject(const Options& options) {
  auto sized = load_sized(options.file, options.dims);
  if (!sized) return sized.takeError();
  auto overrides = parse_config(options.config);
  if (!overrides) return overrides.takeError();
  std::unique_ptr<Builder> builder = make_builder();
  Target target;
  if (options.target.empty()) {
    target = default_target(*builder);
  } else {
    auto parsed = parse_target(options.target);
    if (!parsed) return parsed.takeError();
    target = *parsed;
  }
  CompileOptions compile;
  compile.plan.fuse = !options.no_fuse;
  compile.device = device_model(target);
  compile.overrides = std::move(*overrides);
  auto prepared = prepare_program(sized->graph, compile);
  if (!prepared) return prepared.takeError();
  return Subject{std::move(sized->graph), std::move(sized->dims), target, std::move(*prepared), std::move(builder), std::move(compile)};
}

llvm::json::Object kernel_json(const Subject& subject, std::size_t kernel) {
  return llvm::json::Object{{"kernel", subject.launch(kernel).entry}};
}

llvm::Expected<Answer> show_plan(const Subject& subject) {
  llvm::json::Array kernels;
  for (auto [index, group] : llvm::enumerate(subject.prepared.plan.groups)) {
    const KernelLaunch& launch = subject.launch(index);
    const Cost cost = group_cost(subject.graph, group, subject.dims);
    llvm::json::Array ops, grid, block;
    for (OpId op : group.ops) ops.push_back(op_name(subject.graph.op(op)));
    for (const SizeExpr& size : launch.grid) grid.push_back(size.evaluate(subject.dims));
    for (std::uint32_t size : launch.block) block.push_back(static_cast<std::int64_t>(size));
    llvm::json::Object config;
    for (const auto& [name, value] : subject.prepared.lowered.kernels[index].parameters) config[name] = value;
    llvm::json::Object kernel = kernel_json(subject, index);
    kernel["template"] = template_name(group.kind);
    kernel["reason"] = group.reason;
    kernel["ops"] = std::move(ops);
    kernel["grid"] = std::move(grid);
    kernel["block"] = std::move(block);
    kernel["dynamic_shared_bytes"] = static_cast<std::int64_t>(launch.dynamic_shared_bytes);
    kernel["config"] = std::move(config);
    kernel["bytes"] = json_count(cost.bytes);
    kernel["flops"] = json_count(cost.flops);
    kernels.push_back(std::move(kernel));
  }
  const Cost floor = graph_cost(subject.graph, subject.dims);
  return Answer{plan_text(subject.graph, subject.prepared.plan, subject.prepared.lowered, subject.dims),
                llvm::json::Object{{"kernels", std::move(kernels)},
                                   {"floor", llvm::json::Object{{"bytes", json_count(floor.bytes)}, {"flops", json_count(floor.flops)}}},
                                   {"dims", dims_json(subject.graph, subject.dims)},
                                   {"signature", signature(subject.graph)}}};
}

// One text per kernel, under a comment line each when there are several.
llvm::Expected<Answer> show_texts(const Subject& subject, llvm::StringRef what,
                                  llvm::function_ref<llvm::Expected<std::string>(std::size_t)> get) {
  Answer answer;
  llvm::json::Array kernels;
  const std::size_t count = subject.prepared.sources.size();
  for (std::size_t index = 0; index < count; ++index) {
    auto text = get(index);
    if (!text) return text.takeError();
    if (count > 1) answer.text += fmt::format("// kernel {} of {}: {}\n", index + 1, count, subject.launch(index).entry);
    answer.text += *text;
    if (!llvm::StringRef(answer.text).ends_with("\n")) answer.text += '\n';
    llvm::json::Object kernel = kernel_json(subject, index);
    kernel[what] = std::move(*text);
    kernels.push_back(std::move(kernel));
  }
  answer.json["kernels"] = std::move(kernels);
  return answer;
}

llvm::Expected<Answer> show_source(const Subject& subject) {
  return show_texts(subject, "source",
                    [&](std::size_t index) -> llvm::Expected<std::string> { return subject.prepared.sources[index].text; });
}

llvm::Expected<Answer> show_ptx(const Subject& subject) {
  auto nvrtc = subject.builder->nvrtc();
  if (!nvrtc) return nvrtc.takeError();
  Target target = subject.target;
  target.ptx = true;
  return show_texts(subject, "ptx", [&](std::size_t index) -> llvm::Expected<std::string> {
    const KernelSource& source = subject.prepared.sources[index];
    auto result = (*nvrtc)->compile(source.text, source.entry, template_headers(), target);
    if (!result) return result.takeError();
    return std::move(result->binary);
  });
}

llvm::Expected<std::string> find_disassembler() {
  for (const char* name : {"cuobjdump", "nvdisasm"}) {
    if (auto path = llvm::sys::findProgramByName(name)) return *path;
    if (auto path = llvm::sys::findProgramByName(name, {"/usr/local/cuda/bin"})) return *path;
  }
  return make_error(
      Status::kMissing,
      "show --what sass needs cuobjdump or nvdisasm, found neither in PATH nor in /usr/local/cuda/bin (apt: cuda-cuobjdump-13-0)");
}

// Output of `program` for a cubin in a file that lives as long as the call.
llvm::Expected<std::string> disassemble(const std::string& program, const std::string& cubin) {
  llvm::SmallString<128> cubin_path, text_path;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile("tilewright", "cubin", cubin_path)) {
    return make_error(Status::kIo, "cannot make a temporary file: {}", error.message());
  }
  llvm::FileRemover remove_cubin(cubin_path);
  if (std::error_code error = llvm::sys::fs::createTemporaryFile("tilewright", "sass", text_path)) {
    return make_error(Status::kIo, "cannot make a temporary file: {}", error.message());
  }
  llvm::FileRemover remove_text(text_path);
  if (llvm::Error error = replace_file(cubin_path, cubin)) return error;
  llvm::SmallVector<llvm::StringRef, 4> arguments{program};
  if (llvm::StringRef(program).ends_with("cuobjdump")) arguments.push_back("-sass");
  arguments.push_back(cubin_path);
  std::string problem;
  const int status = llvm::sys::ExecuteAndWait(program, arguments, std::nullopt, {std::nullopt, llvm::StringRef(text_path), std::nullopt},
                                               60, 0, &problem);
  if (status != 0) return make_error(Status::kIo, "{} failed with status {} {}", program, status, problem);
  return read_file(text_path);
}

llvm::Expected<std::shared_ptr<const Artifact>> build(const Subject& subject, std::size_t index) {
  return subject.builder->get(subject.prepared.sources[index], subject.target);
}

llvm::Expected<Answer> show_sass(const Subject& subject) {
  auto program = find_disassembler();
  if (!program) return program.takeError();
  if (subject.target.ptx)
    return make_error(Status::kInvalidArgument, "show --what sass: {} gives PTX, not machine code", subject.target.name());
  return show_texts(subject, "sass", [&](std::size_t index) -> llvm::Expected<std::string> {
    auto artifact = build(subject, index);
    if (!artifact) return artifact.takeError();
    return disassemble(*program, (*artifact)->binary);
  });
}

llvm::Expected<Answer> show_key(const Subject& subject) {
  Answer answer;
  llvm::json::Array kernels;
  for (auto [index, source] : llvm::enumerate(subject.prepared.sources)) {
    auto ingredients = subject.builder->key_ingredients(source, subject.target);
    if (!ingredients) return ingredients.takeError();
    auto key = subject.builder->key(source, subject.target);
    if (!key) return key.takeError();
    answer.text += fmt::format("{}: {}\n", source.entry, *key);
    llvm::json::Object parts;
    for (const KeyIngredient& ingredient : *ingredients) {
      // The source is long and has a command of its own.
      const std::string shown =
          ingredient.name == "source" ? fmt::format("{} bytes, see --what source", ingredient.value.size()) : ingredient.value;
      answer.text += fmt::format("  {:<10} {}\n", ingredient.name, shown);
      parts[ingredient.name] = ingredient.value;
    }
    llvm::json::Object kernel = kernel_json(subject, index);
    kernel["key"] = *key;
    kernel["ingredients"] = std::move(parts);
    kernels.push_back(std::move(kernel));
  }
  answer.json["kernels"] = std::move(kernels);
  return answer;
}

llvm::Expected<Answer> show_cubin(const Subject& subject) {
  auto artifacts = subject.builder->get_all(subject.prepared.sources, subject.target);
  if (!artifacts) return artifacts.takeError();
  Answer answer;
  llvm::json::Array kernels;
  for (auto [index, artifact] : llvm::enumerate(*artifacts)) {
    const CubinFacts& facts = artifact->facts;
    const std::uint32_t dynamic = subject.launch(index).dynamic_shared_bytes;
    answer.text += fmt::format("{} for {}\n", artifact->entry, subject.target.name());
    answer.text += subject.target.ptx
                       ? fmt::format("  PTX of {} B: the driver chooses registers and memory when it loads it; shared {} B dynamic\n",
                                     artifact->binary.size(), dynamic)
                       : fmt::format(
                             "  registers {} a thread, local memory (spills) {} B, parameters {} B\n  shared {} B static, {} B dynamic\n"
                             "  code {} B, file {} B, {} threads at most\n",
                             facts.registers, facts.local_bytes, facts.parameter_bytes, facts.static_shared_bytes, dynamic,
                             facts.code_bytes, artifact->binary.size(), facts.max_threads);
    answer.text +=
        fmt::format("  from {}, compiled in {:.1f} ms, key {}\n", origin_name(artifact->origin), artifact->compile_ms, artifact->key);
    if (!artifact->log.empty()) answer.text += fmt::format("  compiler: {}\n", artifact->log);
    llvm::json::Object kernel = kernel_json(subject, index);
    kernel["dynamic_shared_bytes"] = json_count(dynamic);
    kernel["file_bytes"] = json_count(artifact->binary.size());
    const std::pair<const char*, std::uint64_t> numbers[] = {{"registers", facts.registers},
                                                             {"local_bytes", facts.local_bytes},
                                                             {"parameter_bytes", facts.parameter_bytes},
                                                             {"static_shared_bytes", facts.static_shared_bytes},
                                                             {"code_bytes", facts.code_bytes},
                                                             {"max_threads", facts.max_threads}};
    for (const auto& [name, value] : numbers) {
      if (!subject.target.ptx) kernel[name] = json_count(value);
    }
    kernel["key"] = artifact->key;
    kernel["origin"] = origin_name(artifact->origin);
    kernel["compile_ms"] = json_number(artifact->compile_ms);
    kernel["log"] = artifact->log;
    kernels.push_back(std::move(kernel));
  }
  answer.json["kernels"] = std::move(kernels);
  return answer;
}

llvm::Expected<Answer> show_space(const Subject& subject) {
  auto space = make_space(subject.graph, subject.compile);
  if (!space) return space.takeError();
  Answer answer{space_text(subject.graph, *space), {}};
  llvm::json::Array parameters;
  llvm::json::Object chosen;
  for (const SpaceParameter& parameter : space->parameters) {
    parameters.push_back(llvm::json::Object{{"name", parameter.name},
                                            {"values", llvm::json::Array(parameter.values)},
                                            {"default", parameter.fallback},
                                            {"meaning", parameter.meaning}});
    chosen[parameter.name] = parameter.fallback;
  }
  answer.json["parameters"] = std::move(parameters);
  answer.json["default"] = std::move(chosen);
  answer.json["combinations"] = space->combinations();
  answer.json["space"] = space->identity();
  return answer;
}

struct Stage {
  llvm::StringRef name;
  llvm::Expected<Answer> (*show)(const Subject&);
};
constexpr Stage kStages[] = {{"plan", show_plan}, {"source", show_source}, {"ptx", show_ptx},    {"sass", show_sass},
                             {"key", show_key},   {"cubin", show_cubin},   {"space", show_space}};

llvm::Expected<const Stage*> find_stage(llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef, 8> names;
  for (const Stage& stage : kStages) {
    if (stage.name == name) return &stage;
    names.push_back(stage.name);
  }
  llvm::StringRef nearest = nearest_name(name, names);
  return make_error(Status::kInvalidArgument, "show --what {}: wanted one of {}{}", name, llvm::join(names, ", "),
                    nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

llvm::Expected<Output> run_show(const Options& options) {
  auto stage = find_stage(options.what);
  if (!stage) return stage.takeError();
  Progress progress("show", 1);
  progress.step(options.what);
  auto subject = open_subject(options);
  if (!subject) return subject.takeError();
  auto answer = (*stage)->show(*subject);
  if (!answer) return answer.takeError();
  if (!options.json) return Output{std::move(answer->text)};
  answer->json["name"] = subject->graph.name();
  answer->json["what"] = options.what;
  answer->json["target"] = subject->target.name();
  return Output{json_text(std::move(answer->json))};
}

}  // namespace

Action add_show(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "description")->required();
  app.add_option("--what", options->what, "plan, source, ptx, sass, key, cubin or space")->capture_default_str();
  app.add_option("--target", options->target, "for instance sm_90a; without it the first GPU's, or sm_90a");
  app.add_option("--config", options->config, "tile parameters as JSON, for instance {\"block_threads\": 256}");
  app.add_option("--dim", options->dims, "NAME=VALUE of a named dimension")->expected(1)->take_all();
  app.add_flag("--no-fuse", options->no_fuse, "one kernel per op");
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return run_show(*options); };
}

}  // namespace tilewright::cli
