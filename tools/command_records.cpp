// tilewright records ls|show|diff|merge|report: what tunings found.
#include "autotune/records.h"
#include "autotune/report.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "tools/cli.h"

namespace tilewright::cli {
namespace {

struct Options {
  std::vector<std::string> names;
  std::string out;
  bool json = false;
};

// A record by path, or by the beginning of its file's name in the store's layers.
llvm::Expected<std::string> find_path(const std::string& name) {
  if (llvm::sys::fs::exists(name)) return name;
  std::string found;
  for (const RecordListing& listing : RecordStore(RecordStore::Options::from_environment()).list()) {
    if (!llvm::sys::path::filename(listing.path).starts_with(name)) continue;
    if (!found.empty()) return make_error(Status::kInvalidArgument, "records: several begin with {}", name);
    found = listing.path;
  }
  if (found.empty()) return make_error(Status::kInvalidArgument, "records: none begins with {}; see `tilewright records ls`", name);
  return found;
}

llvm::Expected<TuningRecord> find_record(const std::string& name) {
  auto path = find_path(name);
  if (!path) return path.takeError();
  return read_record(*path);
}

llvm::Expected<Output> list_records(const Options& options) {
  const RecordStore store(RecordStore::Options::from_environment());
  llvm::json::Array array;
  std::string text;
  Output output;
  std::size_t bad = 0;
  for (const RecordListing& listing : store.list()) {
    const llvm::StringRef file = llvm::sys::path::filename(listing.path);
    auto record = read_record(listing.path);
    if (!record) {
      const std::string problem = take_error_facts(record.takeError()).message;
      ++bad;
      text += fmt::format("{}  (ignored) {}\n", file, problem);
      array.push_back(llvm::json::Object{{"path", listing.path}, {"layer", listing.layer}, {"problem", problem}});
      continue;
    }
    text += fmt::format("{}  {:<24} [{}] {} {}  {:.2f} us  {}\n", file.substr(0, 12), record->problem().name,
                        fmt::join(record->problem().dims, ", "), record->problem().device, record->problem().policy, record->winner_us(),
                        config_text(record->winner()));
    array.push_back(llvm::json::Object{{"path", listing.path},
                                       {"layer", listing.layer},
                                       {"name", record->problem().name},
                                       {"device", record->problem().device},
                                       {"policy", record->problem().policy},
                                       {"winner", config_json(record->winner())},
                                       {"winner_us", json_number(record->winner_us())}});
  }
  if (bad > 0)
    output.status = kBad,
    output.complaint = fmt::format("{} cannot be read and {} ignored", count_text(bad, "record"), bad == 1 ? "is" : "are");
  output.text = options.json
                    ? json_text(llvm::json::Object{{"records", std::move(array)}})
                    : text + fmt::format("in {}\n", store.options().directory.empty() ? "no directory" : store.options().directory);
  return output;
}

llvm::Expected<Output> show_record(const Options& options) {
  auto record = find_record(options.names[0]);
  if (!record) return record.takeError();
  if (options.json) return Output{record->text()};
  return Output{record_text(*record) + "environment\n" + json_text(llvm::json::Object(record->environment()))};
}

llvm::Expected<Output> diff_records(const Options& options) {
  auto before = find_record(options.names[0]);
  if (!before) return before.takeError();
  auto after = find_record(options.names[1]);
  if (!after) return after.takeError();
  const std::string text = record_diff(*before, *after);
  if (options.json) return Output{json_text(llvm::json::Object{{"same", text.empty()}, {"difference", text}})};
  return Output{text.empty() ? "both say the same\n" : text};
}

llvm::Expected<Output> merge(const Options& options) {
  const RecordStore store(RecordStore::Options::from_environment());
  std::vector<std::string> lines;
  for (const std::string& directory : options.names) {
    auto merged = merge_records(store, directory);
    if (!merged) return merged.takeError();
    lines.insert(lines.end(), merged->begin(), merged->end());
  }
  if (options.json) return Output{json_text(llvm::json::Object{{"records", llvm::json::Array(lines)}})};
  return Output{fmt::format("{}\n{} looked at\n", fmt::join(lines, "\n"), count_text(lines.size(), "record"))};
}

// Records to report on: files, all of a directory, or beginnings of names; nothing named: all of the store, the nearest layer's first.
llvm::Expected<std::vector<std::string>> report_paths(llvm::ArrayRef<std::string> names) {
  std::vector<std::string> paths;
  auto add_all = [&](const RecordStore& store) {
    std::vector<std::string> seen;
    for (const RecordListing& listing : store.list()) {
      const std::string file = llvm::sys::path::filename(listing.path).str();
      if (!llvm::is_contained(seen, file)) paths.push_back(listing.path);
      seen.push_back(file);
    }
  };
  if (names.empty()) add_all(RecordStore(RecordStore::Options::from_environment()));
  for (const std::string& name : names) {
    if (llvm::sys::fs::is_directory(name)) {
      add_all(RecordStore({name, {}}));
    } else {
      auto path = find_path(name);
      if (!path) return path.takeError();
      paths.push_back(std::move(*path));
    }
  }
  return paths;
}

llvm::Expected<Output> report(const Options& options) {
  auto paths = report_paths(options.names);
  if (!paths) return paths.takeError();
  std::vector<ReportProblem> problems;
  std::vector<std::string> notes;
  for (const std::string& path : *paths) {
    auto record = read_record(path);
    if (record)
      problems.push_back(report_problem(*record));
    else
      notes.push_back(fmt::format("{} is ignored: {}", llvm::sys::path::filename(path), take_error_facts(record.takeError()).message));
  }
  if (problems.empty() && notes.empty()) return make_error(Status::kInvalidArgument, "records: there is none to report on");
  const std::string page = report_html(problems, notes);
  if (llvm::Error error = replace_file(options.out, page)) return error;
  Output output{
      fmt::format("{}: {}, {}\n", options.out, count_text(problems.size(), "problem"), bytes_text(static_cast<double>(page.size())))};
  if (options.json)
    output.text = json_text(llvm::json::Object{{"out", options.out},
                                               {"problems", json_count(problems.size())},
                                               {"bytes", json_count(page.size())},
                                               {"ignored", llvm::json::Array(notes)}});
  if (!notes.empty()) output.status = kBad, output.complaint = notes.front();
  return output;
}

}  // namespace

Action add_records(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.require_subcommand(1);
  CLI::App* ls = app.add_subcommand("ls", "records of the directory and its layers");
  CLI::App* show = app.add_subcommand("show", "one record: winner, every candidate, environment");
  CLI::App* diff = app.add_subcommand("diff", "what two records say differently");
  CLI::App* merging = app.add_subcommand("merge", "take the records of other directories where they are new or faster");
  show->add_option("RECORD", options->names, "path, or the beginning of the file's name")->required()->expected(1);
  diff->add_option("RECORD", options->names, "two paths or beginnings of names")->required()->expected(2);
  merging->add_option("DIR", options->names, "directories of records")->required();
  CLI::App* reporting = app.add_subcommand("report", "one HTML page: pictures of times and parameters, fates and reasons, environment");
  reporting->add_option("RECORD", options->names, "paths, directories or beginnings of names; none: all records of the store");
  reporting->add_option("--out", options->out, "file to write")->required();
  for (CLI::App* command : {ls, show, diff, merging, reporting}) command->add_flag("--json", options->json, "print JSON");
  return [options, ls, show, diff, reporting]() -> llvm::Expected<Output> {
    if (ls->parsed()) return list_records(*options);
    if (show->parsed()) return show_record(*options);
    if (diff->parsed()) return diff_records(*options);
    if (reporting->parsed()) return report(*options);
    return merge(*options);
  };
}

}  // namespace tilewright::cli
