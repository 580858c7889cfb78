// Programs of the C interface: kernels of each config that tuning records ask for, loaded into each context, launched.
#include <cstddef>

#include "llvm/ADT/STLExtras.h"
#include "runtime/api/handles.h"
#include "runtime/log.h"

using tilewright::Artifact;
using tilewright::Builder;
using tilewright::Program;
using tilewright::Status;
using tilewright::api::guarded;
using tilewright::api::null_argument;

namespace {

struct Destination {
  tilewright::Target target;
  std::string device;  // "": any of the target
};

llvm::Expected<Destination> choose_destination(const char* name) {
  if (name) {
    auto target = tilewright::parse_target(name);
    if (!target) return target.takeError();
    return Destination{*target, ""};
  }
  auto driver = tilewright::driver();
  if (!driver) return driver.takeError();
  int ordinal = 0;
  if (auto current = tilewright::Context::current(*driver)) {
    ordinal = current->ordinal();
  } else {
    llvm::consumeError(current.takeError());  // no context on this thread: device 0
  }
  auto facts = tilewright::device_facts(*driver, ordinal);
  if (!facts) return facts.takeError();
  auto target = tilewright::target_of_device(facts->major, facts->minor);
  if (!target) return target.takeError();
  return Destination{*target, facts->name};
}

// Adds the kernels of options.overrides.
llvm::Error add_variant(tw_program& program, const tilewright::Graph& graph, const tilewright::Target& target, Builder& builder,
                        const tilewright::CompileOptions& options) {
  auto compiled = tilewright::compile_program(graph, target, builder, options);
  if (!compiled) return compiled.takeError();
  tw_program::Variant variant{options.overrides, std::move(*compiled), {}};
  for (const auto& kernel : variant.compiled.artifacts) variant.origins.push_back(tilewright::origin_name(kernel->origin).str());
  program.variants.push_back(std::move(variant));
  return llvm::Error::success();
}

// A variant for each config of the records of this device. A config that does not compile costs its records alone.
void add_record_variants(tw_program& program, const tilewright::Graph& graph, const tilewright::Target& target, Builder& builder,
                         tilewright::CompileOptions options) {
  auto variant = [&](const tilewright::ConfigOverrides& config) {
    return llvm::find_if(program.variants, [&](const tw_program::Variant& v) { return v.config == config; });
  };
  program.records.drop_if([&](const tilewright::RecordIndex::Entry& entry) {
    if (!entry.same_device || variant(entry.config) != program.variants.end()) return false;
    options.overrides = entry.config;
    llvm::Error error = add_variant(program, graph, target, builder, options);
    if (!error) return false;
    tilewright::log(tilewright::LogLevel::kWarning, "records: {}: {}; ignored", entry.path,
                    tilewright::take_error_facts(std::move(error)).message);
    return true;
  });
  for (const auto& entry : program.records.entries())
    program.variant_of_entry.push_back(static_cast<std::size_t>(variant(entry.config) - program.variants.begin()));
}

llvm::ArrayRef<tilewright::Symbol> symbols_of(const tw_program* program) {
  return program->variants.front().compiled.prepared.lowered.recipe.symbols;  // those of the graph, in every variant
}

llvm::SmallVector<std::int64_t, 4> dims_of(const tw_program* program, const std::int64_t* dims) {
  const llvm::ArrayRef<tilewright::Symbol> symbols = symbols_of(program);
  if (!dims) return tilewright::default_dims(symbols);
  return llvm::SmallVector<std::int64_t, 4>(dims, dims + symbols.size());
}

// Which variant a launch takes.
std::size_t variant_of(const tw_program* program, llvm::ArrayRef<std::int64_t> dims) {
  const tilewright::RecordIndex::Found found = program->records.find(dims);
  if (!tilewright::is_used(found.match)) return program->variants.size() - 1;
  return program->variant_of_entry[static_cast<std::size_t>(found.entry - program->records.entries().begin())];
}

const tw_program::Variant& default_variant(const tw_program* program) {
  return program->variants[variant_of(program, dims_of(program, nullptr))];
}

using LoadedPrograms = std::vector<std::unique_ptr<Program>>;

// The variants in the context current on this thread; loads them the first time, unless `stream` is being captured: loading would break
// that. All at once, so that a capture after a launch meets none that is not loaded.
llvm::Expected<const LoadedPrograms*> loaded_programs(tw_program* program, CUstream stream = nullptr) {
  auto driver = tilewright::driver();
  if (!driver) return driver.takeError();
  CUcontext context = nullptr;
  if (llvm::Error error = driver->check(driver->ctx_get_current(&context), "reading the current context")) return error;
  if (!context) return tilewright::make_error(Status::kInvalidArgument, "no CUDA context is current on this thread");
  auto id = tilewright::context_id(*driver, context);
  if (!id) return id.takeError();
  auto find = [&]() -> const LoadedPrograms* {
    for (auto* entry = program->loaded.load(std::memory_order_acquire); entry; entry = entry->next) {
      if (entry->context_id == *id) return &entry->programs;
    }
    return nullptr;
  };
  if (const LoadedPrograms* found = find()) return found;
  if (stream) {
    auto capturing = tilewright::is_capturing(*driver, stream);
    if (!capturing) return capturing.takeError();
    if (*capturing) {
      return tilewright::make_error(
          Status::kCompileInCapture,
          "the program is not loaded on this device, and nothing may be loaded while the stream is captured; call "
          "tw_program_load first");
    }
  }
  const std::lock_guard lock(program->loading);
  if (const LoadedPrograms* found = find()) return found;
  LoadedPrograms programs;
  for (const tw_program::Variant& variant : program->variants) {
    auto loaded = tilewright::load_program(*driver, variant.compiled);
    if (!loaded) return loaded.takeError();
    programs.push_back(std::move(*loaded));
  }
  auto* entry = new tw_program::Loaded{*id, std::move(programs), program->loaded.load(std::memory_order_relaxed)};
  program->loaded.store(entry, std::memory_order_release);
  return &entry->programs;
}

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

llvm::Expected<tilewright::Workspace> workspace_of(const Program& program, void* pointer, llvm::ArrayRef<std::int64_t> dims) {
  auto bytes = program.workspace_bytes(dims);
  if (!bytes) return bytes.takeError();
  return tilewright::Workspace{address(pointer), pointer ? *bytes : 0};
}

// What a call with these dims goes to.
struct Chosen {
  const Program* program;
  llvm::SmallVector<std::int64_t, 4> dims;
  tilewright::Workspace workspace;
};

llvm::Expected<Chosen> choose(tw_program* program, void* workspace, const std::int64_t* dims, void* stream) {
  auto loaded = loaded_programs(program, static_cast<CUstream>(stream));
  if (!loaded) return loaded.takeError();
  Chosen chosen{nullptr, dims_of(program, dims), {}};
  chosen.program = (**loaded)[variant_of(program, chosen.dims)].get();
  auto memory = workspace_of(*chosen.program, workspace, chosen.dims);
  if (!memory) return memory.takeError();
  chosen.workspace = *memory;
  return chosen;
}

const Artifact* artifact(const tw_program* program, std::size_t index) {
  if (!program) return nullptr;
  const auto& artifacts = default_variant(program).compiled.artifacts;
  return index < artifacts.size() ? artifacts[index].get() : nullptr;
}

}  // namespace

extern "C" {

tw_status tw_program_create(tw_context* context, const tw_graph* graph, const char* target, tw_program** program, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!context || !graph || !program) return null_argument("tw_program_create", !context ? "context" : !graph ? "graph" : "program");
    auto chosen = choose_destination(target);
    if (!chosen) return chosen.takeError();
    tilewright::CompileOptions options;
    options.device = tilewright::device_model(chosen->target);
    auto made = std::make_unique<tw_program>();
    made->records = tilewright::usable_records(context->records, graph->graph, chosen->device, chosen->target, options);
    add_record_variants(*made, graph->graph, chosen->target, *context->builder, options);
    if (made->variants.empty()) {
      if (llvm::Error failed = add_variant(*made, graph->graph, chosen->target, *context->builder, options)) return failed;
    }
    *program = made.release();
    return llvm::Error::success();
  });
}

void tw_program_destroy(tw_program* program) { delete program; }

const char* tw_program_record_match(const tw_program* program, const int64_t* dims) {
  if (!program) return tilewright::match_name(tilewright::Match::kNone).data();
  return tilewright::match_name(program->records.find(dims_of(program, dims)).match).data();
}

const char* tw_program_record_path(const tw_program* program, const int64_t* dims) {
  if (!program) return nullptr;
  const tilewright::RecordIndex::Found found = program->records.find(dims_of(program, dims));
  return tilewright::is_used(found.match) ? found.entry->path.c_str() : nullptr;
}

size_t tw_program_kernel_count(const tw_program* program) { return program ? default_variant(program).compiled.artifacts.size() : 0; }

const char* tw_program_kernel_name(const tw_program* program, size_t index) {
  const Artifact* found = artifact(program, index);
  return found ? found->entry.c_str() : nullptr;
}

const char* tw_program_kernel_source(const tw_program* program, size_t index) {
  const Artifact* found = artifact(program, index);
  return found ? found->source.c_str() : nullptr;
}

const char* tw_program_kernel_key(const tw_program* program, size_t index) {
  const Artifact* found = artifact(program, index);
  return found ? found->key.c_str() : nullptr;
}

const char* tw_program_kernel_origin(const tw_program* program, size_t index) {
  return artifact(program, index) ? default_variant(program).origins[index].c_str() : nullptr;
}

size_t tw_program_dim_count(const tw_program* program) { return program ? symbols_of(program).size() : 0; }

const char* tw_program_dim_name(const tw_program* program, size_t index) {
  return index < tw_program_dim_count(program) ? symbols_of(program)[index].name.c_str() : nullptr;
}

tw_status tw_program_workspace_bytes(const tw_program* program, const int64_t* dims, size_t* bytes, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!program || !bytes) return null_argument("tw_program_workspace_bytes", program ? "bytes" : "program");
    const auto values = dims_of(program, dims);
    const tw_program::Variant& variant = program->variants[variant_of(program, values)];
    auto total = tilewright::workspace_bytes(variant.compiled.prepared.lowered.recipe, values);
    if (!total) return total.takeError();
    *bytes = static_cast<std::size_t>(*total);
    return llvm::Error::success();
  });
}

tw_status tw_program_initialize_workspace(tw_program* program, void* workspace, const int64_t* dims, void* stream, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!program) return null_argument("tw_program_initialize_workspace", "program");
    auto chosen = choose(program, workspace, dims, stream);
    if (!chosen) return chosen.takeError();
    return chosen->program->initialize_workspace(chosen->workspace, chosen->dims, static_cast<CUstream>(stream));
  });
}

tw_status tw_program_launch(tw_program* program, const void* const* inputs, size_t input_count, void* const* outputs, size_t output_count,
                            void* workspace, const int64_t* dims, void* stream, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!program) return null_argument("tw_program_launch", "program");
    if ((!inputs && input_count > 0) || (!outputs && output_count > 0))
      return null_argument("tw_program_launch", inputs ? "outputs" : "inputs");
    auto chosen = choose(program, workspace, dims, stream);
    if (!chosen) return chosen.takeError();
    llvm::SmallVector<CUdeviceptr, 16> in, out;
    for (std::size_t i = 0; i < input_count; ++i) in.push_back(address(inputs[i]));
    for (std::size_t i = 0; i < output_count; ++i) out.push_back(address(outputs[i]));
    return chosen->program->launch(in, out, chosen->workspace, chosen->dims, static_cast<CUstream>(stream));
  });
}

tw_status tw_program_load(tw_program* program, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!program) return null_argument("tw_program_load", "program");
    return loaded_programs(program).takeError();
  });
}

}  // extern "C"
