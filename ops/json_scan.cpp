#include "ops/json_scan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr std::size_t kMaxNesting = 64;

std::string position_text(llvm::StringRef json, std::size_t offset) {
  const llvm::StringRef before = json.take_front(offset);
  const std::size_t line_start = before.rfind('\n') == llvm::StringRef::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {}, column {}", before.count('\n') + 1, offset - line_start + 1);
}

// Offset just behind the string that starts at `start`.
std::size_t string_end(llvm::StringRef json, std::size_t start) {
  std::size_t i = start + 1;
  while (i < json.size() && json[i] != '"') i += json[i] == '\\' ? 2 : 1;
  return std::min(i + 1, json.size());
}

struct Level {
  bool is_object = false;
  std::string path;
  std::vector<std::string> keys;
  std::size_t index = 0;  // of the array element being read
  bool expects_key = true;
};

std::string child_path(const Level& parent) {
  if (!parent.is_object) return fmt::format("{}[{}]", parent.path, parent.index);
  if (parent.keys.empty()) return parent.path;
  return parent.path.empty() ? parent.keys.back() : parent.path + "." + parent.keys.back();
}

// Escapes make different spellings of one key.
std::string decoded(llvm::StringRef literal) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(literal);
  if (!value) {
    llvm::consumeError(value.takeError());
    return literal.str();
  }
  return value->getAsString().value_or("").str();
}

}  // namespace

llvm::Error check_json_nesting(llvm::StringRef json) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      i = string_end(json, i) - 1;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxNesting) {
        return make_error(Status::kInvalidArgument, "{}: brackets are nested deeper than {}", position_text(json, i), kMaxNesting);
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<JsonKeys> scan_json_keys(llvm::StringRef json) {
  JsonKeys keys;
  std::vector<Level> levels;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '{' || c == '[') {
      std::string path = levels.empty() ? "" : child_path(levels.back());
      levels.push_back({c == '{', std::move(path), {}, 0, true});
    } else if ((c == '}' || c == ']') && !levels.empty()) {
      if (levels.back().is_object) keys[levels.back().path] = std::move(levels.back().keys);
      levels.pop_back();
    } else if (c == ',' && !levels.empty()) {
      ++levels.back().index;
      levels.back().expects_key = true;
    } else if (c == '"') {
      const std::size_t end = string_end(json, i);
      if (!levels.empty() && levels.back().is_object && levels.back().expects_key) {
        std::string key = decoded(json.slice(i, end));
        if (llvm::is_contained(levels.back().keys, key)) {
          return make_error(Status::kInvalidArgument, "{}: key \"{}\" is given twice", position_text(json, i), key);
        }
        levels.back().keys.push_back(std::move(key));
        levels.back().expects_key = false;
      }
      i = end - 1;
    }
  }
  return keys;
}

}  // namespace tilewright
