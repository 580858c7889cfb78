#include "autotune/use_records.h"

#include "codegen/space.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace tilewright {

bool is_used(Match match) { return match == Match::kExact || match == Match::kBucket || match == Match::kNearest; }

RecordIndex usable_records(const RecordStore& records, const Graph& graph, llvm::StringRef device, const Target& target,
                           const CompileOptions& options) {
  CompileOptions plain = options;
  plain.device = device_model(target);
  auto space = make_space(graph, plain);
  if (!space) {
    llvm::consumeError(space.takeError());  // whoever compiles says the same
    return {};
  }
  const RecordProblem problem = record_problem(graph, graph.default_dims(), device, target, "cold", options.plan.fuse);
  RecordIndex index = records.index(problem, graph.symbols(), space->identity());
  for (const std::string& note : index.notes()) log(LogLevel::kWarning, "records: {}", note);
  index.drop_if([&](const RecordIndex::Entry& entry) {
    if (!entry.same_device) return false;
    llvm::Error error = check_config(graph, plain, *space, entry.config);
    if (!error) return false;
    log(LogLevel::kWarning, "records: {}: {}; ignored", entry.path, take_error_facts(std::move(error)).message);
    return true;
  });
  return index;
}

RecordHit use_record(const RecordStore& records, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, llvm::StringRef device,
                     const Target& target, CompileOptions& options) {
  RecordHit hit = usable_records(records, graph, device, target, options).hit(dims);
  if (is_used(hit.match)) options.overrides = hit.config;
  return hit;
}

}  // namespace tilewright
