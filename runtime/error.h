// Errors of the library: one status code and one sentence that names the thing, what was seen and what was wanted.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

enum class Status : std::uint8_t {
  kInvalidArgument,   // bad input: description, shape, dtype, file, command line
  kUnsupported,       // valid, but not offered (yet); the message names what is
  kMissing,           // the machine lacks something: driver, GPU, NVRTC
  kCompileFailed,     // NVRTC refused generated source: a bug of ours, carries the log
  kDriver,            // a CUDA driver call failed
  kOutOfMemory,       // device memory
  kMismatch,          // a result differs from the reference
  kCorrupt,           // a stored file does not match its checksum
  kIo,                // reading or writing a file failed
  kCompileInCapture,  // a kernel would have to be built while the stream is being captured
  kKernelFault,       // a kernel on the CPU did what it must not: a wrong access, a race, a deadlock
  kInternal,          // a broken invariant of ours
};

llvm::StringRef status_name(Status status);

// The one error class of the library. Collected through llvm::Error / llvm::Expected.
class TilewrightError : public llvm::ErrorInfo<TilewrightError> {
 public:
  static char ID;
  TilewrightError(Status status, std::string message) : status_(status), message_(std::move(message)) {}
  Status status() const { return status_; }
  const std::string& text() const { return message_; }
  void log(llvm::raw_ostream& os) const override;
  std::error_code convertToErrorCode() const override;

 private:
  Status status_;
  std::string message_;
};

// The one place where errors are born (one breakpoint).
llvm::Error make_error_text(Status status, std::string message);

template <typename... Args>
llvm::Error make_error(Status status, fmt::format_string<Args...> format, Args&&... args) {
  return make_error_text(status, fmt::format(format, std::forward<Args>(args)...));
}

// Status and text of an error, consuming it. A foreign error is kInternal with its own message; several joined errors
// give the first status and all texts.
struct ErrorFacts {
  Status status;
  std::string message;
};
ErrorFacts take_error_facts(llvm::Error error);

// The same status with `prefix` in front of the text ("ops[3] (softmax): "). Success stays success.
llvm::Error prefix_error(llvm::Error error, llvm::StringRef prefix);

// The candidate nearest to `name` by edit distance, or "" when none is close: for "did you mean ...".
llvm::StringRef nearest_name(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates);

// The tail of an error message: `; did you mean "padding"?`, or "" when nothing is close.
std::string did_you_mean(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates);

}  // namespace tilewright

// llvm::StringRef prints as text in fmt.
template <>
struct fmt::formatter<llvm::StringRef> : fmt::formatter<fmt::string_view> {
  auto format(llvm::StringRef s, fmt::format_context& ctx) const {
    return fmt::formatter<fmt::string_view>::format(fmt::string_view(s.data(), s.size()), ctx);
  }
};
