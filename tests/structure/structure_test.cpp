// Whether the source tree keeps what its documents promise. The first cases show each check failing on bad text.
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/structure/checks.h"

namespace fs = std::filesystem;
using tilewright_tests::Faults;

namespace {

const fs::path kRoot = TILEWRIGHT_SOURCE_DIR;
const std::vector<std::string> kSourceExtensions = {".h", ".hpp", ".cpp", ".c", ".cuh"};

std::string joined(const Faults& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

void add(Faults& all, const Faults& more) { all.insert(all.end(), more.begin(), more.end()); }

std::vector<std::string> sources() {
  std::vector<std::string> all;
  for (const char* directory : {"runtime", "ops", "codegen", "autotune", "tools", "templates", "tests", "examples"}) {
    const std::vector<std::string> some = tilewright_tests::files_below(kRoot, directory, kSourceExtensions);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<std::string> documents() {
  std::vector<std::string> all = tilewright_tests::files_below(kRoot, "docs", {".md"});
  for (const char* name : {"README.md", "CONTRIBUTING.md"}) {
    if (fs::exists(kRoot / name)) all.emplace_back(name);
  }
  return all;
}

}  // namespace

TEST_CASE("structure: the include check sees an upward include", "[structure]") {
  using tilewright_tests::include_faults;
  CHECK(include_faults("runtime/a.h", "#include \"ops/graph.h\"\n").size() == 1);
  CHECK(include_faults("runtime/a.h", "\n  #  include \"runtime/api/tilewright.h\"\n").size() == 1);
  CHECK(include_faults("ops/a.h", "#include \"codegen/plan.h\"").size() == 1);
  CHECK(include_faults("autotune/a.h", "#include \"tools/cli.h\"").size() == 1);
  CHECK(include_faults("runtime/api/a.cpp", "#include \"tools/cli.h\"").size() == 1);
  CHECK(
      include_faults("codegen/a.h", "#include \"ops/graph.h\"\n#include \"runtime/error.h\"\n#include \"llvm/ADT/StringRef.h\"\n").empty());
  CHECK(include_faults("runtime/api/a.cpp", "#include \"autotune/timer.h\"\n#include \"runtime/program.h\"").empty());
  CHECK(include_faults("tools/a.cpp", "#include \"autotune/timer.h\"\n#include \"runtime/api/tilewright.h\"").empty());
}

TEST_CASE("structure: the asm check sees asm and overlooks comments and strings", "[structure]") {
  using tilewright_tests::asm_faults;
  CHECK(asm_faults("templates/tilewright/row.cuh", "int f() {\n  asm volatile(\"nop;\");\n}") ==
        Faults{"templates/tilewright/row.cuh:2: asm belongs into templates/tilewright/ptx*.cuh"});
  CHECK(asm_faults("runtime/a.cpp", "__asm__(\"nop\");").size() == 1);
  CHECK(asm_faults("runtime/a.cpp", "char q = '\"'; asm(\"nop\");").size() == 1);
  CHECK(asm_faults("templates/tilewright/ptx.cuh", "asm(\"nop;\");").empty());
  CHECK(asm_faults("templates/tilewright/ptx_async.cuh", "asm(\"nop;\");").empty());
  CHECK(asm_faults("templates/tilewright/host/ptx_async.h", "asm(\"nop;\");").size() == 1);
  CHECK(asm_faults("runtime/a.cpp", "// asm\n/* asm */ const char* s = \"asm \\\" asm\"; int asm_count = 1'000;").empty());
  CHECK(asm_faults("runtime/a.cpp", "auto r = R\"x(asm \" asm)x\"; asm(\"nop\");").size() == 1);
}

TEST_CASE("structure: the path check sees a missing file", "[structure]") {
  const Faults faults = tilewright_tests::path_faults(kRoot, "docs/x.md",
                                                      "`runtime/error.h` `runtime/no_such.h` `runtime/{error,lost}.h` `ops/*.h` "
                                                      "`ops/*.nothing` `tests/` `tools/test dev` `a/b` `runtime/<x>.h`\n"
                                                      "[a](../LICENSE) [b](missing.md) [c](https://example.org/x) [d](#part)\n");
  CHECK(joined(faults) ==
        "docs/x.md:1: runtime/no_such.h does not exist\n"
        "docs/x.md:1: runtime/lost.h does not exist\n"
        "docs/x.md:1: ops/*.nothing does not exist\n"
        "docs/x.md:2: missing.md does not exist\n");
}

TEST_CASE("structure: fenced blocks are taken out whole", "[structure]") {
  const std::string text = "a\n```cpp\nint x;\n\nint y;\n```\n```sh\nls\n```\n```cpp\nz\n```\n";
  CHECK(tilewright_tests::fenced_blocks(text, "cpp") == std::vector<std::string>{"int x;\n\nint y;\n", "z\n"});
  CHECK(tilewright_tests::fenced_blocks(text, "json").empty());
}

TEST_CASE("structure: the machine-path check sees a directory", "[structure]") {
  CHECK(tilewright_tests::machine_path_faults("k", "// a/b\n#line 1 \"/usr/include/x.h\"\n") ==
        Faults{"k:2: generated text names /usr/include/x.h"});
  CHECK(tilewright_tests::machine_path_faults("k", "#include \"tilewright/row.cuh\"\nint x = a/b;\n").empty());
}

TEST_CASE("structure: includes go one way", "[structure]") {
  Faults faults;
  for (const std::string& file : sources()) add(faults, tilewright_tests::include_faults(file, tilewright_tests::read_file(kRoot / file)));
  INFO(joined(faults));
  CHECK(faults.empty());
}

TEST_CASE("structure: asm stands in ptx*.cuh alone", "[structure]") {
  Faults faults;
  for (const std::string& file : sources()) add(faults, tilewright_tests::asm_faults(file, tilewright_tests::read_file(kRoot / file)));
  INFO(joined(faults));
  CHECK(faults.empty());
}

TEST_CASE("structure: the public headers include the standard library alone", "[structure]") {
  for (const char* name : {"runtime/api/tilewright.h", "runtime/api/tilewright.hpp"}) {
    const std::string text = tilewright_tests::read_file(kRoot / name);
    INFO(name);
    REQUIRE(!text.empty());
    for (std::size_t at = text.find("#include \""); at != std::string::npos; at = text.find("#include \"", at + 1)) {
      CHECK(text.substr(at, text.find('\n', at) - at) == "#include \"tilewright.h\"");
    }
    for (const char* word : {"<llvm", "<fmt", "<cuda", "<Eigen", "<nvrtc"}) CHECK(text.find(word) == std::string::npos);
  }
}

TEST_CASE("structure: paths in the documents exist", "[structure]") {
  Faults faults;
  for (const std::string& file : documents()) {
    add(faults, tilewright_tests::path_faults(kRoot, file, tilewright_tests::read_file(kRoot / file)));
  }
  INFO(joined(faults));
  CHECK(faults.empty());
}

TEST_CASE("structure: the README's C++ stands in examples, which the tests build and run", "[structure]") {
  const std::string readme = tilewright_tests::read_file(kRoot / "README.md");
  std::vector<std::string> examples;
  for (const std::string& file : tilewright_tests::files_below(kRoot, "examples", {".cpp", ".c"})) {
    examples.push_back(tilewright_tests::read_file(kRoot / file));
  }
  for (const std::string& block : tilewright_tests::fenced_blocks(readme, "cpp")) {
    bool found = false;
    for (const std::string& example : examples) found = found || example.find(block) != std::string::npos;
    INFO("no file of examples/ contains this text of README.md:\n" << block);
    CHECK(found);
  }
}

#ifdef TILEWRIGHT_TOOL
TEST_CASE("structure: generated source names no directory of the machine", "[structure]") {
  const std::vector<std::string> descriptions = tilewright_tests::files_below(kRoot, "ops/descriptions", {".json"});
  for (const std::string& description : descriptions) {
    const std::string command =
        std::string(TILEWRIGHT_TOOL) + " show '" + (kRoot / description).string() + "' --target sm_90a --what source";
    std::string source;
    std::FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::array<char, 4096> buffer;
    for (std::size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) source.append(buffer.data(), got);
    INFO(command);
    CHECK(pclose(pipe) == 0);
    CHECK(source.find("extern \"C\" __global__") != std::string::npos);
    const Faults faults = tilewright_tests::machine_path_faults(description, source);
    INFO(joined(faults));
    CHECK(faults.empty());
  }
}
#endif
