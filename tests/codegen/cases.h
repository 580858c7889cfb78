// Descriptions that together reach every template, dtype, broadcast form and fusion; shared by the compile tests and the GPU tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tilewright {

struct DescriptionCase {
  std::string name;
  std::string json;
  bool unfused = false;                             // plan with one kernel per op
  bool seed_like = false;                           // large: compiled for fewer targets
  std::map<std::string, std::int64_t> config = {};  // tile parameters of the fused plan that a target with wgmma has
};

// Those whose names contain TILEWRIGHT_TEST_CASES, where it is set.
const std::vector<DescriptionCase>& description_cases();

}  // namespace tilewright
