#include "runtime/files.h"

#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

TEST_CASE("files: what is written is read, also over a longer file", "[runtime]") {
  const ScratchDirectory directory;
  const std::string bytes("a\0b\n", 4);
  for (const std::string& text : {bytes + bytes, bytes, std::string()}) {
    must(write_in_place(directory.path("f"), text));
    CHECK(must(read_file(directory.path("f"))) == text);
  }
}

TEST_CASE("files: a file of /proc is read although it has no size", "[runtime]") {
  CHECK(must(read_file("/proc/self/status")).find("VmRSS") != std::string::npos);
}

TEST_CASE("files: errors name the file", "[runtime]") {
  const ScratchDirectory directory;
  const std::string absent = directory.path("absent/f");
  for (const ErrorFacts& facts :
       {failure_of(read_file(absent)), failure_of(write_in_place(absent, "x")), failure_of(read_file(directory.path()))}) {
    CHECK(facts.status == Status::kIo);
    CHECK(contains(facts.message, directory.path()));
  }
  CHECK(failure_of(write_in_place("/dev/full", "x")).status == Status::kIo);
}

TEST_CASE("files: a temporary directory goes with its contents, once it has an end", "[runtime]") {
  std::string path;
  {
    TemporaryDirectory last;
    {
      TemporaryDirectory first = must(TemporaryDirectory::make("tilewright-test"));
      path = first.path();
      must(write_in_place(first.file("f"), "x"));
      last = std::move(first);
    }
    CHECK(llvm::sys::fs::exists(path + "/f"));
    CHECK(last.path() == path);
  }
  CHECK_FALSE(llvm::sys::fs::exists(path));
}
