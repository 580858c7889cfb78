// What a process makes once and keeps. Private to the library and the tool.
#pragma once

#include <optional>
#include <utility>

#include "llvm/Support/Error.h"
#include "runtime/error.h"

namespace tilewright {

// A value, or the error of making it as plain facts, so that it can be given again.
template <typename Value>
class MadeOnce {
 public:
  explicit MadeOnce(llvm::Expected<Value> made) {
    if (made) {
      value_ = std::move(*made);
    } else {
      failure_ = take_error_facts(made.takeError());
    }
  }
  llvm::Expected<const Value&> get() const {
    if (!value_) return make_error_text(failure_.status, failure_.message);
    return *value_;
  }

 private:
  std::optional<Value> value_;
  ErrorFacts failure_{Status::kInternal, ""};
};

}  // namespace tilewright
