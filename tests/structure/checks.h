// What the source tree promises, as functions on text: each returns one line per fault, none when all is well.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright_tests {

using Faults = std::vector<std::string>;

// `path` relative to the checkout, with '/'. A file of runtime/ includes runtime/ alone, ops/ what is below it, and so on
// up to tools/, which may include all; runtime/api/ stands on everything but tools/. Only quoted includes count.
Faults include_faults(std::string_view path, std::string_view text);

// `asm` as a word outside comments and strings, in any file but templates/tilewright/ptx*.cuh.
Faults asm_faults(std::string_view path, std::string_view text);

// Paths of this project that a Markdown text names, in `code` or as the target of a [link](path), and that do not exist.
// `path` is the Markdown file's own, relative to `root`; a link is resolved from there, code from the root. Code counts as a
// path when it begins with one of the project's directories; * matches anything, {a,b} is each of both, and text with <>
// or spaces is no path.
Faults path_faults(const std::filesystem::path& root, std::string_view path, std::string_view markdown);

// The fenced blocks of one language, without their fences.
std::vector<std::string> fenced_blocks(std::string_view markdown, std::string_view language);

// Absolute directories in generated text, which would make it differ between machines.
Faults machine_path_faults(std::string_view name, std::string_view generated);

// Files of the checkout below `directory` with one of these extensions (".h"), relative to `root`, sorted. A directory that
// does not exist has none.
std::vector<std::string> files_below(const std::filesystem::path& root, const std::string& directory,
                                     const std::vector<std::string>& extensions);

// The whole file; empty when it cannot be read.
std::string read_file(const std::filesystem::path& file);

}  // namespace tilewright_tests
