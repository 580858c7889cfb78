#include "runtime/host/host_compiler.h"

#include <chrono>
#include <cstdlib>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "runtime/error.h"
#include "runtime/files.h"
#include "runtime/host/process.h"

namespace tilewright {
namespace {

constexpr int kOldestGcc = 12;
constexpr int kOldestClang = 14;

// The value of a macro in the output of -dM -E, "" when it is not defined.
std::string macro_value(llvm::StringRef text, llvm::StringRef name) {
  const std::string wanted = fmt::format("#define {} ", name);
  const std::size_t at = text.find(wanted);
  if (at == llvm::StringRef::npos) return "";
  return text.drop_front(at + wanted.size()).split('\n').first.trim().str();
}

// A compiler's messages without the name of the directory it worked in.
std::string without_directory(llvm::StringRef text, const TemporaryDirectory& directory) {
  std::string result = text.trim().str();
  const std::string prefix = directory.file("");
  for (std::size_t at = result.find(prefix); at != std::string::npos; at = result.find(prefix, at)) result.erase(at, prefix.size());
  return result;
}

// The kernel's text as it is, and what ties it to the executor.
std::string launcher(llvm::StringRef entry) {
  return fmt::format(R"(#include "kernel.cu"
extern "C" {{
__attribute__((visibility("default"))) TW_HOST_PLAIN unsigned tw_host_abi() {{ return tw::host::kAbiVersion; }}
__attribute__((visibility("default"))) TW_HOST_PLAIN bool tw_host_instrumented() {{ return tw::host::kInstrumented; }}
__attribute__((visibility("default"))) TW_HOST_PLAIN void tw_host_bind(const tw::host::Executor* table) {{ tw::host::table = table; }}
__attribute__((visibility("default"))) TW_HOST_PLAIN void tw_host_entry(const void* const* parameters) {{ tw::host::call({}, parameters); }}
}}
)",
                     entry);
}

}  // namespace

llvm::Expected<HostCompiler> HostCompiler::probe(const std::string& name) {
  auto output = run_process(name, {"-std=c++20", "-dM", "-E", "-x", "c++", "/dev/null"});
  if (!output) return output.takeError();
  HostCompiler compiler;
  compiler.path_ = name;
  const std::string clang = macro_value(output->text, "__clang_major__"), gcc = macro_value(output->text, "__GNUC__");
  if (output->status != 0 || gcc.empty()) {
    return make_error(Status::kMissing, "{} is neither GCC nor Clang with C++20: {}", name,
                      llvm::StringRef(output->text).split('\n').first);
  }
  compiler.clang_ = !clang.empty();
  const std::string& major = compiler.clang_ ? clang : gcc;
  const std::string version =
      compiler.clang_
          ? fmt::format("{}.{}.{}", clang, macro_value(output->text, "__clang_minor__"), macro_value(output->text, "__clang_patchlevel__"))
          : fmt::format("{}.{}.{}", gcc, macro_value(output->text, "__GNUC_MINOR__"), macro_value(output->text, "__GNUC_PATCHLEVEL__"));
  compiler.identity_ = fmt::format("{} {}", compiler.clang_ ? "clang" : "gcc", version);
  int number = 0;
  if (llvm::StringRef(major).getAsInteger(10, number) || number < (compiler.clang_ ? kOldestClang : kOldestGcc)) {
    return make_error(Status::kMissing, "{} is {}, which is too old: GCC {} or Clang {} is needed", name, compiler.identity_, kOldestGcc,
                      kOldestClang);
  }
  return compiler;
}

llvm::Expected<HostCompiler> HostCompiler::find() {
  if (const char* given = std::getenv("TILEWRIGHT_HOST_CXX"); given != nullptr && *given != '\0') {
    auto compiler = probe(given);
    if (compiler) return compiler;
    return prefix_error(compiler.takeError(), "TILEWRIGHT_HOST_CXX: ");
  }
  std::string seen;
  for (const char* name : {"c++", "clang++", "g++"}) {
    auto compiler = probe(name);
    if (compiler) return compiler;
    seen += fmt::format("{}{}", seen.empty() ? "" : "; ", take_error_facts(compiler.takeError()).message);
  }
  return make_error(Status::kMissing, "no host compiler for kernels on the CPU: {} (TILEWRIGHT_HOST_CXX names another)", seen);
}

std::vector<std::string> HostCompiler::options(llvm::StringRef sanitize) const {
  std::vector<std::string> options = {
      "-std=c++20", "-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-ffp-contract=off", "-fno-strict-aliasing", "-w"};
  if (!clang_) options.insert(options.end(), {"-fno-gnu-unique"});  // unique objects would be one for all kernels
  if (sanitize.empty()) {
    options.insert(options.end(), {"-fsanitize=thread", "-DTILEWRIGHT_HOST_CHECKS"});
    if (clang_) {
      options.insert(options.end(), {"-mllvm", "-tsan-distinguish-volatile=1", "-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm",
                                     "-tsan-instrument-func-entry-exit=0"});
    } else {
      options.insert(options.end(), {"--param", "tsan-distinguish-volatile=1", "--param", "tsan-instrument-func-entry-exit=0"});
    }
  } else {
    options.insert(options.end(), {"-fsanitize=" + sanitize.str(), "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"});
  }
  return options;
}

std::string HostCompiler::sanitizer_runtime() const {
  for (const char* name : {"libasan.so", "libclang_rt.asan-x86_64.so", "libclang_rt.asan.so"}) {
    auto output = run_process(path_, {fmt::format("-print-file-name={}", name)});
    if (!output) {
      llvm::consumeError(output.takeError());
      continue;
    }
    const llvm::StringRef file = llvm::StringRef(output->text).trim();
    if (llvm::sys::path::is_absolute(file) && llvm::sys::fs::exists(file)) return file.str();
  }
  return "";
}

llvm::Expected<HostCompiler::Result> HostCompiler::compile(const std::string& source, const std::string& entry,
                                                           llvm::ArrayRef<MemoryHeader> headers, llvm::StringRef sanitize) const {
  const auto start = std::chrono::steady_clock::now();
  auto made = TemporaryDirectory::make("tilewright-host");
  if (!made) return made.takeError();
  const TemporaryDirectory directory = std::move(*made);
  for (const MemoryHeader& header : headers) {
    const std::string file = directory.file(header.name);
    if (std::error_code error = llvm::sys::fs::create_directories(llvm::sys::path::parent_path(file)))
      return make_error(Status::kIo, "cannot make a temporary directory: {}", error.message());
    if (llvm::Error error = write_in_place(file, header.text)) return error;
  }
  if (llvm::Error error = write_in_place(directory.file("kernel.cu"), source)) return error;
  if (llvm::Error error = write_in_place(directory.file("launch.cpp"), launcher(entry))) return error;

  const std::string map = fmt::format("-ffile-prefix-map={}/=", directory.path());
  const std::string object = directory.file("kernel.o"), library = directory.file("kernel.so"), launch = directory.file("launch.cpp");
  std::vector<std::string> flags = options(sanitize);
  llvm::SmallVector<llvm::StringRef, 32> arguments(flags.begin(), flags.end());
  arguments.append({map, "-I", directory.path(), "-include", "tilewright/host/prelude.h", "-c", launch, "-o", object});
  auto compiled = run_process(path_, arguments);
  if (!compiled) return compiled.takeError();
  if (compiled->status != 0)
    return make_error(Status::kCompileFailed, "{} cannot compile {} for the CPU:\n{}", identity_, entry,
                      without_directory(compiled->text, directory));

  // Without the thread sanitizer's library: its functions are in tilewright/host/checks.h.
  llvm::SmallVector<llvm::StringRef, 16> link = {"-shared", object, "-o", library, "-lm"};
  const std::string runtime = "-fsanitize=" + sanitize.str();
  if (sanitize.empty()) {
    link.push_back("-Wl,-z,defs");
  } else {
    link.push_back(runtime);
    if (clang_) link.push_back("-shared-libsan");
  }
  auto linked = run_process(path_, link);
  if (!linked) return linked.takeError();
  if (linked->status != 0)
    return make_error(Status::kCompileFailed, "{} cannot link {} for the CPU:\n{}", identity_, entry,
                      without_directory(linked->text, directory));
  auto bytes = read_file(library);
  if (!bytes) return bytes.takeError();
  return Result{std::move(*bytes), std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace tilewright
