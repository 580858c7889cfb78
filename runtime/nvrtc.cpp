#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <chrono>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "runtime/error.h"
#include "runtime/log.h"
#include "runtime/nvrtc_search.h"

namespace tilewright {

struct Nvrtc::Functions {
  nvrtcResult (*version)(int* major, int* minor) = nullptr;
  nvrtcResult (*number_of_architectures)(int* count) = nullptr;
  nvrtcResult (*architectures)(int* numbers) = nullptr;
  nvrtcResult (*create_program)(nvrtcProgram* program, const char* source, const char* name, int headers, const char* const* texts,
                                const char* const* names) = nullptr;
  nvrtcResult (*destroy_program)(nvrtcProgram* program) = nullptr;
  nvrtcResult (*compile_program)(nvrtcProgram program, int count, const char* const* options) = nullptr;
  nvrtcResult (*log_size)(nvrtcProgram program, std::size_t* bytes) = nullptr;
  nvrtcResult (*log)(nvrtcProgram program, char* text) = nullptr;
  nvrtcResult (*cubin_size)(nvrtcProgram program, std::size_t* bytes) = nullptr;
  nvrtcResult (*cubin)(nvrtcProgram program, char* bytes) = nullptr;
  nvrtcResult (*ptx_size)(nvrtcProgram program, std::size_t* bytes) = nullptr;
  nvrtcResult (*ptx)(nvrtcProgram program, char* text) = nullptr;
  const char* (*error_string)(nvrtcResult result) = nullptr;

  int major = 0, minor = 0;
  std::vector<int> numbers;  // architectures it compiles for, ascending
  bool at_least(int want_major, int want_minor) const { return major > want_major || (major == want_major && minor >= want_minor); }
};

namespace {

class ProgramOwner {
 public:
  ProgramOwner(nvrtcProgram program, nvrtcResult (*destroy)(nvrtcProgram*)) : program_(program), destroy_(destroy) {}
  ProgramOwner(const ProgramOwner&) = delete;
  ProgramOwner& operator=(const ProgramOwner&) = delete;
  ~ProgramOwner() { destroy_(&program_); }
  nvrtcProgram get() const { return program_; }

 private:
  nvrtcProgram program_;
  nvrtcResult (*destroy_)(nvrtcProgram*);
};

std::string fetch_text(nvrtcProgram program, nvrtcResult (*size)(nvrtcProgram, std::size_t*), nvrtcResult (*get)(nvrtcProgram, char*)) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != NVRTC_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (get(program, text.data()) != NVRTC_SUCCESS) return {};
  return text;
}

// Log texts end in a zero byte and often in an empty line.
std::string trimmed(llvm::StringRef text) {
  return text.take_until([](char c) { return c == '\0'; }).rtrim().str();
}

// Two lines around `line` (counted from 1) of a source, the line itself marked.
std::string excerpt(llvm::StringRef source, unsigned line) {
  std::string text;
  unsigned number = 0;
  while (!source.empty() && number < line + 2) {
    llvm::StringRef current;
    std::tie(current, source) = source.split('\n');
    ++number;
    if (number + 2 >= line) text += fmt::format("{}{:5} | {}\n", number == line ? '>' : ' ', number, current);
  }
  return text;
}

// For each of the first errors of the log, "name(12): error: ...", the lines around it.
std::string error_excerpts(llvm::StringRef log, const std::string& source, const std::string& name, llvm::ArrayRef<MemoryHeader> headers) {
  constexpr unsigned kMost = 4;
  std::string text;
  unsigned shown = 0;
  llvm::SmallVector<llvm::StringRef, 32> lines;
  log.split(lines, '\n');
  for (const llvm::StringRef line : lines) {
    const std::size_t open = line.find('('), close = line.find("): ");
    unsigned number = 0;
    if (shown == kMost || close == llvm::StringRef::npos || open > close || !line.substr(close).contains("error")) continue;
    if (line.slice(open + 1, close).getAsInteger(10, number)) continue;
    const llvm::StringRef file = line.take_front(open);
    llvm::StringRef file_text;
    if (file == name) file_text = source;
    for (const MemoryHeader& header : headers) {
      if (file == header.name) file_text = header.text;
    }
    if (file_text.empty()) continue;
    text += fmt::format("{}:\n{}", file, excerpt(file_text, number));
    ++shown;
  }
  return text;
}

std::string architecture_names(llvm::ArrayRef<int> numbers) {
  std::vector<std::string> names;
  for (const int number : numbers) names.push_back(fmt::format("sm_{}", number));
  return llvm::join(names, ", ");
}

}  // namespace

std::vector<std::string> compile_options(const Target& target) {
  return {"--gpu-architecture=" + target.name(), "--std=c++20", "--device-as-default-execution-space"};
}

Nvrtc::Nvrtc(std::string path, std::string identity) : path_(std::move(path)), identity_(std::move(identity)) {}

llvm::Expected<std::shared_ptr<Nvrtc>> Nvrtc::find() {
  auto path = find_nvrtc_file();
  if (!path) return path.takeError();
  auto build_id = elf_build_id(*path);
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc(*path, build_id ? "build " + *build_id : std::string()));
  if (!build_id) {
    auto version = nvrtc->version();
    if (!version) return version.takeError();
    nvrtc->identity_ = "version " + *version;
  }
  return nvrtc;
}

llvm::Expected<const Nvrtc::Functions&> Nvrtc::load() {
  std::call_once(once_, [&] {
    void* library = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* reason = ::dlerror();
      load_error_ = fmt::format("nvrtc: cannot load {} ({})", path_, reason ? reason : "no reason given");
      return;
    }
    auto functions = std::make_shared<Functions>();
    const auto get = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
      if (!function && load_error_.empty()) load_error_ = fmt::format("nvrtc: {} lacks {}; 12.0 or newer is needed", path_, symbol);
    };
    get(functions->version, "nvrtcVersion");
    get(functions->number_of_architectures, "nvrtcGetNumSupportedArchs");
    get(functions->architectures, "nvrtcGetSupportedArchs");
    get(functions->create_program, "nvrtcCreateProgram");
    get(functions->destroy_program, "nvrtcDestroyProgram");
    get(functions->compile_program, "nvrtcCompileProgram");
    get(functions->log_size, "nvrtcGetProgramLogSize");
    get(functions->log, "nvrtcGetProgramLog");
    get(functions->cubin_size, "nvrtcGetCUBINSize");
    get(functions->cubin, "nvrtcGetCUBIN");
    get(functions->ptx_size, "nvrtcGetPTXSize");
    get(functions->ptx, "nvrtcGetPTX");
    get(functions->error_string, "nvrtcGetErrorString");
    if (!load_error_.empty()) return;
    functions->version(&functions->major, &functions->minor);
    if (!functions->at_least(12, 0)) {
      load_error_ = fmt::format("nvrtc: {} is version {}.{}; 12.0 or newer is needed for C++20", path_, functions->major, functions->minor);
      return;
    }
    int count = 0;
    functions->number_of_architectures(&count);
    functions->numbers.resize(static_cast<std::size_t>(std::max(count, 0)));
    functions->architectures(functions->numbers.data());
    // NVRTC opens its second library by name alone: loaded from beside it, it is found whatever the loader's paths are.
    const std::string builtins =
        fmt::format("{}/libnvrtc-builtins.so.{}.{}", llvm::sys::path::parent_path(path_), functions->major, functions->minor);
    if (!::dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL)) tilewright::log(LogLevel::kDebug, "nvrtc: no {}", builtins);
    functions_ = std::move(functions);
  });
  if (!functions_) return make_error_text(Status::kMissing, load_error_);
  return *functions_;
}

llvm::Expected<std::string> Nvrtc::version() {
  auto functions = load();
  if (!functions) return functions.takeError();
  return fmt::format("{}.{}", functions->major, functions->minor);
}

llvm::Expected<std::vector<int>> Nvrtc::supported_architectures() {
  auto functions = load();
  if (!functions) return functions.takeError();
  return functions->numbers;
}

llvm::Expected<CompileResult> Nvrtc::compile(const std::string& source, const std::string& name, llvm::ArrayRef<MemoryHeader> headers,
                                             const Target& target, llvm::ArrayRef<std::string> extra_options) {
  auto loaded = load();
  if (!loaded) return loaded.takeError();
  const Functions& nvrtc = *loaded;
  if (!llvm::is_contained(nvrtc.numbers, target.number())) {
    return make_error(Status::kInvalidArgument, "nvrtc: version {}.{} does not compile for {}; it does for {}", nvrtc.major, nvrtc.minor,
                      target.name(), architecture_names(nvrtc.numbers));
  }
  std::vector<std::string> options = compile_options(target);
  if (nvrtc.at_least(12, 4)) options.push_back("--minimal");   // leaves out declarations our kernels never use
  if (nvrtc.at_least(12, 9)) options.push_back("--no-cache");  // the store is the cache
  options.insert(options.end(), extra_options.begin(), extra_options.end());
  std::vector<const char*> option_texts, header_names, header_texts;
  for (const std::string& option : options) option_texts.push_back(option.c_str());
  for (const MemoryHeader& header : headers) {
    header_names.push_back(header.name);
    header_texts.push_back(header.text);
  }

  const auto start = std::chrono::steady_clock::now();
  nvrtcProgram handle = nullptr;
  const nvrtcResult created = nvrtc.create_program(&handle, source.c_str(), name.c_str(), static_cast<int>(headers.size()),
                                                   header_texts.data(), header_names.data());
  if (created != NVRTC_SUCCESS) return make_error(Status::kCompileFailed, "nvrtc: {}: {}", name, nvrtc.error_string(created));
  const ProgramOwner program(handle, nvrtc.destroy_program);
  const nvrtcResult compiled = nvrtc.compile_program(program.get(), static_cast<int>(option_texts.size()), option_texts.data());

  CompileResult result;
  result.log = trimmed(fetch_text(program.get(), nvrtc.log_size, nvrtc.log));
  if (compiled != NVRTC_SUCCESS) {
    return make_error(Status::kCompileFailed, "nvrtc: {} for {}: {}\n{}\n{}", name, target.name(), nvrtc.error_string(compiled), result.log,
                      error_excerpts(result.log, source, name, headers));
  }
  result.binary = target.ptx ? trimmed(fetch_text(program.get(), nvrtc.ptx_size, nvrtc.ptx)) + "\n"
                             : fetch_text(program.get(), nvrtc.cubin_size, nvrtc.cubin);
  if (result.binary.size() < 2)
    return make_error(Status::kCompileFailed, "nvrtc: {} for {}: compiled, but gave no code", name, target.name());
  result.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace tilewright
