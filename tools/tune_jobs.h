// Which problems `tilewright tune` is to solve: descriptions, folders of them, manifests; at which sizes, for which targets.
#pragma once

#include <string>
#include <vector>

#include "autotune/buckets.h"
#include "ops/graph.h"
#include "runtime/target.h"

namespace tilewright::cli {

// Values asked for of one named dimension: "128" (that value), "128,1024" and "64..4096" (the buckets of these).
struct DimRequest {
  struct Range {
    std::int64_t low = 0, high = 0;
  };
  std::string name, text;  // text: as it was given, for errors
  std::vector<Range> ranges;
  bool single() const { return ranges.size() == 1 && ranges[0].low == ranges[0].high; }
};

// Items of --dim: "N=128", "N=128,1024,M=3", "N=64..4096". Errors kInvalidArgument name the item.
llvm::Expected<std::vector<DimRequest>> parse_dim_requests(llvm::ArrayRef<std::string> items);
// One value of it: "128" or "64..4096"; `where` begins the error.
llvm::Expected<DimRequest::Range> parse_dim_range(llvm::StringRef text, llvm::StringRef where);

// One description with what is asked of it.
struct TuneJob {
  std::string file;
  Graph graph;
  std::vector<std::string> baked;  // "D=2560": values of baked dimensions
  // By symbol index: whether the dimension has the one value at[i]; else `ranges` say which buckets are wanted.
  llvm::SmallVector<bool, 4> fixed;
  Dims at;
  std::vector<Bucket> ranges;
  std::vector<Target> targets;  // to be compiled for also where no such device is
};

// A description with dimensions as requested: one job, or one for each combination of values of its baked dimensions. Errors as of
// load_sized; kInvalidArgument for a range of a baked dimension.
llvm::Expected<std::vector<TuneJob>> make_tune_jobs(const std::string& file, llvm::ArrayRef<DimRequest> dims,
                                                    llvm::ArrayRef<Target> targets);

// One description of a manifest. Its dims go before those of the command line, as do its targets.
struct ManifestEntry {
  std::string file;  // relative to the manifest's directory where it is not absolute
  std::vector<DimRequest> dims;
  std::vector<Target> targets;
};
// {"descriptions": [{"file": "conv.json", "dims": {"N": [128, "256..1024"]}, "targets": ["sm_90a"]}]}. `path` begins every error, which
// names the place ("suite.json: descriptions[2].dims.N ...") and for an unknown key the nearest known one.
llvm::Expected<std::vector<ManifestEntry>> parse_manifest(llvm::StringRef text, const std::string& path);

// Files named, manifests with what they list, and the descriptions (*.json without manifests) below directories named, sorted.
llvm::Expected<std::vector<TuneJob>> collect_tune_jobs(llvm::ArrayRef<std::string> names, llvm::ArrayRef<std::string> dims,
                                                       llvm::StringRef targets);

}  // namespace tilewright::cli
