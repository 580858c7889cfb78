// Where candidates run: the GPUs of this machine, or its CPU with simulated times.
#pragma once

#include <string>
#include <vector>

#include "autotune/prune.h"
#include "llvm/Support/JSON.h"
#include "runtime/artifact.h"
#include "runtime/target.h"
#include "tools/tune_options.h"

namespace tilewright::cli {

struct Place {
  int ordinal = 0;
  std::string device;  // its model: "NVIDIA H200"
  Target target;
  DeviceRates rates;
  llvm::json::Object environment;  // what a record says of it
};

// The places that --device names, in that order. Errors: kInvalidArgument for a list that cannot be read or names one twice; kMissing
// without driver, NVRTC or such a device.
llvm::Expected<std::vector<Place>> find_places(const TuneCommand& options, Builder& builder);

// Places of one model, which share that model's problems, as indices. In order of their first.
std::vector<std::vector<std::size_t>> models_of(llvm::ArrayRef<Place> places);

}  // namespace tilewright::cli
