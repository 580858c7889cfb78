// Child processes.
#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

struct ProcessOutput {
  int status = 0;    // exit status
  std::string text;  // stdout and stderr together
};

// Runs a program (a path, or a name looked for in PATH) to its end, stdin empty. Error kMissing: there is no such program; kIo: it could
// not be started, or was killed.
llvm::Expected<ProcessOutput> run_process(llvm::StringRef program, llvm::ArrayRef<llvm::StringRef> arguments);

}  // namespace tilewright
