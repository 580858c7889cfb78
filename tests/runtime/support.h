// What several tests of runtime/ need: directories that vanish, environment values that come back, errors as values, the log as a list.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "runtime/error.h"
#include "runtime/log.h"
#include "tests/catch.h"
#include "tests/values.h"

namespace tilewright_tests {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    llvm::SmallString<128> path;
    REQUIRE(!llvm::sys::fs::createUniqueDirectory("tilewright-test", path));
    path_ = path.str().str();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { llvm::sys::fs::remove_directories(path_); }
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Sets (or, without a value, unsets) a variable until the end of the scope.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, std::optional<std::string> value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() { set(old_); }

 private:
  void set(const std::optional<std::string>& value) { value ? ::setenv(name_, value->c_str(), 1) : ::unsetenv(name_); }
  const char* name_;
  std::optional<std::string> old_;
};

class LogCapture {
 public:
  explicit LogCapture(tilewright::LogLevel level = tilewright::LogLevel::kWarning) {
    tilewright::set_log(level, [this](tilewright::LogLevel, llvm::StringRef message) {
      const std::lock_guard lock(mutex_);
      messages_.push_back(message.str());
    });
  }
  ~LogCapture() { tilewright::set_log(tilewright::LogLevel::kError, {}); }
  std::vector<std::string> messages() {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  bool contains(llvm::StringRef text) {
    for (const std::string& message : messages()) {
      if (llvm::StringRef(message).contains(text)) return true;
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

// The error of something that must have failed.
inline tilewright::ErrorFacts failure_of(llvm::Error error) {
  REQUIRE(static_cast<bool>(error));
  return tilewright::take_error_facts(std::move(error));
}
template <typename T>
tilewright::ErrorFacts failure_of(llvm::Expected<T> expected) {
  return failure_of(expected.takeError());
}

// Fails the test with the error's text.
inline void must(llvm::Error error) {
  if (error) FAIL(tilewright::take_error_facts(std::move(error)).message);
}
template <typename T>
T must(llvm::Expected<T> expected) {
  return tilewright::tests::value_of(std::move(expected));
}

inline bool contains(llvm::StringRef text, llvm::StringRef part) { return text.contains(part); }

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

inline std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(directory, error), end; it != end && !error; it.increment(error)) names.push_back(it->path());
  return names;
}

}  // namespace tilewright_tests
