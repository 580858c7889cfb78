// A spawned process that answers lines with lines of JSON: where what may crash or hang is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "autotune/candidate.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace tilewright {

enum class LineRead : std::uint8_t { kLine, kEnd, kLate };

// The side that asks. Not thread-safe, but for kill() and process().
class HelperProcess {
 public:
  HelperProcess() = default;
  ~HelperProcess() { stop(); }
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  // Starts `program` (absolute path) in a process group of its own, so that an interrupt from the terminal is the caller's to handle.
  // Error kIo: it cannot be started.
  llvm::Error spawn(const std::string& program, llvm::ArrayRef<std::string> arguments);
  // Waits for its greeting. Why it can do no work, and then it is gone; "" where it can. Error kCorrupt: it greets otherwise.
  llvm::Expected<std::string> greet(double limit_s);
  // One request and its answer, a line. kEnd: it is gone or about to be (wait_for_end()); kLate: it is still at work.
  LineRead ask(llvm::json::Object request, std::string& answer, double limit_s);
  // Ends it and all it started, and waits until it is gone. Says what ended it: "signal 9 (Killed)", "exit status 7"; "" for none.
  std::string stop();
  // The same of one that ends by itself.
  std::string wait_for_end();
  // Ends it and all it started without waiting, from any thread.
  void kill();
  int process() const { return pid_; }  // -1: none
  bool running() const;                 // false: none, or it has ended

 private:
  std::mutex mutex_;  // a process id is not killed while it is given back
  std::atomic<int> pid_ = -1;
  int socket_ = -1;
  std::string buffer_;
};

// The side that answers: greets on `out`, then answers the requests on `in` until it ends. A request is an object with a "config"; an error
// of `answer` is sent in its place. A request that this cannot read ends it: error kCorrupt. Both files stay the caller's.
llvm::Error serve_requests(
    int in, int out,
    llvm::function_ref<llvm::Expected<llvm::json::Object>(const llvm::json::Object& request, const ConfigOverrides& config)> answer);
// Greets with why nothing can be done here.
void refuse_requests(llvm::StringRef reason, int out);
// Sees to it that this process is killed when the thread that started it ends, and ignores interrupts: the parent decides what they end.
void become_helper();

}  // namespace tilewright
