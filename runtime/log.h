// Log of the library: a callback, off by default. The library prints nothing else, ever.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/error.h"  // how fmt prints a StringRef: every unit that formats one must agree

namespace tilewright {

enum class LogLevel : int { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

// "error", "warning", "info", "debug".
llvm::StringRef log_level_name(LogLevel level);

using LogCallback = std::function<void(LogLevel level, llvm::StringRef message)>;

// Sends messages up to `max_level` to `callback`; an empty callback turns the log off. Thread-safe; calls of the callback are serialised,
// and it must not log or set the log itself. Until this is called, the environment decides: TILEWRIGHT_LOG=1 (info), or error, warning,
// info, debug, sends lines to stderr; unset, empty or 0 is silence.
void set_log(LogLevel max_level, LogCallback callback);

// True when a message of this level would reach somebody; costs one atomic load.
bool log_enabled(LogLevel level);

// Hands one message (no newline at its end) to the callback.
void log_text(LogLevel level, llvm::StringRef message);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_text(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tilewright
