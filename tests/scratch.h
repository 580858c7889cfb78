// Files of a test's own.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "runtime/files.h"
#include "tests/values.h"

namespace tilewright::tests {

// A directory that is removed at the end of the test.
class ScratchDirectory {
 public:
  ScratchDirectory() : directory_(value_of(TemporaryDirectory::make("tilewright-test"))) {}
  std::string path(const std::string& name = "") const { return name.empty() ? directory_.path() : directory_.file(name); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  TemporaryDirectory directory_;
};

// "" where there is no such file.
inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace tilewright::tests
