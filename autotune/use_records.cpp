#include "autotune/use_records.h"

#include "codegen/space.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace tilewright {

bool is_used(Match match) { return match == Match::kExact || match == Match::kBucket || match == Match::kNearest; }

RecordHit use_record(const RecordStore& records, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, llvm::StringRef device,
                     const Target& target, CompileOptions& options) {
  CompileOptions plain = options;
  plain.device = device_model(target);
  auto space = make_space(graph, plain);
  if (!space) {
    llvm::consumeError(space.takeError());  // whoever compiles says the same
    return {};
  }
  RecordHit hit =
      records.lookup(record_problem(graph, dims, device, target, "cold", options.plan.fuse), graph.symbols(), space->identity());
  for (const std::string& note : hit.notes) log(LogLevel::kWarning, "records: {}", note);
  if (!is_used(hit.match)) return hit;
  if (llvm::Error error = check_config(graph, plain, *space, hit.config)) {
    log(LogLevel::kWarning, "records: {}: {}; ignored", hit.path, take_error_facts(std::move(error)).message);
    return {};
  }
  options.overrides = hit.config;
  return hit;
}

}  // namespace tilewright
