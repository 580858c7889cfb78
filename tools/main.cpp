// The command line `tilewright`: parses, runs one command, prints its answer or one error line.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/api/tilewright.h"
#include "tools/cli.h"

namespace tilewright::cli {
namespace {

struct CommandEntry {
  llvm::StringRef name;
  const char* summary;
  Action (*add)(CLI::App&);
};

constexpr CommandEntry kCommands[] = {
    {"doctor", "what this machine offers: driver, GPUs, NVRTC, store; what is missing and the fix", add_doctor},
    {"ops", "operators, their attributes and dtypes", add_ops},
    {"show", "what becomes of a description: plan, source, PTX, SASS, cache key, cubin facts", add_show},
    {"compile", "compile descriptions into the store; needs no GPU", add_compile},
    {"run", "run on seeded data or files and compare with the reference", add_run},
    {"bench", "time a description against its floor", add_bench},
    {"tune", "find, verify and record the fastest config of a description", add_tune},
    {"records", "look into what tunings found", add_records},
    {"cache", "look into the store", add_cache},
};

// Of the processes that tune starts.
constexpr CommandEntry kHiddenCommands[] = {{"tune-helper", "", add_tune_helper}, {"tune-compiler", "", add_tune_compiler}};

constexpr const char* kExitHelp =
    "Exit status: 0 good, 1 the thing asked about is bad, 2 usage or bad input, 3 the machine lacks what is needed.\n"
    "Environment: TILEWRIGHT_CACHE_DIR, TILEWRIGHT_CACHE_LAYERS, TILEWRIGHT_RECORDS_DIR, TILEWRIGHT_NVRTC, TILEWRIGHT_HOST_CXX, "
    "TILEWRIGHT_LOG.";

// One line on stderr; what follows the first line of a message (a compiler's log) comes after it, indented.
int fail(llvm::StringRef message, ExitStatus status) {
  auto [first, rest] = message.rtrim().split('\n');
  std::string text = fmt::format("tilewright: error: {}\n", first);
  while (!rest.empty()) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    text += fmt::format("  {}\n", line);
  }
  std::fputs(text.c_str(), stderr);
  return status;
}

int print(const std::string& text, int status) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return fail(fmt::format("cannot write to stdout: {}", std::strerror(errno)), kUsage);
  }
  return status;
}

int unknown_command(llvm::StringRef name) {
  llvm::StringRef nearest = nearest_name(name, command_names());
  return fail(fmt::format("unknown command '{}'; the commands are {}{}", name, llvm::join(command_names(), ", "),
                          nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)),
              kUsage);
}

int run_tool(int argc, char** argv) {
  CLI::App app("Tilewright: a JIT kernel generator for NVIDIA GPUs", "tilewright");
  app.set_version_flag("--version", fmt::format("tilewright {}", tw_version()), "print the version and leave");
  app.footer(kExitHelp);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const CommandEntry& entry : kCommands) {
    CLI::App* command = app.add_subcommand(entry.name.str(), entry.summary);
    actions.emplace_back(command, entry.add(*command));
  }
  for (const CommandEntry& entry : kHiddenCommands) {
    CLI::App* command = app.add_subcommand(entry.name.str(), entry.summary);
    actions.emplace_back(command, entry.add(*command));
  }
  if (argc < 2)
    return fail(fmt::format("no command given; the commands are {} (--help says more)", llvm::join(command_names(), ", ")), kUsage);
  const bool hidden = llvm::any_of(kHiddenCommands, [&](const CommandEntry& entry) { return entry.name == argv[1]; });
  if (argv[1][0] != '-' && !hidden && !llvm::is_contained(command_names(), argv[1])) return unknown_command(argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n", kGood);
  } catch (const CLI::CallForHelp&) {
    return print(app.help(), kGood);
  } catch (const CLI::CallForAllHelp&) {
    return print(app.help("", CLI::AppFormatMode::All), kGood);
  } catch (const CLI::ParseError& error) {
    return fail(error.what(), kUsage);
  }
  for (auto& [command, action] : actions) {
    if (!command->parsed()) continue;
    llvm::Expected<Output> output = action();
    if (!output) {
      ErrorFacts facts = take_error_facts(output.takeError());
      return fail(facts.message, exit_status(facts.status));
    }
    int status = print(output->text, output->status);
    if (!output->complaint.empty()) return fail(output->complaint, output->status);
    return status;
  }
  return fail("no command given", kUsage);
}

}  // namespace

llvm::ArrayRef<llvm::StringRef> command_names() {
  static const std::vector<llvm::StringRef> kNames = [] {
    std::vector<llvm::StringRef> names;
    for (const CommandEntry& entry : kCommands) names.push_back(entry.name);
    return names;
  }();
  return kNames;
}

}  // namespace tilewright::cli

int main(int argc, char** argv) {
  try {
    return tilewright::cli::run_tool(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("tilewright: error: out of host memory\n", stderr);
    return tilewright::cli::kLacking;
  } catch (const std::length_error&) {
    // A host tensor larger than any container may be.
    std::fputs("tilewright: error: out of host memory\n", stderr);
    return tilewright::cli::kLacking;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "tilewright: error: internal: %s\n", exception.what());
    return tilewright::cli::kBad;
  }
}
