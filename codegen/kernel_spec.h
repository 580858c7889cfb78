// One kernel as data: template, config, hooks, parameters and launch. Emitting it gives the translation unit NVRTC compiles.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/launch_recipe.h"

namespace tilewright {

struct KernelSpec {
  std::string header;                                       // "tilewright/row.cuh"
  std::string function;                                     // "tw::row"
  std::string config_type;                                  // "tw::RowConfig"
  std::vector<std::pair<std::string, std::string>> config;  // field and C++ value, in declaration order
  std::string hooks;                                        // the whole `struct Hooks { ... };`
  std::string title;                                        // one line for the header comment: what the kernel computes
  std::string why;                                          // why this template, from the plan
  std::vector<std::string> assertions;                      // further static_asserts that tie host and device, one line each
  unsigned min_blocks_per_sm = 0;                           // second operand of __launch_bounds__, 0 = left out
  KernelLaunch launch;                                      // entry, grid, block, and params[0] = the template's args, params[1] = Hooks
};

// The translation unit. Deterministic: no path, time or address.
std::string emit(const KernelSpec& spec);

}  // namespace tilewright
