// A Chromium without a window, for looking at pages.
#pragma once

#include <string>

namespace tilewright_tests {

// Path of the program, "" when none is installed.
std::string find_browser();

enum class Scheme : std::uint8_t { kLight, kDark };

// What the page wrote into its element "verdict": the page is loaded from a file in a window of that width, and `script` runs in it once it
// is there. Names cannot be resolved meanwhile. The page's own policy is taken out, so that nothing but the page keeps it from loading
// more.
std::string run_in_page(const std::string& page, const std::string& script, int width, Scheme scheme);

}  // namespace tilewright_tests
