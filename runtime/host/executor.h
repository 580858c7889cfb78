// Runs one launch of a kernel on the CPU with CUDA's execution model, and looks for what a kernel must not do.
#pragma once

#include "llvm/Support/Error.h"
#include "runtime/host/launch_state.h"

namespace tilewright {

// Runs all blocks; returns when the last has ended. Error kKernelFault: what a thread did wrong, which thread of which block, and where in
// the source; also a deadlock and a time limit passed. kOutOfMemory: no memory for the stacks; kUnsupported: more than 1024 threads a
// block. A fault of the processor itself (an access that nothing checks) ends the process: callers that cannot have this run in a child.
llvm::Error execute(const KernelObject& object, const HostLaunch& launch, GlobalMemory& memory, const ExecuteOptions& options);

// "kernel k, block (0, 0, 0), thread (5, 0, 0)" of the thread that runs on the calling OS thread, "" when none does. For signal handlers.
void describe_current_thread(char* text, std::size_t size);

}  // namespace tilewright
