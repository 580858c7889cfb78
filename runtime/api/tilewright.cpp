// The C boundary: handles, statuses and nothing else. Exceptions of the libraries below end here.
#include "runtime/api/tilewright.h"

#include <cstddef>

#include "ops/json.h"
#include "runtime/api/handles.h"
#include "runtime/log.h"

using tilewright::Status;

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

}  // namespace

namespace tilewright::api {

tw_status fail(tw_status status, std::string message, tw_error** error) {
  if (error) *error = new (std::nothrow) tw_error{status, std::move(message)};
  return status;
}

tw_status fail(llvm::Error reason, tw_error** error) {
  tilewright::ErrorFacts facts = tilewright::take_error_facts(std::move(reason));
  return fail(to_c(facts.status), std::move(facts.message), error);
}

llvm::Error null_argument(const char* function, const char* argument) {
  return tilewright::make_error(Status::kInvalidArgument, "{}: {} is NULL", function, argument);
}

}  // namespace tilewright::api

using tilewright::api::guarded;
using tilewright::api::null_argument;

extern "C" {

const char* tw_version(void) { return TILEWRIGHT_VERSION; }

tw_status tw_error_status(const tw_error* error) { return error ? error->status : TW_OK; }
const char* tw_error_message(const tw_error* error) { return error ? error->message.c_str() : ""; }
void tw_error_destroy(tw_error* error) { delete error; }

void tw_set_log(tw_log_level most, tw_log_callback callback, void* user) {
  tilewright::LogCallback send;
  if (callback) {
    send = [callback, user](tilewright::LogLevel level, llvm::StringRef message) {
      callback(static_cast<tw_log_level>(level), message.str().c_str(), user);
    };
  }
  tilewright::set_log(static_cast<tilewright::LogLevel>(most), std::move(send));
}

tw_status tw_context_create(const tw_context_options* options, tw_context** context, tw_error** error) {
  return guarded(error, [&]() -> llvm::Error {
    if (!context) return null_argument("tw_context_create", "context");
    tilewright::StoreOptions store = tilewright::StoreOptions::from_environment();
    // A caller built against an older header gives fewer fields.
    const auto given = [&](std::size_t end) { return options && options->size >= end; };
    if (given(offsetof(tw_context_options, cache_directory) + sizeof(options->cache_directory)) && options->cache_directory) {
      store.directory = options->cache_directory;
    }
    const bool ignore_records =
        given(offsetof(tw_context_options, ignore_records) + sizeof(options->ignore_records)) && options->ignore_records != 0;
    tilewright::RecordStore::Options records;
    if (!ignore_records) records = tilewright::RecordStore::Options::from_environment(store);
    auto created = std::unique_ptr<tw_context>(
        new tw_context{tilewright::make_builder(std::move(store)), tilewright::RecordStore(std::move(records))});
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

}  // extern "C"
