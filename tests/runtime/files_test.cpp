#include "runtime/files.h"

#include <filesystem>
#include <fstream>

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

TEST_CASE("files: a file is replaced whole, and nothing is left beside it", "[runtime]") {
  const ScratchDirectory directory;
  const std::string path = directory.path("f");
  must(replace_file(path, "a longer text"));
  std::ifstream reader(path);
  must(replace_file(path, "new"));
  CHECK(must(read_file(path)) == "new");
  CHECK(std::string(std::istreambuf_iterator<char>(reader), {}) == "a longer text");  // whoever had opened it keeps the old bytes

  std::filesystem::create_symlink(path, directory.path("link"));
  must(replace_file(directory.path("link"), "by the link"));
  CHECK(must(read_file(path)) == "by the link");
  CHECK(std::filesystem::is_symlink(directory.path("link")));
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), std::filesystem::directory_iterator()) == 2);

  must(replace_file("/dev/null", "x"));
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(contains(failure_of(replace_file(directory.path("absent/f"), "x")).message, directory.path("absent/f")));
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
