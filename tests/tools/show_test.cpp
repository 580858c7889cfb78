// What show, compile and cache print.
#include <filesystem>

#include "tests/tools/tool_process.h"

using namespace tilewright_tests;

TEST_CASE("show: the source is the same from every directory and in every locale", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kTwoKernels);
  const std::vector<std::string> arguments{"show", file, "--what", "source", "--target", "sm_90a"};
  const ToolRun first = run_tool(arguments, {{"LC_ALL", "C"}});
  REQUIRE(first.status == 0);
  CHECK(contains(first.out, "extern \"C\" __global__"));
  CHECK(contains(first.out, "// kernel 2 of 2: "));
  CHECK_FALSE(contains(first.out, scratch.path()));
  CHECK(run_tool(arguments, {{"LC_ALL", "de_DE.UTF-8"}, {"TZ", "Asia/Tokyo"}}, "/tmp").out == first.out);
  ScratchDirectory other;
  CHECK(run_tool({"show", "copy.json", "--what", "source", "--target", "sm_90a"}, {},
                 std::filesystem::path(other.write("copy.json", kTwoKernels)).parent_path())
            .out == first.out);
}

TEST_CASE("show: the plan names kernels, template and floor", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kTwoKernels);
  const ToolRun run = run_tool({"show", file});
  CHECK(run.status == 0);
  CHECK(contains(run.out, "2 kernels"));
  CHECK(contains(run.out, "floor"));
  const llvm::json::Object json = json_of(run_tool({"show", file, "--json", "--target", "sm_100a"}));
  CHECK(json.getArray("kernels")->size() == 2);
  CHECK(json.getString("target") == llvm::StringRef("sm_100a"));
  // Two tensors of 8 x 16 floats.
  CHECK(json.getObject("floor")->getInteger("bytes") == 1024);
}

TEST_CASE("show: --dim changes the launch, not the source", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const ToolRun three = run_tool({"show", file, "--what", "source", "--target", "sm_90a"});
  CHECK(run_tool({"show", file, "--what", "source", "--target", "sm_90a", "--dim", "N=64"}).out == three.out);
  CHECK(json_of(run_tool({"show", file, "--json", "--dim", "N=64"})).getObject("floor")->getInteger("bytes") == 2 * 64 * 40 * 4);
  CHECK(json_of(run_tool({"show", file, "--json", "--dim", "N=0"})).getObject("floor")->getInteger("bytes") == 0);
}

TEST_CASE("show: the stages of the compiler", "[tools]") {
  if (!has_nvrtc()) return;
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const auto show = [&](const std::string& what) { return run_tool({"show", file, "--target", "sm_90a", "--json", "--what", what}); };
  const llvm::json::Object ptx = json_of(show("ptx"));
  CHECK((*ptx.getArray("kernels"))[0].getAsObject()->getString("ptx")->contains(".entry"));
  const llvm::json::Object cubin = json_of(show("cubin"));
  CHECK(*(*cubin.getArray("kernels"))[0].getAsObject()->getInteger("registers") > 0);
  const llvm::json::Object key = json_of(show("key"));
  const llvm::json::Object* kernel = (*key.getArray("kernels"))[0].getAsObject();
  CHECK(kernel->getString("key")->size() == 64);
  for (const char* ingredient : {"source", "target", "nvrtc", "options", "build"}) {
    INFO(ingredient);
    CHECK(kernel->getObject("ingredients")->get(ingredient) != nullptr);
  }
}

TEST_CASE("show: without a disassembler sass names what it looked for", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  if (std::filesystem::exists("/usr/local/cuda/bin/cuobjdump") || std::filesystem::exists("/usr/local/cuda/bin/nvdisasm")) return;
  check_failure(run_tool({"show", file, "--what", "sass", "--target", "sm_90a"}, {{"PATH", scratch.path()}}), 3, {"cuobjdump", "nvdisasm"});
}

TEST_CASE("compile: fills a store once, for both targets", "[tools]") {
  if (!has_nvrtc()) return;
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kTwoKernels);
  const Environment environment{{"TILEWRIGHT_CACHE_DIR", scratch.path("store")}};
  const auto origins = [&] {
    const llvm::json::Object json = json_of(run_tool({"compile", file, "--target", "sm_90a,sm_100a", "-j", "2", "--json"}, environment));
    std::vector<std::string> result;
    for (const llvm::json::Value& kernel : *json.getArray("kernels")) result.push_back(kernel.getAsObject()->getString("origin")->str());
    return result;
  };
  CHECK(origins() == std::vector<std::string>(4, "compiled"));
  CHECK(origins() == std::vector<std::string>(4, "directory"));

  const llvm::json::Object listing = json_of(run_tool({"cache", "ls", "--json"}, environment));
  REQUIRE(listing.getArray("entries")->size() == 4);
  const llvm::json::Object& entry = *(*listing.getArray("entries"))[0].getAsObject();
  const std::string key = entry.getString("key")->str(), path = entry.getString("path")->str();
  CHECK(json_of(run_tool({"cache", "info", key.substr(0, 16), "--json"}, environment)).getString("key") == llvm::StringRef(key));
  CHECK(json_of(run_tool({"cache", "verify", "--json"}, environment)).getArray("problems")->empty());
  check_failure(run_tool({"cache", "info", "zzzz"}, environment), 2, {"zzzz"});

  std::string bytes = file_text(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  const ToolRun verify = run_tool({"cache", "verify"}, environment);
  CHECK(verify.status == 1);
  CHECK(contains(verify.out, path));
  CHECK(contains(verify.err, "tilewright: error: 1 of 4 entries"));
}

TEST_CASE("compile: PTX has no registers to show", "[tools]") {
  if (!has_nvrtc()) return;
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const ToolRun compile = run_tool({"compile", file, "--target", "compute_90,sm_90a"});
  const std::string::size_type second = compile.out.find('\n') + 1;
  CHECK(contains(compile.out.substr(0, second), " PTX "));
  CHECK_FALSE(contains(compile.out.substr(0, second), "registers"));
  CHECK(contains(compile.out.substr(second), " registers, no spills"));
  const ToolRun show = run_tool({"show", file, "--what", "cubin", "--target", "compute_90"});
  CHECK(show.status == 0);
  CHECK(contains(show.out, "PTX of "));
  CHECK_FALSE(contains(show.out, "registers 0"));
  const llvm::json::Object json = json_of(run_tool({"show", file, "--what", "cubin", "--target", "compute_90", "--json"}));
  CHECK((*json.getArray("kernels"))[0].getAsObject()->get("registers") == nullptr);
}

TEST_CASE("bench: cold start is measured without a GPU up to the cubin", "[tools]") {
  if (!has_nvrtc()) return;
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const llvm::json::Object json =
      json_of(run_tool({"bench", "--cold", file, "--repeats", "1", "--target", "sm_90a", "--json", "-"}, without_driver()));
  CHECK(*json.getObject("empty_store")->getNumber("nvrtc_total") > 0);
  CHECK(*json.getObject("warm_store")->getNumber("nvrtc_total") == 0);
  CHECK(*json.getObject("warm_store")->getNumber("total") > 0);
  CHECK(json.getObject("empty_store")->getBoolean("launched") == false);
  check_failure(run_tool({"bench", "--cold", file, "--repeats", "1", "--target", "sm_90a"}, without_nvrtc()), 3,
                {"/nonexistent/libnvrtc.so"});
}
