// The parts of the tool that need no process.
#include "tools/cli.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

using namespace tilewright;
using namespace tilewright::cli;

TEST_CASE("cli: every status has its exit status", "[tools]") {
  CHECK(exit_status(Status::kInvalidArgument) == 2);
  CHECK(exit_status(Status::kUnsupported) == 2);
  CHECK(exit_status(Status::kIo) == 2);
  CHECK(exit_status(Status::kMissing) == 3);
  CHECK(exit_status(Status::kOutOfMemory) == 3);
  CHECK(exit_status(Status::kMismatch) == 1);
  CHECK(exit_status(Status::kCorrupt) == 1);
  CHECK(exit_status(Status::kCompileFailed) == 1);
  CHECK(exit_status(Status::kDriver) == 1);
  CHECK(exit_status(Status::kCompileInCapture) == 1);
  CHECK(exit_status(Status::kKernelFault) == 1);
  CHECK(exit_status(Status::kInternal) == 1);
}

TEST_CASE("cli: sizes and times have units", "[tools]") {
  CHECK(bytes_text(17) == "17 B");
  CHECK(bytes_text(1500) == "1.5 KB");
  CHECK(bytes_text(2.5e9) == "2.5 GB");
  CHECK(time_text(12.345) == "12.35 us");
  CHECK(time_text(4560) == "4.56 ms");
  CHECK(time_text(1.2e6) == "1.20 s");
  CHECK(count_text(1, "kernel") == "1 kernel");
  CHECK(count_text(2, "kernel") == "2 kernels");
}

TEST_CASE("cli: JSON spells NaN and infinity as null", "[tools]") {
  CHECK(json_text(llvm::json::Array{json_number(1.5), json_number(NAN), json_number(INFINITY)}) == "[\n  1.5,\n  null,\n  null\n]\n");
  CHECK(json_text(json_count(std::numeric_limits<std::uint64_t>::max())) != json_text(-1));
}
