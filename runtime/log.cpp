#include "runtime/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace tilewright {
namespace {

constexpr int kOff = -1;
constexpr int kUnread = -2;  // the environment has not been looked at yet

// Constant-initialised, so that a message may be logged at any time of the process's life.
constinit std::atomic<int> max_level{kUnread};
constinit std::mutex callback_mutex;

LogCallback& callback() {
  static auto* instance = new LogCallback;  // never destroyed: threads may log while the process exits
  return *instance;
}

void log_to_stderr(LogLevel level, llvm::StringRef message) {
  const std::string line = fmt::format("tilewright: {}: {}\n", log_level_name(level), message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int level_of_environment() {
  const char* text = std::getenv("TILEWRIGHT_LOG");
  const llvm::StringRef value = text ? llvm::StringRef(text) : llvm::StringRef();
  if (value.empty() || value == "0") return kOff;
  for (int level = 0; level <= static_cast<int>(LogLevel::kDebug); ++level) {
    if (value.equals_insensitive(log_level_name(static_cast<LogLevel>(level)))) return level;
  }
  return static_cast<int>(LogLevel::kInfo);
}

int read_level() {
  int level = max_level.load(std::memory_order_acquire);
  if (level != kUnread) return level;
  const std::lock_guard lock(callback_mutex);
  level = max_level.load(std::memory_order_acquire);
  if (level != kUnread) return level;
  level = level_of_environment();
  if (level != kOff) callback() = log_to_stderr;
  max_level.store(level, std::memory_order_release);
  return level;
}

}  // namespace

llvm::StringRef log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "unknown";
}

void set_log(LogLevel level, LogCallback new_callback) {
  const std::lock_guard lock(callback_mutex);
  max_level.store(new_callback ? static_cast<int>(level) : kOff, std::memory_order_release);
  callback() = std::move(new_callback);
}

bool log_enabled(LogLevel level) { return static_cast<int>(level) <= read_level(); }

void log_text(LogLevel level, llvm::StringRef message) {
  if (!log_enabled(level)) return;
  const std::lock_guard lock(callback_mutex);
  if (callback()) callback()(level, message);
}

}  // namespace tilewright
