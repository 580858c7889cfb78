// The processes that `tilewright tune` starts: one in which candidates run, some in which they are compiled. Their commands are hidden.
#pragma once

#include <string>

#include "autotune/compile_worker.h"
#include "autotune/tester.h"
#include "runtime/files.h"
#include "tools/cli.h"
#include "tools/tune_options.h"

namespace tilewright::cli {

// How the helpers for a file are started: options.dims are values of its dimensions, options.device is the ordinal of the GPU.
HelperOptions tester_options(const TuneCommand& options, const std::string& file);
WorkerOptions worker_options(const TuneCommand& options, const std::string& file, const Target& target);

// Helpers exchange kernels through the store's directory. Where that cannot be written, this makes a temporary one the store of this
// process and of those it starts, with the other below it, and says so. The directory goes with what is returned. To be called before there
// are other threads. Error kIo: there can be no temporary directory either.
llvm::Expected<TemporaryDirectory> share_store();

// Options that tune shares with the helper in which candidates run.
void add_tune_common(CLI::App& app, TuneCommand& options);

}  // namespace tilewright::cli
