#include "runtime/host/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Demangle/Demangle.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

llvm::Error corrupt() { return make_error(Status::kCorrupt, "a kernel's shared object is not a whole ELF file with a symbol table"); }

// The elements of a section, none when it does not lie inside the file.
template <typename T>
std::vector<T> section_elements(llvm::StringRef elf, const Elf64_Shdr& section) {
  if (section.sh_offset > elf.size() || section.sh_size > elf.size() - section.sh_offset) return {};
  std::vector<T> elements(section.sh_size / sizeof(T));
  std::memcpy(elements.data(), elf.data() + section.sh_offset, elements.size() * sizeof(T));
  return elements;
}

// "tw::f<int>(float)::shared[abi:x]" -> "shared"
std::string short_name(llvm::StringRef mangled) {
  const std::string full = llvm::demangle(mangled.str());
  const llvm::StringRef name = full;
  const std::size_t colon = name.rfind("::");
  return (colon == llvm::StringRef::npos ? name : name.drop_front(colon + 2)).split('[').first.str();
}

}  // namespace

llvm::Expected<std::vector<ThreadLocalSymbol>> thread_local_symbols(llvm::StringRef elf) {
  Elf64_Ehdr header;
  if (elf.size() < sizeof(header)) return corrupt();
  std::memcpy(&header, elf.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return corrupt();
  Elf64_Shdr all{};
  all.sh_offset = header.e_shoff;
  all.sh_size = std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  const auto sections = section_elements<Elf64_Shdr>(elf, all);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto strings = section_elements<char>(elf, sections[section.sh_link]);
    const llvm::StringRef names(strings.data(), strings.size());
    std::vector<ThreadLocalSymbol> found;
    for (const auto& symbol : section_elements<Elf64_Sym>(elf, section)) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_TLS || symbol.st_size == 0 || symbol.st_name >= names.size()) continue;
      found.push_back({short_name(names.drop_front(symbol.st_name).split('\0').first), symbol.st_value, symbol.st_size});
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    return found;
  }
  return corrupt();
}

}  // namespace tilewright
