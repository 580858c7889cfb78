#include "tools/cli.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Errc.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "ops/json.h"

namespace tilewright::cli {

ExitStatus exit_status(Status status) {
  switch (status) {
    case Status::kInvalidArgument:
    case Status::kUnsupported:
    case Status::kIo:
      return kUsage;
    case Status::kMissing:
    case Status::kOutOfMemory:
      return kLacking;
    case Status::kCompileFailed:
    case Status::kDriver:
    case Status::kMismatch:
    case Status::kCorrupt:
    case Status::kCompileInCapture:
    case Status::kKernelFault:
    case Status::kInternal:
      return kBad;
  }
  return kBad;
}

std::string json_text(const llvm::json::Value& value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream writer(os, 2);
  writer.value(value);
  writer.flush();
  os << '\n';
  return os.str();
}

llvm::json::Value json_number(double number) {
  if (!std::isfinite(number)) return nullptr;
  return number;
}

llvm::json::Value json_count(std::uint64_t count) {
  if (count <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return static_cast<std::int64_t>(count);
  return static_cast<double>(count);
}

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  unsigned unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string time_text(double microseconds) {
  if (!std::isfinite(microseconds)) return "unknown";
  if (microseconds < 1e3) return fmt::format("{:.2f} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.2f} ms", microseconds / 1e3);
  return fmt::format("{:.2f} s", microseconds / 1e6);
}

namespace {

// "N=128".
struct DimItem {
  std::string text, name;
  std::int64_t value;
};

llvm::Expected<DimItem> parse_dim(llvm::StringRef item) {
  auto [name, number] = item.split('=');
  name = name.trim();
  number = number.trim();
  if (name.empty() || number.empty()) {
    return make_error(Status::kInvalidArgument, "--dim wants NAME=VALUE, got '{}'", item);
  }
  std::int64_t value = 0;
  if (number.getAsInteger(10, value)) {
    return make_error(Status::kInvalidArgument, "--dim {}: '{}' is not a whole number below 2^63", item, number);
  }
  return DimItem{item.str(), name.str(), value};
}

// The value of an open dimension into `dims`; one of a baked dimension is in the graph already.
llvm::Error apply_dim(const Graph& graph, const DimItem& dim, llvm::MutableArrayRef<std::int64_t> dims) {
  const auto same_name = [&](const Symbol& s) { return s.name == dim.name; };
  if (llvm::any_of(graph.baked_dims(), same_name)) return llvm::Error::success();
  llvm::ArrayRef<Symbol> symbols = graph.symbols();
  const Symbol* symbol = llvm::find_if(symbols, same_name);
  if (symbol == symbols.end()) {
    llvm::SmallVector<llvm::StringRef, 8> names;
    for (const Symbol& s : symbols) names.push_back(s.name);
    for (const Symbol& s : graph.baked_dims()) names.push_back(s.name);
    if (names.empty()) return make_error(Status::kInvalidArgument, "--dim {}: '{}' has no named dimension", dim.text, graph.name());
    llvm::StringRef nearest = nearest_name(dim.name, names);
    return make_error(Status::kInvalidArgument, "--dim {}: unknown dimension '{}'; '{}' has {}{}", dim.text, dim.name, graph.name(),
                      llvm::join(names, ", "), nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
  }
  if (dim.value < symbol->min || dim.value > symbol->max) {
    return make_error(Status::kInvalidArgument, "--dim {}: {} must be in [{}, {}], got {}", dim.text, dim.name, symbol->min, symbol->max,
                      dim.value);
  }
  dims[static_cast<std::size_t>(symbol - symbols.begin())] = dim.value;
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<Sized> load_sized(const std::string& file, llvm::ArrayRef<std::string> items) {
  llvm::SmallVector<DimItem, 4> dims;
  for (const std::string& list : items) {
    llvm::SmallVector<llvm::StringRef, 4> parts;
    llvm::StringRef(list).split(parts, ',');
    for (llvm::StringRef part : parts) {
      auto dim = parse_dim(part);
      if (!dim) return dim.takeError();
      const auto* before = llvm::find_if(dims, [&](const DimItem& other) { return other.name == dim->name; });
      if (before != dims.end()) {
        return make_error(Status::kInvalidArgument, "--dim {}: '{}' is given twice, the first time as {}", dim->text, dim->name,
                          before->value);
      }
      dims.push_back(std::move(*dim));
    }
  }
  // Baked dimensions take their values while the file is read. Only they are passed: a name that is unknown is this function's to report.
  auto graph = load_description(file);
  if (!graph) return graph.takeError();
  std::vector<DimValue> baked;
  for (const DimItem& dim : dims) {
    if (llvm::any_of(graph->baked_dims(), [&](const Symbol& s) { return s.name == dim.name; })) baked.push_back({dim.name, dim.value});
  }
  if (!baked.empty()) {
    graph = load_description(file, baked);
    if (!graph) return graph.takeError();
  }
  llvm::SmallVector<std::int64_t, 4> values = graph->default_dims();
  for (const DimItem& dim : dims) {
    if (llvm::Error error = apply_dim(*graph, dim, values)) return error;
  }
  return Sized{std::move(*graph), std::move(values)};
}

std::string dims_text(const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  std::string text;
  for (auto [index, symbol] : llvm::enumerate(graph.symbols())) {
    text += fmt::format("{}{}={}", index == 0 ? "" : " ", symbol.name, dims[index]);
  }
  for (const Symbol& symbol : graph.baked_dims())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", symbol.name, symbol.default_value);
  return text;
}

llvm::json::Object dims_json(const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  llvm::json::Object object;
  for (auto [index, symbol] : llvm::enumerate(graph.symbols())) object[symbol.name] = dims[index];
  for (const Symbol& symbol : graph.baked_dims()) object[symbol.name] = symbol.default_value;
  return object;
}

llvm::Expected<ConfigOverrides> parse_config(llvm::StringRef json) {
  ConfigOverrides overrides;
  if (json.trim().empty()) return overrides;
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(json);
  if (!parsed) {
    return make_error(Status::kInvalidArgument, "--config is not JSON: {}", llvm::toString(parsed.takeError()));
  }
  const llvm::json::Object* object = parsed->getAsObject();
  if (object == nullptr) {
    return make_error(Status::kInvalidArgument, "--config wants an object such as {{\"block_threads\": 256}}, got {}", json);
  }
  for (const auto& [key, value] : *object) {
    std::optional<std::int64_t> number = value.getAsInteger();
    if (!number) {
      return make_error(Status::kInvalidArgument, "--config: '{}' must be an integer, got {}", key.str(),
                        llvm::formatv("{0}", value).str());
    }
    overrides[key.str()] = *number;
  }
  return overrides;
}

}  // namespace tilewright::cli
