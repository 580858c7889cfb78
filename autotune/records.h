// What a tuning found, kept as one JSON file a problem, device model and policy; layered like the store.
#pragma once

#include <string>
#include <vector>

#include "autotune/buckets.h"
#include "autotune/candidate.h"
#include "autotune/verifier.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "ops/graph.h"
#include "runtime/store.h"
#include "runtime/target.h"

namespace tilewright {

// Version of the file format; another is ignored with a note.
inline constexpr std::int64_t kRecordFormatVersion = 2;

// What a record is about.
struct RecordProblem {
  std::string name;       // of the description, for people
  std::string signature;  // of the graph
  Dims dims;
  Bucket bucket;                    // of dims
  std::vector<BucketSplit> splits;  // that lead to it
  std::string device;               // "NVIDIA H200"
  std::string target;               // "sm_90a"
  std::string policy;               // "cold", "warm", "plain", "simulated"
  bool fuse = true;
};
// `splits`: those known of this problem (RecordStore::splits).
RecordProblem record_problem(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, llvm::StringRef device, const Target& target,
                             llvm::StringRef policy, bool fuse = true, llvm::ArrayRef<BucketSplit> splits = {});

// Of the file a record on this is kept in: signature, dims, device and policy.
std::string record_file_name(const RecordProblem& problem);

// Made by make_record and read from files alone, so that nothing unverified is ever one.
class TuningRecord {
 public:
  const RecordProblem& problem() const { return problem_; }
  const ConfigOverrides& winner() const { return winner_; }
  const ConfigOverrides& fallback() const { return fallback_; }
  llvm::ArrayRef<Candidate> candidates() const { return candidates_; }
  const Candidate* find(const ConfigOverrides& config) const;
  const std::string& space() const { return space_; }
  const std::string& build() const { return build_; }
  const llvm::json::Object& environment() const { return environment_; }
  const llvm::json::Object& verification() const { return verification_; }  // report_json() of the winner's report
  double winner_us() const;
  std::string file_name() const { return record_file_name(problem_); }
  std::string text() const;  // the file; the same facts give the same text
  // Error kCorrupt: not a record, or one of another format version; the winner is not among the verified candidates.
  static llvm::Expected<TuningRecord> parse(llvm::StringRef text);

 private:
  friend struct RecordMaker;
  RecordProblem problem_;
  ConfigOverrides winner_, fallback_;
  std::vector<Candidate> candidates_;
  std::string space_, build_;
  llvm::json::Object environment_;
  llvm::json::Object verification_;
};

// What make_record is told besides.
struct RecordFacts {
  std::vector<Candidate> candidates;
  ConfigOverrides fallback;        // what lowering chooses by itself
  std::string space;               // Space::identity()
  llvm::json::Object environment;  // driver, NVRTC, device, clocks
};
// Error kInvalidArgument: the verified config is not among the measured candidates.
llvm::Expected<TuningRecord> make_record(RecordProblem problem, const Verified& winner, RecordFacts facts);

enum class Match : std::uint8_t { kExact, kBucket, kNearest, kOtherDevice, kNone };
llvm::StringRef match_name(Match match);  // "exact", "bucket", "nearest", "other device", "none"

struct RecordHit {
  Match match = Match::kNone;
  ConfigOverrides config;          // empty for kNone
  std::string path;                // of the record
  std::vector<std::string> notes;  // records that were passed over, and why
};

// Records of one problem in memory: what a lookup goes by, for any sizes, without a file being read again.
class RecordIndex {
 public:
  struct Entry {
    Dims dims;
    Bucket bucket;  // of dims, by the splits of all entries
    bool same_device = false;
    ConfigOverrides config;
    std::string path;
  };
  struct Found {
    Match match = Match::kNone;
    const Entry* entry = nullptr;  // for any match but kNone
  };
  // The entry that suits a size best. Allocates nothing for up to four dimensions.
  Found find(llvm::ArrayRef<std::int64_t> dims) const;
  // The same with its config, path and the notes.
  RecordHit hit(llvm::ArrayRef<std::int64_t> dims) const;
  llvm::ArrayRef<Entry> entries() const { return entries_; }
  // Drops the entries for which `refused` holds; their splits stay, as their buckets were measured all the same.
  void drop_if(llvm::function_ref<bool(const Entry&)> refused);
  llvm::ArrayRef<BucketSplit> splits() const { return splits_; }
  // Records that were passed over, and why.
  llvm::ArrayRef<std::string> notes() const { return notes_; }

 private:
  friend class RecordStore;
  std::vector<Symbol> symbols_;
  std::vector<BucketSplit> splits_;
  std::vector<Entry> entries_;
  std::vector<std::string> notes_;
};

struct RecordListing {
  std::string path, layer;
  std::string problem;  // what is wrong with it; "" for a good one
};

class RecordStore {
 public:
  struct Options {
    std::string directory;            // writable; "" = none
    std::vector<std::string> layers;  // read-only
    // TILEWRIGHT_RECORDS_DIR, else records/ in the store's directory; records/ in each of the store's layers.
    static Options from_environment(const StoreOptions& store = StoreOptions::from_environment());
  };
  explicit RecordStore(Options options) : options_(std::move(options)) {}
  const Options& options() const { return options_; }

  // Writes by rename. Error kIo.
  llvm::Error write(const TuningRecord& record) const;
  // The records of a problem, whose dims do not matter here. Their sizes are put into buckets by bucket_of() with `symbols` of the graph
  // and the splits that records of the same device carry. `space`: the identity of the problem's space now; a record over another is passed
  // over with a note, as is what cannot be read. Never fails.
  RecordIndex index(const RecordProblem& problem, llvm::ArrayRef<Symbol> symbols, llvm::StringRef space) const;
  // Records that may start a search: of the same graph, nearest first.
  std::vector<TuningRecord> related(const RecordProblem& problem, llvm::StringRef space) const;
  std::vector<RecordListing> list() const;

 private:
  struct Stored {
    TuningRecord record;
    std::string path;
  };
  // Records of the problem's graph over `space`, the directory's before the layers'; `notes` gets what was passed over.
  std::vector<Stored> of_graph(const RecordProblem& problem, llvm::StringRef space, std::vector<std::string>& notes) const;

  Options options_;
};

llvm::Expected<TuningRecord> read_record(const std::string& path);  // errors kIo, kCorrupt
// Copies every record of `from` that the store has not, or has with a slower winner of the same environment. What was done, a line each.
llvm::Expected<std::vector<std::string>> merge_records(const RecordStore& store, const std::string& from);
std::string record_text(const TuningRecord& record);                             // for people
std::string record_diff(const TuningRecord& before, const TuningRecord& after);  // "" when both say the same

}  // namespace tilewright
