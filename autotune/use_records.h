// Which config a description gets when none is given: that of a tuning record where there is one.
#pragma once

#include <string>

#include "autotune/records.h"
#include "codegen/compile.h"

namespace tilewright {

// The records for this device (its name; "" stands for any of the target) under the policy "cold", without those of this device whose
// config the lowering no longer takes. Logs what was passed over.
RecordIndex usable_records(const RecordStore& records, const Graph& graph, llvm::StringRef device, const Target& target,
                           const CompileOptions& options);

// Whether the config of such a match is used: that of another device only starts searches.
bool is_used(Match match);

// Sets options.overrides from the best of the usable records, and says how well it matched.
RecordHit use_record(const RecordStore& records, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, llvm::StringRef device,
                     const Target& target, CompileOptions& options);

}  // namespace tilewright
