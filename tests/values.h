// What an Expected holds, or a failed test.
#pragma once

#include "runtime/error.h"
#include "tests/catch.h"

namespace tilewright::tests {

template <typename T>
T value_of(llvm::Expected<T> expected) {
  if (!expected) FAIL(take_error_facts(expected.takeError()).message);
  return std::move(*expected);
}

}  // namespace tilewright::tests
