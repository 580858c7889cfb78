#include "runtime/error.h"

#include <algorithm>
#include <limits>

#include "llvm/Support/raw_ostream.h"

namespace tilewright {

char TilewrightError::ID = 0;

llvm::StringRef status_name(Status status) {
  switch (status) {
    case Status::kInvalidArgument:
      return "invalid argument";
    case Status::kUnsupported:
      return "unsupported";
    case Status::kMissing:
      return "missing";
    case Status::kCompileFailed:
      return "compile failed";
    case Status::kDriver:
      return "driver";
    case Status::kOutOfMemory:
      return "out of memory";
    case Status::kMismatch:
      return "mismatch";
    case Status::kCorrupt:
      return "corrupt";
    case Status::kIo:
      return "io";
    case Status::kCompileInCapture:
      return "compile in capture";
    case Status::kKernelFault:
      return "kernel fault";
    case Status::kInternal:
      return "internal";
  }
  return "unknown";
}

void TilewrightError::log(llvm::raw_ostream& os) const { os << message_; }

std::error_code TilewrightError::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

llvm::Error make_error_text(Status status, std::string message) { return llvm::make_error<TilewrightError>(status, std::move(message)); }

ErrorFacts take_error_facts(llvm::Error error) {
  ErrorFacts facts{Status::kInternal, ""};
  bool first = true;
  const auto add = [&](Status status, const std::string& message) {
    if (first) facts.status = status;
    if (!first) facts.message += "; ";
    facts.message += message;
    first = false;
  };
  llvm::handleAllErrors(
      std::move(error), [&](const TilewrightError& e) { add(e.status(), e.text()); },
      [&](const llvm::ErrorInfoBase& e) { add(Status::kInternal, e.message()); });
  return facts;
}

llvm::Error prefix_error(llvm::Error error, llvm::StringRef prefix) {
  if (!error) return error;
  ErrorFacts facts = take_error_facts(std::move(error));
  return make_error_text(facts.status, prefix.str() + facts.message);
}

namespace {

// Insertions, deletions and replacements; letters in another order count one ("f23" for "f32").
unsigned name_distance(llvm::StringRef a, llvm::StringRef b, unsigned limit) {
  if (a.equals_insensitive(b)) return 0;
  std::string sorted_a = a.str();
  std::string sorted_b = b.str();
  std::sort(sorted_a.begin(), sorted_a.end());
  std::sort(sorted_b.begin(), sorted_b.end());
  return sorted_a == sorted_b ? 1 : a.edit_distance(b, true, limit + 1);
}

}  // namespace

llvm::StringRef nearest_name(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates) {
  llvm::StringRef best;
  unsigned best_distance = std::numeric_limits<unsigned>::max();
  for (const llvm::StringRef candidate : candidates) {
    // A guess that would have to change more than a third of the name is noise, not a hint.
    const auto limit = static_cast<unsigned>(std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3));
    const unsigned distance = name_distance(name, candidate, limit);
    if (distance > limit || distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string did_you_mean(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates) {
  const llvm::StringRef nearest = nearest_name(name, candidates);
  if (nearest.empty()) return "";
  return fmt::format("; did you mean \"{}\"?", nearest);
}

}  // namespace tilewright
