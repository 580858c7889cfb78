// What several tests of runtime/ need: environment values that come back, errors as values, the log as a list.
#pragma once

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "llvm/Support/FileSystem.h"
#include "runtime/error.h"
#include "runtime/log.h"
#include "tests/catch.h"
#include "tests/scratch.h"

namespace tilewright_tests {

using tilewright::tests::file_text;
using tilewright::tests::ScratchDirectory;

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

inline std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(directory, error), end; it != end && !error; it.increment(error)) names.push_back(it->path());
  return names;
}

}  // namespace tilewright_tests
