#include "runtime/log.h"

#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

TEST_CASE("log: messages above the level are not made", "[runtime]") {
  LogCapture capture(LogLevel::kWarning);
  CHECK(log_enabled(LogLevel::kError));
  CHECK_FALSE(log_enabled(LogLevel::kInfo));
  log(LogLevel::kInfo, "unseen {}", 1);
  log(LogLevel::kWarning, "seen {}", 2);
  CHECK(capture.messages() == std::vector<std::string>{"seen 2"});
}

TEST_CASE("log: an empty callback turns it off", "[runtime]") {
  set_log(LogLevel::kDebug, {});
  CHECK_FALSE(log_enabled(LogLevel::kError));
}
