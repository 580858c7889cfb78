#include "codegen/embedded_templates.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/catch.h"

namespace fs = std::filesystem;

TEST_CASE("embedded_templates: every template is there, byte for byte and sorted", "[codegen]") {
  const fs::path root = fs::path(TILEWRIGHT_SOURCE_DIR) / "templates";
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "tilewright")) {
    if (entry.path().extension() == ".cuh") ++files;
  }
  CHECK(files > 0);
  CHECK(tilewright::embedded_templates().size() == files);

  std::string previous;
  for (const tilewright::EmbeddedFile& file : tilewright::embedded_templates()) {
    INFO(file.name.str());
    CHECK(previous < file.name.str());
    previous = file.name.str();
    std::ifstream stream(root / file.name.str(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    CHECK(file.text.str() == text);
    CHECK(file.text.data()[file.text.size()] == '\0');
    CHECK(file.name.data()[file.name.size()] == '\0');
  }
}

TEST_CASE("embedded_templates: the build identity is a SHA-256", "[codegen]") {
  const std::string identity = tilewright::build_identity().str();
  CHECK(identity.size() == 64);
  CHECK(identity.find_first_not_of("0123456789abcdef") == std::string::npos);
}
