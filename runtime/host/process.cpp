#include "runtime/host/process.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"

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
  auto text = read_whole_file(log.str().str());
  llvm::sys::fs::remove(log);
  if (!text) return text.takeError();
  if (status < 0) return make_error(Status::kIo, "{}: {}", program, message);
  return ProcessOutput{status, std::move(*text)};
}

llvm::Error write_whole_file(const std::string& path, llvm::StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error) {
    os << bytes;
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (error) return make_error(Status::kIo, "cannot write {}: {}", path, error.message());
  return llvm::Error::success();
}

llvm::Expected<std::string> read_whole_file(const std::string& path) {
  // As a stream: files of /proc say that they are empty.
  auto buffer = llvm::MemoryBuffer::getFileAsStream(path);
  if (!buffer) return make_error(Status::kIo, "cannot read {}: {}", path, buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

}  // namespace tilewright
