#include "tools/tune_jobs.h"

#include <filesystem>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "ops/json_attributes.h"
#include "tools/cli.h"

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;
using llvm::json::Object;
using llvm::json::Value;

std::string item_of(llvm::StringRef name, std::int64_t value) { return fmt::format("{}={}", name, value); }

bool names_symbol(llvm::ArrayRef<Symbol> symbols, llvm::StringRef name) {
  return llvm::any_of(symbols, [&](const Symbol& s) { return s.name == name; });
}

// Adds to each list one item of each value; the lists are the combinations of values of baked dimensions.
void multiply(std::vector<std::vector<std::string>>& lists, const DimRequest& request) {
  std::vector<std::vector<std::string>> longer;
  for (const std::vector<std::string>& list : lists) {
    for (const DimRequest::Range& range : request.ranges) {
      longer.push_back(list);
      longer.back().push_back(item_of(request.name, range.low));
    }
  }
  lists = std::move(longer);
}

llvm::Error check_range(const Symbol& symbol, const DimRequest& request) {
  for (const DimRequest::Range& range : request.ranges) {
    if (range.low < symbol.min || range.high > symbol.max)
      return make_error(Status::kInvalidArgument, "--dim {}: {} must be in [{}, {}], got {}", request.text, symbol.name, symbol.min,
                        symbol.max, range.low < symbol.min ? range.low : range.high);
  }
  return llvm::Error::success();
}

// Fixed values and ranges of the open dimensions.
llvm::Error apply_requests(llvm::ArrayRef<DimRequest> requests, TuneJob& job) {
  job.ranges.assign(1, Bucket{});
  for (const Symbol& symbol : job.graph.symbols()) {
    const auto* request = llvm::find_if(requests, [&](const DimRequest& r) { return r.name == symbol.name; });
    llvm::SmallVector<DimRequest::Range, 2> ranges{{symbol.default_value, symbol.default_value}};
    if (request != requests.end()) {
      if (llvm::Error error = check_range(symbol, *request)) return error;
      ranges.assign(request->ranges.begin(), request->ranges.end());
    }
    job.fixed.push_back(request != requests.end() && request->single());
    job.at.push_back(ranges.front().low);
    std::vector<Bucket> longer;
    for (const Bucket& bucket : job.ranges) {
      for (const DimRequest::Range& range : ranges) {
        longer.push_back(bucket);
        longer.back().low.push_back(range.low);
        longer.back().high.push_back(range.high);
      }
    }
    job.ranges = std::move(longer);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<DimRequest::Range>> read_ranges(const Value& json, const std::string& where) {
  constexpr llvm::StringLiteral kWanted = "a whole number, a range \"64..4096\" or a list of them";
  std::vector<DimRequest::Range> ranges;
  auto add = [&](const Value& value, const std::string& place) -> llvm::Error {
    if (const auto number = value.getAsInteger()) {
      ranges.push_back({*number, *number});
    } else if (const auto text = value.getAsString()) {
      auto range = parse_dim_range(*text, place);
      if (!range) return range.takeError();
      ranges.push_back(*range);
    } else {
      return type_error(place, kWanted, value);
    }
    return llvm::Error::success();
  };
  const llvm::json::Array* array = json.getAsArray();
  if (array == nullptr) {
    if (llvm::Error error = add(json, where)) return error;
    return ranges;
  }
  if (array->empty()) return type_error(where, kWanted, json);
  for (auto [index, value] : llvm::enumerate(*array)) {
    if (llvm::Error error = add(value, fmt::format("{}[{}]", where, index))) return error;
  }
  return ranges;
}

llvm::Expected<ManifestEntry> read_entry(const Value& json, const std::string& where, const fs::path& directory) {
  const Object* object = json.getAsObject();
  if (object == nullptr) return type_error(where, "an object with \"file\"", json);
  if (llvm::Error error = check_keys(*object, {"file", "dims", "targets"}, where)) return error;
  const Value* file = object->get("file");
  if (file == nullptr) return make_error(Status::kInvalidArgument, "{}: \"file\" is missing", where);
  const auto name = file->getAsString();
  if (!name || name->empty()) return type_error(where + ".file", "the path of a description", *file);
  ManifestEntry entry;
  entry.file = (directory / name->str()).lexically_normal().string();
  if (const Value* dims = object->get("dims")) {
    if (dims->getAsObject() == nullptr) return type_error(where + ".dims", "an object of named dimensions", *dims);
    for (const auto& [key, value] : *dims->getAsObject()) {
      const std::string place = where + ".dims." + key.str();
      auto ranges = read_ranges(value, place);
      if (!ranges) return ranges.takeError();
      entry.dims.push_back({key.str(), fmt::format("{} ({})", key.str(), place), std::move(*ranges)});
    }
    llvm::sort(entry.dims, [](const DimRequest& a, const DimRequest& b) { return a.name < b.name; });
  }
  if (const Value* targets = object->get("targets")) {
    if (targets->getAsArray() == nullptr) return type_error(where + ".targets", "a list such as [\"sm_90a\"]", *targets);
    for (auto [index, value] : llvm::enumerate(*targets->getAsArray())) {
      const std::string place = fmt::format("{}.targets[{}]", where, index);
      const auto text = value.getAsString();
      if (!text) return type_error(place, "a target such as \"sm_90a\"", value);
      auto target = parse_target(*text);
      if (!target) return prefix_error(target.takeError(), place + ": ");
      entry.targets.push_back(*target);
    }
  }
  return entry;
}

bool is_manifest(llvm::StringRef text) {
  auto json = llvm::json::parse(text);
  if (!json) {
    llvm::consumeError(json.takeError());  // whoever reads it as a description says what is wrong
    return false;
  }
  const Object* object = json->getAsObject();
  return object != nullptr && object->get("descriptions") != nullptr;
}

llvm::Expected<std::vector<std::string>> descriptions_below(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".json") continue;
    auto text = read_file(at->path().string());
    if (!text) return text.takeError();
    if (!is_manifest(*text)) found.push_back(at->path().string());
  }
  if (error) return make_error(Status::kIo, "cannot read {}: {}", directory, error.message());
  if (found.empty()) return make_error(Status::kInvalidArgument, "tune: no description (*.json) below {}", directory);
  llvm::sort(found);
  return found;
}

// The entries of a manifest, or the file or directory itself.
llvm::Expected<std::vector<ManifestEntry>> entries_of(const std::string& name) {
  std::vector<ManifestEntry> entries;
  std::error_code error;
  if (fs::is_directory(name, error)) {
    auto files = descriptions_below(name);
    if (!files) return files.takeError();
    for (std::string& file : *files) entries.push_back({std::move(file), {}, {}});
    return entries;
  }
  if (auto text = read_file(name)) {
    if (is_manifest(*text)) return parse_manifest(*text, name);
  } else {
    llvm::consumeError(text.takeError());  // reading it as a description says the same
  }
  entries.push_back({name, {}, {}});
  return entries;
}

}  // namespace

llvm::Expected<DimRequest::Range> parse_dim_range(llvm::StringRef text, llvm::StringRef where) {
  const auto at = text.find("..");
  DimRequest::Range range;
  auto number = [&](llvm::StringRef part, std::int64_t& value) -> llvm::Error {
    if (!part.trim().getAsInteger(10, value)) return llvm::Error::success();
    return make_error(Status::kInvalidArgument, "{}: '{}' is not a whole number below 2^63", where, part.trim());
  };
  if (llvm::Error error = number(text.substr(0, at), range.low)) return error;
  range.high = range.low;
  if (at != llvm::StringRef::npos) {
    if (llvm::Error error = number(text.substr(at + 2), range.high)) return error;
  }
  if (range.low > range.high) return make_error(Status::kInvalidArgument, "{}: the range {} has no value", where, text.trim());
  return range;
}

llvm::Expected<std::vector<DimRequest>> parse_dim_requests(llvm::ArrayRef<std::string> items) {
  std::vector<DimRequest> requests;
  for (const std::string& item : items) {
    llvm::SmallVector<llvm::StringRef, 4> parts;
    llvm::StringRef(item).split(parts, ',');
    bool first = true;
    for (llvm::StringRef part : parts) {
      llvm::StringRef value = part;
      if (part.contains('=')) {
        llvm::StringRef name;
        std::tie(name, value) = part.split('=');
        name = name.trim();
        const auto before = llvm::find_if(requests, [&](const DimRequest& other) { return other.name == name; });
        if (before != requests.end())
          return make_error(Status::kInvalidArgument, "--dim {}: '{}' is given twice, the first time as {}", part, name, before->text);
        requests.push_back({name.str(), item, {}});
      }
      if ((first && !part.contains('=')) || requests.back().name.empty() || value.trim().empty())
        return make_error(Status::kInvalidArgument, "--dim wants NAME=VALUE, NAME=VALUE,VALUE or NAME=LOW..HIGH, got '{}'", item);
      auto range = parse_dim_range(value, "--dim " + item);
      if (!range) return range.takeError();
      requests.back().ranges.push_back(*range);
      first = false;
    }
  }
  return requests;
}

llvm::Expected<std::vector<TuneJob>> make_tune_jobs(const std::string& file, llvm::ArrayRef<DimRequest> dims,
                                                    llvm::ArrayRef<Target> targets) {
  // With one value each, for what is wrong with the file or a name.
  std::vector<std::string> one_each;
  for (const DimRequest& request : dims) one_each.push_back(item_of(request.name, request.ranges.front().low));
  auto sized = load_sized(file, one_each);
  if (!sized) return sized.takeError();
  std::vector<std::vector<std::string>> baked(1);
  for (const DimRequest& request : dims) {
    if (!names_symbol(sized->graph.baked_dims(), request.name)) continue;
    if (llvm::any_of(request.ranges, [](const DimRequest::Range& range) { return range.low != range.high; }))
      return make_error(Status::kInvalidArgument, "{}: --dim {}: {} is part of the kernel: wanted values, not a range", file, request.text,
                        request.name);
    multiply(baked, request);
  }
  std::vector<TuneJob> jobs;
  for (std::vector<std::string>& items : baked) {
    auto loaded = load_sized(file, items);
    if (!loaded) return loaded.takeError();
    TuneJob job;
    job.file = file;
    job.graph = std::move(loaded->graph);
    job.baked = std::move(items);
    job.targets.assign(targets.begin(), targets.end());
    if (llvm::Error error = apply_requests(dims, job)) return error;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

llvm::Expected<std::vector<ManifestEntry>> parse_manifest(llvm::StringRef text, const std::string& path) {
  auto json = llvm::json::parse(text);
  if (!json) return make_error(Status::kInvalidArgument, "{}: not JSON: {}", path, llvm::toString(json.takeError()));
  const std::string begin = path + ": ";
  const Object* object = json->getAsObject();
  if (object == nullptr) return type_error(begin + "the manifest", "an object with \"descriptions\"", *json);
  if (llvm::Error error = check_keys(*object, {"descriptions"}, path)) return error;
  const Value* list = object->get("descriptions");
  if (list == nullptr || list->getAsArray() == nullptr || list->getAsArray()->empty())
    return make_error(Status::kInvalidArgument, "{}descriptions must be a list of at least one object with \"file\"", begin);
  const fs::path directory = fs::path(path).parent_path();
  std::vector<ManifestEntry> entries;
  for (auto [index, value] : llvm::enumerate(*list->getAsArray())) {
    auto entry = read_entry(value, fmt::format("descriptions[{}]", index), directory);
    if (!entry) return prefix_error(entry.takeError(), begin);
    entries.push_back(std::move(*entry));
  }
  return entries;
}

llvm::Expected<std::vector<TuneJob>> collect_tune_jobs(llvm::ArrayRef<std::string> names, llvm::ArrayRef<std::string> dims,
                                                       llvm::StringRef targets) {
  auto requests = parse_dim_requests(dims);
  if (!requests) return requests.takeError();
  llvm::SmallVector<Target, 2> wanted;
  if (!targets.empty()) {
    auto parsed = parse_targets(targets);
    if (!parsed) return parsed.takeError();
    wanted = std::move(*parsed);
  }
  std::vector<TuneJob> jobs;
  for (const std::string& name : names) {
    auto entries = entries_of(name);
    if (!entries) return entries.takeError();
    for (ManifestEntry& entry : *entries) {
      for (const DimRequest& request : *requests) {
        if (llvm::none_of(entry.dims, [&](const DimRequest& own) { return own.name == request.name; })) entry.dims.push_back(request);
      }
      auto made = make_tune_jobs(entry.file, entry.dims,
                                 entry.targets.empty() ? llvm::ArrayRef<Target>(wanted) : llvm::ArrayRef<Target>(entry.targets));
      if (!made) return made.takeError();
      std::move(made->begin(), made->end(), std::back_inserter(jobs));
    }
  }
  return jobs;
}

}  // namespace tilewright::cli
