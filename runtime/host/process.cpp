#include "runtime/host/process.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "runtime/error.h"
#include "runtime/files.h"

namespace tilewright {

llvm::Expected<ProcessOutput> run_process(llvm::StringRef program, llvm::ArrayRef<llvm::StringRef> arguments) {
  auto path = llvm::sys::findProgramByName(program);
  if (!path || !llvm::sys::fs::can_execute(*path)) return make_error(Status::kMissing, "{} is not a program that is installed", program);
  llvm::SmallString<128> log;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile("tilewright", "log", log))
    return make_error(Status::kIo, "cannot make a temporary file: {}", error.message());
  llvm::SmallVector<llvm::StringRef, 32> argv{program};
  argv.append(arguments.begin(), arguments.end());
  const std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), log.str(), log.str()};
  std::string message;
  const int status = llvm::sys::ExecuteAndWait(*path, argv, std::nullopt, redirects, 0, 0, &message);
  auto text = read_file(log);
  llvm::sys::fs::remove(log);
  if (!text) return text.takeError();
  if (status < 0) return make_error(Status::kIo, "{}: {}", program, message);
  return ProcessOutput{status, std::move(*text)};
}

}  // namespace tilewright
