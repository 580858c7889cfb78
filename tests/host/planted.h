// Small kernels with one planted bug each, and their twins without it, run by the executor alone.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/launch_recipe.h"

namespace tilewright::tests {

// extern "C" __global__ void kernel(Args args): in[64] and out[64] of i32, words[8] of u64 that are zero and must be left so. BUG is 0
// or 1. The launch has `blocks` blocks of `threads` threads and 256 bytes of dynamic shared memory.
struct Planted {
  const char* name;
  const char* body;       // of the kernel; i is the thread's number in its block
  const char* complaint;  // part of the report that the bug must cause
  unsigned threads = 64;
  unsigned blocks = 1;
};
llvm::ArrayRef<Planted> planted_bugs();

// The report of a run, "" when there is none.
std::string run_planted(const Planted& planted, bool bug, std::uint64_t seed, llvm::StringRef sanitize = "");

}  // namespace tilewright::tests
