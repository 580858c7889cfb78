// A whole search over planted candidates, in a helper process.
#pragma once

#include <string>

#include "tests/planted/planted.h"

namespace tilewright::tests {

// Every plant ends as it should and is named in the report, every other config is measured, and one of those is the winner. Failed CHECKs
// say what is not so. `helper`: path of planted_helper.
void check_planted_search(Place place, const Target& target, const std::string& helper);

}  // namespace tilewright::tests
