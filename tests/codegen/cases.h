// Descriptions that together reach every template, dtype, broadcast form and fusion; shared by the compile tests and the GPU tests.
#pragma once

#include <string>
#include <vector>

namespace tilewright {

struct DescriptionCase {
  std::string name;
  std::string json;
  bool unfused = false;    // plan with one kernel per op
  bool seed_like = false;  // large: compiled for fewer targets
};

const std::vector<DescriptionCase>& description_cases();

}  // namespace tilewright
