// What every command of the tool shares: how it ends, how it prints, how it reads its operands.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "codegen/lower.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "ops/graph.h"
#include "runtime/error.h"
#include "runtime/files.h"
#include "runtime/text.h"

namespace tilewright::cli {

// Exit status of the process.
enum ExitStatus : int {
  kGood = 0,
  kBad = 1,      // the thing asked about is bad: a mismatch, a corrupt entry, a kernel that does not compile
  kUsage = 2,    // usage or bad input
  kLacking = 3,  // the machine lacks what is needed
};

// The one mapping from an error's status to an exit status.
ExitStatus exit_status(Status status);

// What a command hands back when it could answer. `text` goes to stdout in one piece after everything has succeeded, so that a failing
// command leaves nothing half-written. A non-empty `complaint` is the error line of an answer that is bad news (status kBad).
struct Output {
  std::string text;
  ExitStatus status = kGood;
  std::string complaint = {};
};

using Action = std::function<llvm::Expected<Output>()>;

// Each adds one subcommand whose options live as long as the returned action, which is called after parsing.
Action add_doctor(CLI::App& app);
Action add_ops(CLI::App& app);
Action add_show(CLI::App& app);
Action add_compile(CLI::App& app);
Action add_run(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_tune(CLI::App& app);
Action add_tune_helper(CLI::App& app);
Action add_tune_compiler(CLI::App& app);
Action add_records(CLI::App& app);
Action add_cache(CLI::App& app);

// Names of all commands, in the order of the help text.
llvm::ArrayRef<llvm::StringRef> command_names();

// Two-space indented JSON with a final newline; keys sorted, so that equal facts give equal text.
std::string json_text(const llvm::json::Value& value);
// A JSON number, or null for NaN and infinity, which JSON cannot spell.
llvm::json::Value json_number(double number);
// JSON integers are signed; a count above INT64_MAX becomes a double.
llvm::json::Value json_count(std::uint64_t count);

// "1.50 GB", "12.0 KB", "17 B" (powers of ten, as bandwidths are)
std::string bytes_text(double bytes);
// "12.3 us", "4.56 ms", "1.20 s" from microseconds
std::string time_text(double microseconds);

// A description and the values of its open dimensions, by symbol index.
struct Sized {
  Graph graph;
  llvm::SmallVector<std::int64_t, 4> dims;
};

// Reads a description with items "N=128" (also "N=128,M=3"): values of baked dimensions go into the graph, those of open ones replace the
// defaults. Errors of load_description; kInvalidArgument for an unknown name (nearest known one), a value that is no number or out of
// range.
llvm::Expected<Sized> load_sized(const std::string& file, llvm::ArrayRef<std::string> items);

// "N=128 M=3", "" when the graph has no named dimension.
std::string dims_text(const Graph& graph, llvm::ArrayRef<std::int64_t> dims);
llvm::json::Object dims_json(const Graph& graph, llvm::ArrayRef<std::int64_t> dims);

// {"block_threads": 256} -> overrides. Error: kInvalidArgument unless it is an object of integers.
llvm::Expected<ConfigOverrides> parse_config(llvm::StringRef json);

}  // namespace tilewright::cli
