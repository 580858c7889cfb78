// Small kernels over asynchronous copies, mbarriers, clusters and wgmma with one planted bug each, and their twins without it.
#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/tensor_map.h"

namespace tilewright::tests {

// The body of a kernel that sets out[k] = in[k] for each of its threads, numbered through all blocks by k; i is the thread's number in its
// block. BUG is 0 or 1. in and out are [32, 32] of i32, in_map and out_map describe them with boxes of 8 rows and `box_columns`. s is 16
// KiB of dynamic shared memory, aligned to 1024 bytes, b two words of it past the first 12 KiB for mbarriers.
struct AsyncPlanted {
  const char* name;
  const char* body;
  const char* complaint;  // alternatives, one of which the bug must cause: depends on the schedule
  unsigned threads = 64;
  unsigned cluster = 1;  // blocks, all of one cluster
  unsigned box_columns = 8;
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;
};
llvm::ArrayRef<AsyncPlanted> async_planted_bugs();
llvm::ArrayRef<AsyncPlanted> wgmma_planted_bugs();

// The report of a run, or what is wrong with its output; "" when nothing is.
std::string run_async_planted(const AsyncPlanted& planted, bool bug, std::uint64_t seed);

}  // namespace tilewright::tests
