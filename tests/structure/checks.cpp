#include "tests/structure/checks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <regex>
#include <utility>

namespace tilewright_tests {
namespace {

namespace fs = std::filesystem;

// A directory and what its files may include besides themselves. The first entry that a path begins with counts.
struct Layer {
  std::string_view directory;
  std::vector<std::string_view> below;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> all = {
      {"runtime/api/", {"runtime/", "ops/", "codegen/", "autotune/"}},
      {"runtime/", {}},
      {"ops/", {"runtime/"}},
      {"codegen/", {"ops/", "runtime/"}},
      {"autotune/", {"codegen/", "ops/", "runtime/"}},
      {"tools/", {"autotune/", "codegen/", "ops/", "runtime/", "runtime/api/"}},
  };
  return all;
}

const Layer* layer_of(std::string_view path) {
  for (const Layer& layer : layers()) {
    if (path.starts_with(layer.directory)) return &layer;
  }
  return nullptr;
}

// The text with comments and the contents of string and character literals blanked; line breaks stay.
std::string without_comments_and_strings(std::string_view text) {
  enum class State { kCode, kLineComment, kBlockComment, kString, kCharacter };
  State state = State::kCode;
  std::string out(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const bool escaped = (state == State::kString || state == State::kCharacter) && c == '\\';
    if (state == State::kCode) {
      if (c == 'R' && next == '"') {
        const std::size_t parenthesis = std::min(text.find('(', i), text.size());
        const std::string close = ")" + std::string(text.substr(i + 2, parenthesis - i - 2)) + "\"";
        const std::size_t end = std::min(text.find(close, parenthesis), text.size() - close.size()) + close.size();
        std::replace_if(
            out.begin() + static_cast<std::ptrdiff_t>(i), out.begin() + static_cast<std::ptrdiff_t>(end),
            [](char raw) { return raw != '\n'; }, ' ');
        i = end - 1;
        continue;
      }
      if (c == '/' && next == '/') state = State::kLineComment;
      if (c == '/' && next == '*') state = State::kBlockComment;
      if (c == '"') state = State::kString;
      // Not the separator in 1'000.
      if (c == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0)) state = State::kCharacter;
      if (state == State::kBlockComment || state == State::kLineComment) out[i] = ' ';
      continue;
    }
    const bool ends = (state == State::kLineComment && c == '\n') || (state == State::kBlockComment && c == '/' && text[i - 1] == '*') ||
                      (state == State::kString && c == '"') || (state == State::kCharacter && c == '\'');
    if (c != '\n') out[i] = ' ';
    if (escaped) {
      if (next != '\n' && i + 1 < text.size()) out[i + 1] = ' ';
      ++i;
    }
    if (ends) state = State::kCode;
  }
  return out;
}

std::string location(std::string_view path, std::string_view text, std::size_t offset) {
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  return std::string(path) + ":" + std::to_string(line) + ": ";
}

// Every text that matches the pattern's first group, with its offset.
std::vector<std::pair<std::size_t, std::string>> find_all(const std::string& text, const std::regex& pattern) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern); it != std::sregex_iterator(); ++it) {
    found.emplace_back(static_cast<std::size_t>(it->position(1)), it->str(1));
  }
  return found;
}

// a/{b,c}.h -> a/b.h, a/c.h
std::vector<std::string> expand_braces(const std::string& text) {
  const std::size_t open = text.find('{');
  const std::size_t close = text.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {text};
  std::vector<std::string> all;
  for (std::size_t at = open + 1; at <= close;) {
    const std::size_t end = std::min(text.find(',', at), close);
    for (const std::string& rest : expand_braces(text.substr(close + 1))) {
      all.push_back(text.substr(0, open) + text.substr(at, end - at) + rest);
    }
    at = end + 1;
  }
  return all;
}

bool matches(const std::string& pattern, const std::string& text) {
  std::string escaped;
  for (const char c : pattern) escaped += c == '*' ? std::string("[^/]*") : std::string("[") + c + "]";
  return std::regex_match(text, std::regex(escaped));
}

bool exists(const fs::path& root, const std::string& path) {
  if (path.find('*') == std::string::npos) return fs::exists(root / path);
  const fs::path parent = root / fs::path(path).parent_path();
  if (!fs::is_directory(parent)) return false;
  const std::string name = fs::path(path).filename().string();
  return std::any_of(fs::directory_iterator(parent), fs::directory_iterator(),
                     [&](const fs::directory_entry& entry) { return matches(name, entry.path().filename().string()); });
}

}  // namespace

Faults include_faults(std::string_view path, std::string_view text) {
  const Layer* layer = layer_of(path);
  if (layer == nullptr) return {};
  Faults faults;
  const std::string source(text);
  static const std::regex kInclude(R"re((?:^|\n)[ \t]*#[ \t]*include[ \t]*"([^"\n]+)")re");
  for (const auto& [offset, included] : find_all(source, kInclude)) {
    const Layer* wanted = layer_of(included);
    if (wanted == nullptr || wanted == layer) continue;
    if (std::find(layer->below.begin(), layer->below.end(), wanted->directory) != layer->below.end()) continue;
    faults.push_back(location(path, text, offset) + std::string(layer->directory) + " must not include " + included);
  }
  return faults;
}

Faults asm_faults(std::string_view path, std::string_view text) {
  static const std::regex kPtx("templates/tilewright/ptx(_[a-z]+)?\\.cuh");
  if (std::regex_match(path.begin(), path.end(), kPtx)) return {};
  Faults faults;
  static const std::regex kAsm(R"re((?:^|[^A-Za-z0-9_])(asm|__asm|__asm__)(?![A-Za-z0-9_]))re");
  for (const auto& [offset, word] : find_all(without_comments_and_strings(text), kAsm)) {
    faults.push_back(location(path, text, offset) + word + " belongs into templates/tilewright/ptx*.cuh");
  }
  return faults;
}

Faults path_faults(const fs::path& root, std::string_view path, std::string_view markdown) {
  Faults faults;
  const std::string text(markdown);
  static const std::regex kCode(R"re(`([^`\n]+)`)re");
  static const std::regex kOurs(
      R"re((codegen|runtime|templates|ops|autotune|tests|tools|docs|examples|cmake|\.ci)/[A-Za-z0-9_./*{},-]*)re");
  for (const auto& [offset, code] : find_all(text, kCode)) {
    // `tools/test dev` names a command: its first word is the path.
    const std::string word = code.substr(0, code.find(' '));
    if (code.find('<') != std::string::npos || !std::regex_match(word, kOurs)) continue;
    for (const std::string& one : expand_braces(word)) {
      if (!exists(root, one)) faults.push_back(location(path, text, offset) + one + " does not exist");
    }
  }
  static const std::regex kLink(R"re(\]\(([^)#\s]+)[^)]*\))re");
  for (const auto& [offset, target] : find_all(text, kLink)) {
    if (target.find("://") != std::string::npos || target.starts_with("mailto:")) continue;
    const fs::path from = root / fs::path(path).parent_path();
    if (!fs::exists(from / target)) faults.push_back(location(path, text, offset) + target + " does not exist");
  }
  return faults;
}

std::vector<std::string> fenced_blocks(std::string_view markdown, std::string_view language) {
  std::vector<std::string> blocks;
  const std::string open = "```" + std::string(language) + "\n";
  for (std::size_t at = 0;;) {
    at = markdown.find(open, at);
    if (at == std::string_view::npos) return blocks;
    if (at != 0 && markdown[at - 1] != '\n') {
      at += open.size();
      continue;
    }
    const std::size_t begin = at + open.size();
    const std::size_t end = markdown.find("\n```", begin - 1);
    if (end == std::string_view::npos) return blocks;
    blocks.emplace_back(markdown.substr(begin, end + 1 - begin));
    at = end + 4;
  }
}

Faults machine_path_faults(std::string_view name, std::string_view generated) {
  Faults faults;
  const std::string text(generated);
  static const std::regex kDirectory(R"re((/(?:usr|home|root|tmp|work|opt|var|etc|mnt)/[^\s"]*))re");
  for (const auto& [offset, found] : find_all(text, kDirectory)) {
    faults.push_back(location(name, text, offset) + "generated text names " + found);
  }
  return faults;
}

std::vector<std::string> files_below(const fs::path& root, const std::string& directory, const std::vector<std::string>& extensions) {
  std::vector<std::string> found;
  if (!fs::is_directory(root / directory)) return found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / directory)) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || std::find(extensions.begin(), extensions.end(), extension) == extensions.end()) continue;
    found.push_back(entry.path().lexically_relative(root).generic_string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string read_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace tilewright_tests
