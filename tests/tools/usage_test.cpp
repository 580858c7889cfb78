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
  check_failure(run_tool({"tune", "x.json"}), 2, {"unknown command 'tune'", "bench"});
  check_failure(run_tool({}), 2, {"no command given"});
}

TEST_CASE("usage: unknown options and missing operands are refused", "[tools]") {
  check_failure(run_tool({"show"}), 2, {"FILE"});
  check_failure(run_tool({"doctor", "--loud"}), 2, {"--loud"});
  check_failure(run_tool({"bench", "x.json", "--protocol", "mine"}), 2, {"mine"});
  check_failure(run_tool({"cache"}), 2, {"subcommand"});
}

TEST_CASE("usage: ops lists and explains operators", "[tools]") {
  CHECK(contains(run_tool({"ops"}).out, "cross_entropy"));
  CHECK(contains(run_tool({"ops", "conv"}).out, "dilation"));
  CHECK(contains(run_tool({"ops", "map"}).out, "gelu"));
  CHECK(contains(run_tool({"ops", "gelu_tanh"}).out, "gelu_tanh"));
  check_failure(run_tool({"ops", "sofmax"}), 2, {"unknown operator 'sofmax'", "did you mean 'softmax'?"});
  CHECK(json_of(run_tool({"ops", "--json"})).getArray("operators") != nullptr);
  CHECK(json_of(run_tool({"ops", "conv", "--json"})).getString("name") == llvm::StringRef("conv"));
}

TEST_CASE("usage: a full stdout is an error", "[tools]") {
  const int status = std::system((std::string(TILEWRIGHT_TOOL) + " --help >/dev/full 2>/dev/null").c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
}
