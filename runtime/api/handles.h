// What lies behind the handles of tilewright.h, and the guard at the boundary. Private to the library.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "autotune/use_records.h"
#include "codegen/compile.h"
#include "runtime/api/tilewright.h"
#include "runtime/error.h"

struct tw_error {
  tw_status status;
  std::string message;
};

struct tw_graph {
  tilewright::Graph graph;
  std::string signature;
};

struct tw_context {
  std::unique_ptr<tilewright::Builder> builder;
  tilewright::RecordStore records;  // without a directory where they are to be ignored
};

struct tw_program {
  // One entry per CUDA context the program was launched in; entries are only ever added, so that readers need no lock.
  struct Loaded {
    std::uint64_t context_id;                                    // not its address, which a later context may come to have
    std::vector<std::unique_ptr<tilewright::Program>> programs;  // one a variant
    Loaded* next;
  };
  // The kernels of one config.
  struct Variant {
    tilewright::ConfigOverrides config;  // empty: what lowering chooses
    tilewright::CompiledProgram compiled;
    std::vector<std::string> origins;
  };
  tilewright::RecordIndex records;
  std::vector<Variant> variants;              // at least one; those of records first
  std::vector<std::size_t> variant_of_entry;  // of records.entries(), for those that are used
  std::atomic<Loaded*> loaded{nullptr};
  std::mutex loading;
  ~tw_program() {
    for (Loaded* entry = loaded.load(); entry;) delete std::exchange(entry, entry->next);
  }
};

namespace tilewright::api {

// Hands an error over to the caller, if it wants one.
tw_status fail(tw_status status, std::string message, tw_error** error);
tw_status fail(llvm::Error reason, tw_error** error);

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

// "tw_program_launch: program is NULL"
llvm::Error null_argument(const char* function, const char* argument);

}  // namespace tilewright::api
