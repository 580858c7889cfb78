#include "autotune/proc_facts.h"

#include "runtime/error.h"
#include "runtime/files.h"

namespace tilewright {
namespace {

// The line "NAME:   1234 kB" of a file in /proc, in bytes; 0 where there is none.
std::uint64_t proc_bytes(llvm::StringRef path, llvm::StringRef name) {
  auto text = read_file(path);
  if (!text) {
    llvm::consumeError(text.takeError());
    return 0;
  }
  const llvm::StringRef all = *text;
  const std::size_t at = all.find(name);
  if (at == llvm::StringRef::npos) return 0;
  llvm::StringRef number = all.substr(at + name.size()).ltrim(": \t");
  std::uint64_t kilobytes = 0;
  return number.consumeInteger(10, kilobytes) ? 0 : kilobytes << 10;
}

}  // namespace

std::uint64_t peak_memory(int process) { return proc_bytes(fmt::format("/proc/{}/status", process), "VmHWM"); }

std::uint64_t available_memory() { return proc_bytes("/proc/meminfo", "MemAvailable"); }

}  // namespace tilewright
