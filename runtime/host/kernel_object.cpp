#include "runtime/host/kernel_object.h"

#include <dlfcn.h>
#include <link.h>

#include "llvm/Support/Path.h"
#include "runtime/error.h"
#include "runtime/host/process.h"

namespace tilewright {
namespace {

// Segments of one loaded object, from dl_iterate_phdr.
struct ImageSearch {
  std::uintptr_t bias;
  std::uintptr_t begin = UINTPTR_MAX, end = 0;
};

int find_image(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<ImageSearch*>(data);
  if (info->dlpi_addr != search.bias) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    search.begin = std::min<std::uintptr_t>(search.begin, search.bias + segment.p_vaddr);
    search.end = std::max<std::uintptr_t>(search.end, search.bias + segment.p_vaddr + segment.p_memsz);
  }
  return 1;
}

// What the loader's __tls_get_addr takes. Looked up by name, so that the library need not be linked with the loader.
struct TlsIndex {
  unsigned long module, offset;
};

// addr2line's pairs of lines (function, place) as one line each; what the compiler or the executor's headers stand for is left out.
CodeLines parse_lines(llvm::StringRef text) {
  CodeLines lines;
  while (!text.empty()) {
    llvm::StringRef function, place;
    std::tie(function, text) = text.split('\n');
    std::tie(place, text) = text.split('\n');
    place = place.split(" (discriminator").first.trim();
    if (place.empty() || place.starts_with("??") || place.contains("tilewright/host/")) continue;
    if (place.starts_with("./")) place = place.drop_front(2);
    const std::size_t tilewright = place.find("tilewright/");
    place = tilewright == llvm::StringRef::npos ? llvm::sys::path::filename(place) : place.drop_front(tilewright);
    // kernel.cu:12:3 -> kernel.cu:12
    if (place.count(':') == 2) place = place.rsplit(':').first;
    lines.push_back(fmt::format("{} in {}", place, function.split('<').first.split('(').first));
  }
  return lines;
}

}  // namespace

llvm::Expected<std::unique_ptr<KernelObject>> KernelObject::load(llvm::StringRef bytes) {
  std::unique_ptr<KernelObject> object(new KernelObject);
  if (llvm::Error error = object->open(bytes)) return error;
  return object;
}

llvm::Error KernelObject::open(llvm::StringRef bytes) {
  auto symbols = thread_local_symbols(bytes);
  if (!symbols) return symbols.takeError();
  shared_variables_ = std::move(*symbols);
  auto directory = TemporaryDirectory::make("tilewright-kernel");
  if (!directory) return directory.takeError();
  directory_ = std::move(*directory);
  path_ = directory_.file("kernel.so");
  if (llvm::Error error = write_in_place(path_, bytes)) return error;
  handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) return make_error(Status::kCorrupt, "a kernel's shared object cannot be loaded: {}", ::dlerror());
  const auto abi = reinterpret_cast<unsigned (*)()>(::dlsym(handle_, "tw_host_abi"));
  const auto instrumented = reinterpret_cast<bool (*)()>(::dlsym(handle_, "tw_host_instrumented"));
  bind_ = reinterpret_cast<void (*)(const tw::host::Executor*)>(::dlsym(handle_, "tw_host_bind"));
  entry_ = reinterpret_cast<void (*)(const void* const*)>(::dlsym(handle_, "tw_host_entry"));
  if (abi == nullptr || instrumented == nullptr || bind_ == nullptr || entry_ == nullptr || abi() != tw::host::kAbiVersion)
    return make_error(Status::kCorrupt, "a kernel's shared object is not of this version of the executor");
  instrumented_ = instrumented();
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return make_error(Status::kInternal, "dlinfo: {}", ::dlerror());
  load_bias_ = map->l_addr;
  ImageSearch search{load_bias_};
  ::dl_iterate_phdr(find_image, &search);
  if (search.end > search.begin) image_begin_ = search.begin, image_bytes_ = search.end - search.begin;
  return llvm::Error::success();
}

KernelObject::~KernelObject() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

char* KernelObject::shared_block() const {
  if (shared_variables_.empty()) return nullptr;
  TlsIndex index{0, 0};
  static const auto get_address = reinterpret_cast<void* (*)(TlsIndex*)>(::dlsym(RTLD_DEFAULT, "__tls_get_addr"));
  if (get_address == nullptr || ::dlinfo(handle_, RTLD_DI_TLS_MODID, &index.module) != 0 || index.module == 0) return nullptr;
  return static_cast<char*>(get_address(&index));
}

CodeLines KernelObject::code_lines(const void* address) const {
  // A return address belongs to the instruction before it.
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - 1 - load_bias_;
  const std::string hex = fmt::format("{:#x}", offset);
  for (const char* tool : {"addr2line", "llvm-symbolizer", "llvm-symbolizer-19"}) {
    const bool gnu = llvm::StringRef(tool) == "addr2line";
    auto output = gnu ? run_process(tool, {"-i", "-f", "-C", "-e", path_, hex})
                      : run_process(tool, {"--output-style=GNU", "-i", "-f", "-C", "-e", path_, hex});
    if (!output) {
      llvm::consumeError(output.takeError());
      continue;
    }
    CodeLines lines = parse_lines(output->text);
    if (!lines.empty()) return lines;
  }
  return {fmt::format("kernel.so+{}", hex)};
}

}  // namespace tilewright
