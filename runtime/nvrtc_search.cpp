#include "runtime/nvrtc_search.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// Newest first: in one place the newer one is taken; an earlier place wins over a newer library.
constexpr std::array<llvm::StringLiteral, 2> kLibraries = {"libnvrtc.so.13", "libnvrtc.so.12"};

template <typename Integer>
Integer read(llvm::StringRef bytes, std::uint64_t offset) {
  return llvm::support::endian::read<Integer, llvm::endianness::little>(bytes.data() + offset);
}

llvm::StringRef environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? llvm::StringRef(value) : llvm::StringRef();
}

// /usr/local/cuda first, then /usr/local/cuda-13.0 and its like, newest name first.
std::vector<std::string> toolkit_directories() {
  std::vector<std::string> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it("/usr/local", error), end; it != end && !error; it.increment(error)) {
    const llvm::StringRef path = it->path();
    if (path.starts_with("/usr/local/cuda-")) found.push_back(path.str());
  }
  std::sort(found.begin(), found.end(),
            [](const std::string& a, const std::string& b) { return llvm::StringRef(a).compare_numeric(b) > 0; });
  found.insert(found.begin(), "/usr/local/cuda");
  return found;
}

void add_library_path(std::vector<std::string>& directories) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  environment("LD_LIBRARY_PATH").split(parts, ':', -1, /*KeepEmpty=*/false);
  for (const llvm::StringRef part : parts) directories.push_back(part.str());
}

void add_roots(std::vector<std::string>& directories) {
  std::vector<std::string> roots;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (!environment(name).empty()) roots.push_back(environment(name).str());
  }
  for (std::string& directory : toolkit_directories()) roots.push_back(std::move(directory));
  for (const std::string& root : roots) {
    for (const char* sub : {"/lib64", "/lib"}) directories.push_back(root + sub);
  }
  for (const char* directory : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    directories.push_back(directory);
}

std::string find_in_directories(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    for (const llvm::StringRef library : kLibraries) {
      std::string path = directory + "/" + library.str();
      if (llvm::sys::fs::exists(path)) return path;
    }
  }
  return {};
}

// Any libnvrtc.so.N in these directories: for the error alone.
std::string other_versions(const std::vector<std::string>& directories) {
  std::vector<std::string> found;
  for (const std::string& directory : directories) {
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(directory, error), end; it != end && !error; it.increment(error)) {
      const llvm::StringRef path = it->path();
      const std::size_t at = path.find("/libnvrtc.so.");
      if (at != llvm::StringRef::npos && llvm::isDigit(path[at + 13])) found.push_back(path.str());
    }
  }
  return llvm::join(found, ", ");
}

// What the loader finds by name in ways of its own (run paths of the program, a library that is loaded already).
std::string find_by_loading() {
  for (const llvm::StringRef library : kLibraries) {
    void* handle = ::dlopen(library.data(), RTLD_LAZY | RTLD_LOCAL);
    if (!handle) continue;
    link_map* map = nullptr;
    if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && map->l_name[0] != '\0') return map->l_name;
    return library.str();
  }
  return {};
}

}  // namespace

std::optional<std::string> elf_build_id(llvm::StringRef path) {
  constexpr std::uint32_t kNote = 4, kGnuBuildId = 3;
  auto page = llvm::MemoryBuffer::getFileSlice(path, 4096, 0);
  if (!page) return std::nullopt;
  const llvm::StringRef file = (*page)->getBuffer();
  if (file.size() < 64 || !file.starts_with("\x7f"
                                            "ELF\x02\x01"))
    return std::nullopt;
  const auto table = read<std::uint64_t>(file, 32);
  const std::uint64_t count = read<std::uint16_t>(file, 56);
  constexpr std::uint64_t kProgramHeaderBytes = 56;
  if (table > file.size() || count > (file.size() - table) / kProgramHeaderBytes) return std::nullopt;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t header = table + i * kProgramHeaderBytes;
    if (read<std::uint32_t>(file, header) != kNote) continue;
    const auto offset = read<std::uint64_t>(file, header + 8);
    const auto size = read<std::uint64_t>(file, header + 32);
    if (offset > file.size() || size > file.size() - offset) continue;
    llvm::StringRef notes = file.substr(offset, size);
    while (notes.size() >= 12) {
      const std::uint64_t name_bytes = llvm::alignTo(read<std::uint32_t>(notes, 0), 4);
      const std::uint64_t value_bytes = read<std::uint32_t>(notes, 4);
      if (12 + name_bytes + value_bytes > notes.size()) break;
      const llvm::StringRef value = notes.substr(12 + name_bytes, value_bytes);
      if (read<std::uint32_t>(notes, 8) == kGnuBuildId && notes.substr(12).starts_with("GNU"))
        return llvm::toHex(value, /*LowerCase=*/true);
      notes = notes.drop_front(std::min<std::uint64_t>(notes.size(), 12 + name_bytes + llvm::alignTo(value_bytes, 4)));
    }
  }
  return std::nullopt;
}

std::string find_in_loader_cache(llvm::StringRef cache_path, llvm::StringRef library) {
  // glibc, sysdeps/generic/dl-cache.h: header of 48 bytes, entries of 24 (flags, name, path, version, hardware), offsets from the header's
  // start.
  constexpr llvm::StringLiteral kMagic = "glibc-ld.so.cache1.1";
  constexpr std::uint64_t kHeaderBytes = 48, kEntryBytes = 24;
  auto buffer = llvm::MemoryBuffer::getFile(cache_path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) return {};
  llvm::StringRef cache = (*buffer)->getBuffer();
  // Caches of older systems carry the old format first.
  const std::size_t start = cache.find(kMagic);
  if (start == llvm::StringRef::npos) return {};
  cache = cache.drop_front(start);
  if (cache.size() < kHeaderBytes) return {};
  const std::uint64_t count = read<std::uint32_t>(cache, kMagic.size());
  if (count > (cache.size() - kHeaderBytes) / kEntryBytes) return {};
  const auto text = [&](std::uint32_t offset) {
    return offset < cache.size() ? cache.drop_front(offset).split('\0').first : llvm::StringRef();
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t entry = kHeaderBytes + i * kEntryBytes;
    if (text(read<std::uint32_t>(cache, entry + 4)) != library) continue;
    std::string path = text(read<std::uint32_t>(cache, entry + 8)).str();
    if (llvm::sys::fs::exists(path)) return path;
  }
  return {};
}

llvm::Expected<std::string> find_nvrtc_file() {
  if (const llvm::StringRef named = environment("TILEWRIGHT_NVRTC"); !named.empty()) {
    if (llvm::sys::fs::exists(named)) return named.str();
    return make_error(Status::kMissing, "nvrtc: TILEWRIGHT_NVRTC names {}, which does not exist", named);
  }
  std::vector<std::string> directories;
  add_library_path(directories);
  if (std::string path = find_in_directories(directories); !path.empty()) return path;
  for (const llvm::StringRef library : kLibraries) {
    if (std::string path = find_in_loader_cache("/etc/ld.so.cache", library); !path.empty()) return path;
  }
  std::vector<std::string> roots;
  add_roots(roots);
  if (std::string path = find_in_directories(roots); !path.empty()) return path;
  if (std::string path = find_by_loading(); !path.empty()) return path;

  directories.insert(directories.end(), roots.begin(), roots.end());
  const std::string others = other_versions(directories);
  return make_error(
      Status::kMissing,
      "nvrtc: found neither {} in LD_LIBRARY_PATH, /etc/ld.so.cache, {}{}. Install the CUDA toolkit's NVRTC (12.0 or newer) or set "
      "TILEWRIGHT_NVRTC to the file",
      llvm::join(kLibraries, " nor "), llvm::join(directories, ", "),
      others.empty() ? std::string() : fmt::format("; too old: {}", others));
}

}  // namespace tilewright
