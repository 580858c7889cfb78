// main of test_browser: where no Chromium is installed it exits with 77, which ctest counts as skipped.
#include <cstdio>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif
#include "tests/browser/browser.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  if (tilewright_tests::find_browser().empty()) {
    std::puts("no chromium, chromium-browser or google-chrome on the PATH: the tests in tests/browser are skipped");
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
