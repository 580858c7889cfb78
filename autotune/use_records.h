// Which config a description gets when none is given: that of a tuning record where there is one.
#pragma once

#include <string>

#include "autotune/records.h"
#include "codegen/compile.h"

namespace tilewright {

// Sets options.overrides from the best record for this device (its name; "" stands for any of the target) under the policy "cold". A record
// of another device is not used, nor is a config that the lowering no longer takes. Gives how well the record matched, and logs what was
// ignored.
RecordHit use_record(const RecordStore& records, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, llvm::StringRef device,
                     const Target& target, CompileOptions& options);
// Whether use_record takes the config of such a match.
bool is_used(Match match);

}  // namespace tilewright
