// tilewright cache ls|info|verify: looks into the store.
#include <ctime>

#include "llvm/Support/Path.h"
#include "runtime/module.h"
#include "runtime/store.h"
#include "tools/cli.h"

namespace tilewright::cli {
namespace {

// Text of a provenance field, "" when it is not there.
std::string field(llvm::StringRef provenance, llvm::StringRef name) {
  auto value = llvm::json::parse(provenance);
  if (!value) {
    llvm::consumeError(value.takeError());
    return "";
  }
  const llvm::json::Object* object = value->getAsObject();
  if (object == nullptr) return "";
  return object->getString(name).value_or("").str();
}

std::string utc_text(std::int64_t seconds) {
  const std::time_t time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

llvm::Expected<Output> list_entries(bool json) {
  const Store store(StoreOptions::from_environment());
  auto listings = store.list();
  if (!listings) return listings.takeError();
  llvm::json::Array entries;
  std::string text;
  std::uint64_t total_bytes = 0, count = 0;
  for (const StoreListing& listing : *listings) {
    total_bytes += listing.bytes;
    ++count;
    std::string kernel, target;
    if (auto entry = Store::read(listing)) {
      kernel = field(entry->provenance, "kernel");
      target = field(entry->provenance, "target");
    } else {
      llvm::consumeError(entry.takeError());
      kernel = "(damaged)";
    }
    text += fmt::format("{}  {}  {:>8}  {:<10} {}\n", llvm::StringRef(listing.key).substr(0, 16), utc_text(listing.modified_s),
                        bytes_text(static_cast<double>(listing.bytes)), target, kernel);
    entries.push_back(llvm::json::Object{{"key", listing.key},
                                         {"path", listing.path},
                                         {"layer", listing.layer},
                                         {"bytes", json_count(listing.bytes)},
                                         {"modified_s", listing.modified_s},
                                         {"target", target},
                                         {"kernel", kernel}});
  }
  if (json) return Output{json_text(llvm::json::Object{{"entries", std::move(entries)}, {"bytes", json_count(total_bytes)}})};
  text += fmt::format("{} {}, {} in {}\n", count, count == 1 ? "entry" : "entries", bytes_text(static_cast<double>(total_bytes)),
                      store.options().directory.empty() ? "no directory" : store.options().directory);
  return Output{std::move(text)};
}

llvm::Expected<Output> show_entry(const std::string& prefix, bool json) {
  const Store store(StoreOptions::from_environment());
  auto found = store.read(prefix);
  if (!found) return found.takeError();
  const auto& [listing, entry] = *found;
  auto provenance = llvm::json::parse(entry.provenance);
  if (!provenance) {
    return make_error(Status::kCorrupt, "{}: provenance is not JSON: {}", listing.path, llvm::toString(provenance.takeError()));
  }
  if (json) {
    return Output{json_text(llvm::json::Object{{"key", entry.key},
                                               {"path", listing.path},
                                               {"bytes", json_count(listing.bytes)},
                                               {"binary_bytes", json_count(entry.binary.size())},
                                               {"is_ptx", entry.is_ptx},
                                               {"provenance", std::move(*provenance)},
                                               {"source", entry.source}})};
  }
  return Output{fmt::format("key         {}\npath        {}\nmodified    {} UTC\nbinary      {} ({})\nsource      {}\nprovenance\n{}",
                            entry.key, listing.path, utc_text(listing.modified_s), bytes_text(static_cast<double>(entry.binary.size())),
                            entry.is_ptx ? "PTX" : "cubin", bytes_text(static_cast<double>(entry.source.size())),
                            json_text(std::move(*provenance)))};
}

llvm::Expected<Output> verify_entries(bool json) {
  const Store store(StoreOptions::from_environment());
  auto verified = store.verify();
  if (!verified) return verified.takeError();
  auto listings = store.list();
  if (!listings) return listings.takeError();
  const std::vector<StoreProblem>& problems = *verified;
  const std::size_t count = listings->size();
  Output output;
  if (json) {
    llvm::json::Array array;
    for (const StoreProblem& problem : problems) {
      array.push_back(llvm::json::Object{{"key", problem.entry.key}, {"path", problem.entry.path}, {"problem", problem.what}});
    }
    output.text = json_text(llvm::json::Object{{"entries", json_count(count)}, {"problems", std::move(array)}});
  } else {
    for (const StoreProblem& problem : problems) output.text += fmt::format("{}: {}\n", problem.entry.path, problem.what);
    output.text += fmt::format("{} {} looked at, {} bad\n", count, count == 1 ? "entry" : "entries", problems.size());
  }
  if (!problems.empty()) {
    output.status = kBad;
    output.complaint =
        fmt::format("{} of {} entries of the store are damaged; they will be built again when they are needed", problems.size(), count);
  }
  return output;
}

}  // namespace

Action add_cache(CLI::App& app) {
  struct Options {
    std::string prefix;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  app.require_subcommand(1);
  CLI::App* ls = app.add_subcommand("ls", "entries of the store and its layers");
  CLI::App* info = app.add_subcommand("info", "one entry");
  CLI::App* verify = app.add_subcommand("verify", "check every entry against its checksum");
  info->add_option("KEY", options->prefix, "the key or its beginning")->required();
  for (CLI::App* command : {ls, info, verify}) command->add_flag("--json", options->json, "print JSON");
  return [options, ls, info]() -> llvm::Expected<Output> {
    if (ls->parsed()) return list_entries(options->json);
    if (info->parsed()) return show_entry(options->prefix, options->json);
    return verify_entries(options->json);
  };
}

}  // namespace tilewright::cli
