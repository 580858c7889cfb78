// The C boundary: handles, statuses and nothing else. Exceptions of the libraries below end here.
#include "runtime/api/tilewright.h"

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <new>

#include "codegen/compile.h"
#include "ops/json.h"
#include "runtime/error.h"

using tilewright::Artifact;
using tilewright::Builder;
using tilewright::CompiledProgram;
using tilewright::Program;
using tilewright::Status;

struct tw_error {
  tw_status status;
  std::string message;
};

struct tw_graph {
  tilewright::Graph graph;
  std::string signature;
};

struct tw_context {
  std::unique_ptr<Builder> builder;
};

struct tw_program {
  // One entry per CUDA context the program was launched in; entries are only ever added, so that readers need no lock.
  struct Loaded {
    std::uint64_t context_id;  // not its address, which a later context may come to have
    std::unique_ptr<Program> program;
    Loaded* next;
  };
  CompiledProgram compiled;
  std::vector<std::string> origins;
  std::atomic<Loaded*> loaded{nullptr};
  std::mutex loading;
  ~tw_program() {
    for (Loaded* entry = loaded.load(); entry;) delete std::exchange(entry, entry->next);
  }
};

namespace {

tw_status to_c(Status status) {
  switch (status) {
    case Status::kInvalidArgument:
      return TW_INVALID_ARGUMENT;
    case Status::kUnsupported:
      return TW_UNSUPPORTED;
    case Status::kMissing:
      return TW_MISSING;
    case Status::kCompileFailed:
      return TW_COMPILE_FAILED;
    case Status::kDriver:
      return TW_DRIVER;
    case Status::kOutOfMemory:
      return TW_OUT_OF_MEMORY;
    case Status::kIo:
      return TW_IO;
    case Status::kCompileInCapture:
      return TW_COMPILE_IN_CAPTURE;
    case Status::kMismatch:
    case Status::kCorrupt:
    case Status::kKernelFault:
    case Status::kInternal:
      return TW_INTERNAL;
  }
  return TW_INTERNAL;
}

tw_status fail(tw_status status, std::string message, tw_error** error) {
  if (error) *error = new (std::nothrow) tw_error{status, std::move(message)};
  return status;
}

tw_status fail(llvm::Error reason, tw_error** error) {
  tilewright::ErrorFacts facts = tilewright::take_error_facts(std::move(reason));
  return fail(to_c(facts.status), std::move(facts.message), error);
}

// Runs a body that gives an llvm::Error; the one guard that turns anything thrown into a status.
template <typename Body>
tw_status guarded(tw_error** error, Body body) {
  if (error) *error = nullptr;
  try {
    if (llvm::Error reason = body()) return fail(std::move(reason), error);
    return TW_OK;
  } catch (const std::bad_alloc&) {
    return fail(TW_INTERNAL, "out of host memory", error);
  } catch (const std::exception& exception) {
    return fail(TW_INTERNAL, exception.what(), error);
  } catch (...) {
    return fail(TW_INTERNAL, "an exception of unknown type", error);
  }
}

llvm::Error null_argument(const char* function, const char* argument) {
  return tilewright::make_error(Status::kInvalidArgument, "{}: {} is NULL", function, argument);
}

llvm::Expected<tilewright::Target> choose_target(const char* name) {
  if (name) return tilewright::parse_target(name);
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
  return tilewright::target_of_device(facts->major, facts->minor);
}

llvm::SmallVector<std::int64_t, 4> dims_of(const tw_program* program, const std::int64_t* dims) {
  const auto& symbols = program->compiled.prepared.lowered.recipe.symbols;
  if (!dims) return tilewright::default_dims(symbols);
  return llvm::SmallVector<std::int64_t, 4>(dims, dims + symbols.size());
}

// The program in the context current on this thread; loads it the first time, unless `stream` is being captured: loading would break that.
llvm::Expected<const Program*> loaded_program(tw_program* program, CUstream stream = nullptr) {
  auto driver = tilewright::driver();
  if (!driver) return driver.takeError();
  CUcontext context = nullptr;
  if (llvm::Error error = driver->check(driver->ctx_get_current(&context), "reading the current context")) return error;
  if (!context) return tilewright::make_error(Status::kInvalidArgument, "no CUDA context is current on this thread");
  auto id = tilewright::context_id(*driver, context);
  if (!id) return id.takeError();
  auto find = [&]() -> const Program* {
    for (auto* entry = program->loaded.load(std::memory_order_acquire); entry; entry = entry->next) {
      if (entry->context_id == *id) return entry->program.get();
    }
    return nullptr;
  };
  if (const Program* found = find()) return found;
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
  if (const Program* found = find()) return found;
  auto loaded = tilewright::load_program(*driver, program->compiled);
  if (!loaded) return loaded.takeError();
  auto* entry = new tw_program::Loaded{*id, std::move(*loaded), program->loaded.load(std::memory_order_relaxed)};
  program->loaded.store(entry, std::memory_order_release);
  return entry->program.get();
}

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

llvm::Expected<tilewright::Workspace> workspace_of(const Program& program, void* pointer, llvm::ArrayRef<std::int64_t> dims) {
  auto bytes = program.workspace_bytes(dims);
  if (!bytes) return bytes.takeError();
  return tilewright::Workspace{address(pointer), pointer ? *bytes : 0};
}

const Artifact* artifact(const tw_program* program, std::size_t index) {
  return program && index < program->compiled.artifacts.size() ? program->compiled.artifacts[index].get() : nullptr;
}

}  // namespace

extern "C" {

const char* tw_version(void) { return TILEWRIGHT_VERSION; }

tw_status tw_error_status(const tw_error* error) { return error ? error->status : TW_OK; }
const char* tw_error_message(const tw_error* error) { return error ? error->message.c_str() : ""; }
void tw_error_destroy(tw_error* error) { delete error; }

tw_status tw_context_create(const tw_context_options* options, tw_context** context, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!context) return null_argument("tw_context_create", "context");
    tilewright::StoreOptions store = tilewright::StoreOptions::from_environment();
    // A caller built against an older header gives fewer fields.
    const auto given = [&](std::size_t end) { return options && options->size >= end; };
    if (given(offsetof(tw_context_options, cache_directory) + sizeof(options->cache_directory)) && options->cache_directory) {
      store.directory = options->cache_directory;
    }
    auto created = std::unique_ptr<tw_context>(new tw_context{tilewright::make_builder(std::move(store))});
    if (given(offsetof(tw_context_options, prepare_compiler) + sizeof(options->prepare_compiler)) && options->prepare_compiler != 0) {
      created->builder->prepare_compiler();
    }
    *context = created.release();
    return llvm::Error::success();
  });
}

void tw_context_destroy(tw_context* context) { delete context; }

tw_status tw_graph_from_json(const char* json, size_t length, tw_graph** graph, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!json || !graph) return null_argument("tw_graph_from_json", json ? "graph" : "json");
    auto parsed = tilewright::parse_description(llvm::StringRef(json, length));
    if (!parsed) return parsed.takeError();
    std::string signature = tilewright::signature(*parsed);
    *graph = new tw_graph{std::move(*parsed), std::move(signature)};
    return llvm::Error::success();
  });
}

void tw_graph_destroy(tw_graph* graph) { delete graph; }
const char* tw_graph_signature(const tw_graph* graph) { return graph ? graph->signature.c_str() : ""; }

tw_status tw_program_create(tw_context* context, const tw_graph* graph, const char* target, tw_program** program, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!context || !graph || !program) return null_argument("tw_program_create", !context ? "context" : !graph ? "graph" : "program");
    auto chosen = choose_target(target);
    if (!chosen) return chosen.takeError();
    tilewright::CompileOptions options;
    options.device = tilewright::device_model(*chosen);
    auto compiled = tilewright::compile_program(graph->graph, *chosen, *context->builder, options);
    if (!compiled) return compiled.takeError();
    auto made = std::make_unique<tw_program>();
    made->compiled = std::move(*compiled);
    for (const auto& kernel : made->compiled.artifacts) made->origins.push_back(tilewright::origin_name(kernel->origin).str());
    *program = made.release();
    return llvm::Error::success();
  });
}

void tw_program_destroy(tw_program* program) { delete program; }
size_t tw_program_kernel_count(const tw_program* program) { return program ? program->compiled.artifacts.size() : 0; }

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
  return artifact(program, index) ? program->origins[index].c_str() : nullptr;
}

size_t tw_program_dim_count(const tw_program* program) { return program ? program->compiled.prepared.lowered.recipe.symbols.size() : 0; }

const char* tw_program_dim_name(const tw_program* program, size_t index) {
  return index < tw_program_dim_count(program) ? program->compiled.prepared.lowered.recipe.symbols[index].name.c_str() : nullptr;
}

tw_status tw_program_workspace_bytes(const tw_program* program, const int64_t* dims, size_t* bytes, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!program || !bytes) return null_argument("tw_program_workspace_bytes", program ? "bytes" : "program");
    auto total = tilewright::workspace_bytes(program->compiled.prepared.lowered.recipe, dims_of(program, dims));
    if (!total) return total.takeError();
    *bytes = static_cast<std::size_t>(*total);
    return llvm::Error::success();
  });
}

tw_status tw_program_initialize_workspace(tw_program* program, void* workspace, const int64_t* dims, void* stream, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!program) return null_argument("tw_program_initialize_workspace", "program");
    auto loaded = loaded_program(program, static_cast<CUstream>(stream));
    if (!loaded) return loaded.takeError();
    const auto values = dims_of(program, dims);
    auto memory = workspace_of(**loaded, workspace, values);
    if (!memory) return memory.takeError();
    return (*loaded)->initialize_workspace(*memory, values, static_cast<CUstream>(stream));
  });
}

tw_status tw_program_launch(tw_program* program, const void* const* inputs, size_t input_count, void* const* outputs, size_t output_count,
                            void* workspace, const int64_t* dims, void* stream, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!program) return null_argument("tw_program_launch", "program");
    if ((!inputs && input_count > 0) || (!outputs && output_count > 0))
      return null_argument("tw_program_launch", inputs ? "outputs" : "inputs");
    auto loaded = loaded_program(program, static_cast<CUstream>(stream));
    if (!loaded) return loaded.takeError();
    const auto values = dims_of(program, dims);
    auto memory = workspace_of(**loaded, workspace, values);
    if (!memory) return memory.takeError();
    llvm::SmallVector<CUdeviceptr, 16> in, out;
    for (std::size_t i = 0; i < input_count; ++i) in.push_back(address(inputs[i]));
    for (std::size_t i = 0; i < output_count; ++i) out.push_back(address(outputs[i]));
    return (*loaded)->launch(in, out, *memory, values, static_cast<CUstream>(stream));
  });
}

tw_status tw_program_load(tw_program* program, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!program) return null_argument("tw_program_load", "program");
    return loaded_program(program).takeError();
  });
}

}  // extern "C"
