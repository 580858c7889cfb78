// How the tool talks: commands, help, exit status.
#include "tests/tools/tool_process.h"

using namespace tilewright_tests;

TEST_CASE("usage: help names every command and the exit statuses", "[tools]") {
  const ToolRun run = run_tool({"--help"});
  CHECK(run.status == 0);
  CHECK(run.err.empty());
  for (const char* word : {"doctor", "ops", "show", "compile", "run", "bench", "cache", "Exit status", "TILEWRIGHT_CACHE_DIR"}) {
    INFO(word);
    CHECK(contains(run.out, word));
  }
}

TEST_CASE("usage: every command has a help text with its options", "[tools]") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> commands = {
      {"doctor", {"--json"}},
      {"ops", {"NAME", "--json"}},
      {"show", {"FILE", "--what", "--target", "--config", "--dim", "--json"}},
      {"compile", {"FILE", "--target", "-j", "--json"}},
      {"run", {"FILE", "--on", "--device", "--dim", "--seed", "--input", "--output", "--no-reference", "--json"}},
      {"bench", {"FILE", "--protocol", "--dim", "--case", "--low", "--high", "--cold", "--json"}},
      {"cache", {"ls", "info", "verify"}},
  };
  for (const auto& [command, options] : commands) {
    const ToolRun run = run_tool({command, "--help"});
    INFO(command << ": " << run.out << run.err);
    CHECK(run.status == 0);
    for (const std::string& option : options) {
      INFO(option);
      CHECK(contains(run.out, option));
    }
  }
}

TEST_CASE("usage: the version is one line", "[tools]") {
  const ToolRun run = run_tool({"--version"});
  CHECK(run.status == 0);
  CHECK(run.out.rfind("tilewright ", 0) == 0);
  CHECK(run.out.find('\n') == run.out.size() - 1);
}

TEST_CASE("usage: an unknown command is named with the nearest one", "[tools]") {
  check_failure(run_tool({"shwo", "x.json"}), 2, {"unknown command 'shwo'", "did you mean 'show'?"});
  check_failure(run_tool({"optimize", "x.json"}), 2, {"unknown command 'optimize'", "bench", "tune", "records"});
  check_failure(run_tool({}), 2, {"no command given"});
}

TEST_CASE("usage: unknown options and missing operands are refused", "[tools]") {
  check_failure(run_tool({"show"}), 2, {"FILE"});
  check_failure(run_tool({"doctor", "--loud"}), 2, {"--loud"});
  check_failure(run_tool({"bench", "x.json", "--protocol", "mine"}), 2, {"mine"});
  check_failure(run_tool({"cache"}), 2, {"subcommand"});
}

TEST_CASE("usage: a name given twice is refused", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  check_failure(run_tool({"show", file, "--what", "plan", "--dim", "N=3", "--dim", "N=4"}), 2, {"--dim N=4", "'N' is given twice"});
  check_failure(run_tool({"run", file, "--on", "reference", "--dim", "N=3,N=3"}), 2, {"'N' is given twice"});
  const std::string out = scratch.path("out");
  REQUIRE(run_tool({"run", file, "--on", "reference", "--dim", "N=40", "--output", out}).status == 0);
  const std::string x = "x=" + out + "/y.npy";
  CHECK(run_tool({"run", file, "--on", "reference", "--dim", "N=40", "--input", x}).status == 0);
  check_failure(run_tool({"run", file, "--on", "reference", "--dim", "N=40", "--input", x, "--input", x}), 2,
                {"--input", "'x' is given twice"});
}

TEST_CASE("usage: bench --cold refuses by name what it does not use", "[tools]") {
  ScratchDirectory scratch;
  const std::string file = scratch.write("d.json", kSoftmax);
  const std::vector<std::vector<std::string>> refused = {
      {"--protocol", "kernelbot"}, {"--case", "N=3"}, {"--seed", "2"}, {"--low", "0"}, {"--high", "2"}, {"--config", "{}"}, {"--no-fuse"}};
  for (const std::vector<std::string>& option : refused) {
    std::vector<std::string> arguments = {"bench", "--cold", file};
    arguments.insert(arguments.end(), option.begin(), option.end());
    check_failure(run_tool(arguments), 2, {"--cold", option[0]});
  }
  check_failure(run_tool({"bench", file, "--repeats", "3"}), 2, {"--repeats", "--cold"});
  check_failure(run_tool({"bench", file, "--target", "sm_90a"}), 2, {"--target", "--cold"});
  if (has_nvrtc()) CHECK(run_tool({"bench", "--cold", "--repeats", "1", "--target", "sm_90a", file}).status == 0);
}

TEST_CASE("usage: ops lists and explains operators", "[tools]") {
  CHECK(contains(run_tool({"ops"}).out, "cross_entropy"));
  CHECK(contains(run_tool({"ops", "conv"}).out, "dilation"));
  CHECK(contains(run_tool({"ops", "map"}).out, "gelu"));
  CHECK(contains(run_tool({"ops", "gelu_tanh"}).out, "gelu_tanh"));
  check_failure(run_tool({"ops", "sofmax"}), 2, {"unknown operator or function 'sofmax'", "did you mean 'softmax'?"});
  check_failure(run_tool({"ops", "recipcal"}), 2, {"'recipcal'", "did you mean 'reciprocal'?"});
  check_failure(run_tool({"ops", "transpose"}), 2, {"'transpose'", "operators are conv, reduce"});
  CHECK(json_of(run_tool({"ops", "--json"})).getArray("operators") != nullptr);
  CHECK(json_of(run_tool({"ops", "conv", "--json"})).getString("name") == llvm::StringRef("conv"));
}

TEST_CASE("usage: a full stdout is an error", "[tools]") {
  const int status = std::system((std::string(TILEWRIGHT_TOOL) + " --help >/dev/full 2>/dev/null").c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
}
