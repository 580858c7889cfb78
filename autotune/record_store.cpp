// Files of records: layers, lookup, merge.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "autotune/records.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "runtime/error.h"
#include "runtime/files.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

// "*.json" of a directory, sorted; one that is not there has none.
std::vector<std::string> record_files(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".json") files.push_back(at->path().string());
  }
  llvm::sort(files);
  return files;
}

// How far apart two sets of dimensions are: the sum of the logarithms of their ratios.
double distance(llvm::ArrayRef<std::int64_t> a, llvm::ArrayRef<std::int64_t> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a, b)) sum += std::abs(std::log2(static_cast<double>(x + 1) / static_cast<double>(y + 1)));
  return sum;
}

bool same_problem(const RecordProblem& a, const RecordProblem& b) {
  return a.signature == b.signature && a.policy == b.policy && a.fuse == b.fuse;
}

bool same_device(const RecordProblem& have, const RecordProblem& want) {
  return (want.device.empty() || have.device == want.device) && have.target == want.target;
}

void add_splits(const RecordProblem& problem, std::vector<BucketSplit>& splits) {
  for (const BucketSplit& split : problem.splits) {
    if (llvm::none_of(splits, [&](const BucketSplit& known) { return known.bucket == split.bucket; })) splits.push_back(split);
  }
}

std::vector<std::string> directories_of(const RecordStore::Options& options) {
  std::vector<std::string> directories{options.directory};
  directories.insert(directories.end(), options.layers.begin(), options.layers.end());
  return directories;
}

}  // namespace

RecordStore::Options RecordStore::Options::from_environment(const StoreOptions& store) {
  Options options;
  const char* directory = std::getenv("TILEWRIGHT_RECORDS_DIR");
  if (directory != nullptr && *directory != '\0') {
    options.directory = directory;
  } else if (!store.directory.empty()) {
    options.directory = store.directory + "/records";
  }
  for (const std::string& layer : store.layers) options.layers.push_back(layer + "/records");
  return options;
}

llvm::Error RecordStore::write(const TuningRecord& record) const {
  if (options_.directory.empty()) {
    return make_error(Status::kIo, "records: no directory; set TILEWRIGHT_RECORDS_DIR (or TILEWRIGHT_CACHE_DIR)");
  }
  if (std::error_code error = llvm::sys::fs::create_directories(options_.directory))
    return make_error(Status::kIo, "records: cannot make {}: {}", options_.directory, error.message());
  const std::string path = options_.directory + "/" + record.file_name();
  return prefix_error(replace_file(path, record.text()), "records: ");
}

llvm::Expected<TuningRecord> read_record(const std::string& path) {
  auto text = read_file(path);
  if (!text) return text.takeError();
  auto record = TuningRecord::parse(*text);
  if (!record) return prefix_error(record.takeError(), path + ": ");
  return record;
}

std::vector<RecordStore::Stored> RecordStore::of_graph(const RecordProblem& problem, llvm::StringRef space,
                                                       std::vector<std::string>& notes) const {
  std::vector<Stored> found;
  for (const std::string& directory : directories_of(options_)) {
    for (std::string& path : record_files(directory)) {
      if (!llvm::StringRef(fs::path(path).filename().string()).starts_with(problem.signature)) continue;
      auto record = read_record(path);
      if (!record) {
        notes.push_back(take_error_facts(record.takeError()).message + "; ignored");
      } else if (record->problem().signature == problem.signature && record->space() != space) {
        notes.push_back(fmt::format("{}: its template's space has changed; ignored, tune again", path));
      } else if (record->problem().signature == problem.signature) {
        found.push_back({std::move(*record), std::move(path)});
      }
    }
  }
  return found;
}

RecordIndex RecordStore::index(const RecordProblem& problem, llvm::ArrayRef<Symbol> symbols, llvm::StringRef space) const {
  RecordIndex index;
  index.symbols_ = symbols.vec();
  std::vector<Stored> stored = of_graph(problem, space, index.notes_);
  llvm::erase_if(stored, [&](const Stored& s) {
    return !same_problem(s.record.problem(), problem) || s.record.problem().dims.size() != symbols.size();
  });
  for (const Stored& s : stored) {
    if (same_device(s.record.problem(), problem)) add_splits(s.record.problem(), index.splits_);
  }
  for (Stored& s : stored) {
    const RecordProblem& have = s.record.problem();
    index.entries_.push_back(
        {have.dims, bucket_of(symbols, have.dims, index.splits_), same_device(have, problem), s.record.winner(), std::move(s.path)});
  }
  return index;
}

RecordIndex::Found RecordIndex::find(llvm::ArrayRef<std::int64_t> dims) const {
  Found found;
  if (entries_.empty()) return found;
  const Bucket bucket = bucket_of(symbols_, dims, splits_);
  double nearest = std::numeric_limits<double>::infinity();
  for (const Entry& entry : entries_) {
    Match match = Match::kNearest;
    if (!entry.same_device) {
      match = Match::kOtherDevice;
    } else if (llvm::ArrayRef<std::int64_t>(entry.dims) == dims) {
      match = Match::kExact;
    } else if (entry.bucket == bucket) {
      match = Match::kBucket;
    }
    const double apart = distance(entry.dims, dims);
    // Earlier layers go first among equals.
    if (match > found.match || (match == found.match && !(apart < nearest))) continue;
    found = {match, &entry};
    nearest = apart;
  }
  return found;
}

void RecordIndex::drop_if(llvm::function_ref<bool(const Entry&)> refused) { llvm::erase_if(entries_, refused); }

RecordHit RecordIndex::hit(llvm::ArrayRef<std::int64_t> dims) const {
  const Found found = find(dims);
  RecordHit hit{found.match, {}, {}, notes_};
  if (found.entry != nullptr) hit.config = found.entry->config, hit.path = found.entry->path;
  return hit;
}

std::vector<TuningRecord> RecordStore::related(const RecordProblem& problem, llvm::StringRef space) const {
  std::vector<std::string> notes;
  std::vector<TuningRecord> records;
  for (Stored& s : of_graph(problem, space, notes)) records.push_back(std::move(s.record));
  llvm::stable_sort(records, [&](const TuningRecord& a, const TuningRecord& b) {
    return distance(a.problem().dims, problem.dims) < distance(b.problem().dims, problem.dims);
  });
  return records;
}

std::vector<RecordListing> RecordStore::list() const {
  std::vector<RecordListing> listings;
  for (const std::string& directory : directories_of(options_)) {
    for (std::string& path : record_files(directory)) {
      auto record = read_record(path);
      std::string problem = record ? "" : take_error_facts(record.takeError()).message;
      listings.push_back({std::move(path), directory, std::move(problem)});
    }
  }
  return listings;
}

llvm::Expected<std::vector<std::string>> merge_records(const RecordStore& store, const std::string& from) {
  if (!fs::is_directory(from)) return make_error(Status::kIo, "records merge: {} is no directory", from);
  std::vector<std::string> lines;
  for (const std::string& path : record_files(from)) {
    auto theirs = read_record(path);
    if (!theirs) {
      lines.push_back(take_error_facts(theirs.takeError()).message + "; ignored");
      continue;
    }
    auto ours = read_record(store.options().directory + "/" + theirs->file_name());
    if (ours) {
      if (!(theirs->winner_us() < ours->winner_us())) {
        lines.push_back(
            fmt::format("{}: kept ours, {:.2f} us against {:.2f}", theirs->file_name(), ours->winner_us(), theirs->winner_us()));
        continue;
      }
    } else {
      llvm::consumeError(ours.takeError());
    }
    if (llvm::Error error = store.write(*theirs)) return error;
    lines.push_back(fmt::format("{}: taken, {:.2f} us", theirs->file_name(), theirs->winner_us()));
  }
  return lines;
}

}  // namespace tilewright
