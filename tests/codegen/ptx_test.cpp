// Every function of the headers that hold asm goes through the real compiler.
#include <fstream>
#include <regex>
#include <sstream>

#include "codegen/compile.h"
#include "runtime/error.h"
#include "runtime/nvrtc.h"
#include "tests/catch.h"

using namespace tilewright;

namespace {

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(std::string(TILEWRIGHT_SOURCE_DIR) + "/" + file).rdbuf();
  return text.str();
}

// The kernels in `file` compile for sm_90a and name every function of `header`.
void check_header(const std::string& header, const std::string& file) {
  const std::string source = text_of(file), declarations = text_of(header);
  static const std::regex kFunction(R"(\n__device__ __forceinline__ \w+\*? (\w+)\()");
  for (auto it = std::sregex_iterator(declarations.begin(), declarations.end(), kFunction); it != std::sregex_iterator(); ++it) {
    INFO(it->str(1));
    const bool helper = it->str(1) == "shared_address";
    CHECK((helper || std::regex_search(source, std::regex("ptx::" + it->str(1) + "\\b"))));
  }
  auto nvrtc = Nvrtc::find();
  if (!nvrtc) {
    WARN("skipped: " << take_error_facts(nvrtc.takeError()).message);
    return;
  }
  auto compiled = (*nvrtc)->compile(source, file, template_headers(), Target{});
  if (!compiled) FAIL(take_error_facts(compiled.takeError()).message);
  INFO(compiled->log);
  CHECK(compiled->log.find("warning") == std::string::npos);
  CHECK(compiled->binary.size() > 1000);
}

}  // namespace

TEST_CASE("ptx_async: every function compiles to machine code for sm_90a", "[codegen][nvrtc]") {
  check_header("templates/tilewright/ptx_async.cuh", "tests/codegen/ptx_async_uses.cu");
}

TEST_CASE("ptx_wgmma: every function compiles to machine code for sm_90a", "[codegen][nvrtc]") {
  check_header("templates/tilewright/ptx_wgmma.cuh", "tests/codegen/ptx_wgmma_uses.cu");
}
