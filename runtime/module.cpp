#include "runtime/module.h"

#include <array>
#include <cstring>
#include <vector>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"

namespace tilewright {
namespace {

// ELF64 as the System V ABI lays it out; the cubin-specific parts are the sections named below and the records in .nv.info.
constexpr std::uint16_t kMachineCuda = 190;
constexpr std::uint64_t kSectionHeaderBytes = 64;
constexpr std::uint64_t kSymbolBytes = 24;
constexpr std::uint32_t kSystemSharedBytes = 1024;  // what sections of sm_90 and newer add for the system

// Records of .nv.info: u8 format, u8 attribute, then a u16 value, or a u16 size and as many bytes.
constexpr std::uint8_t kFormatSized = 4;
constexpr std::uint8_t kAttributeMaxThreads = 0x05;
constexpr std::uint8_t kAttributeFrameSize = 0x11;
constexpr std::uint8_t kAttributeParameterBytes = 0x19;
constexpr std::uint8_t kAttributeRegisters = 0x2f;

struct Section {
  llvm::StringRef name;
  llvm::StringRef bytes;  // empty for one that holds none in the file
  std::uint64_t size = 0;
  std::uint32_t type = 0;
  std::uint32_t link = 0;
};

llvm::Error corrupt(llvm::StringRef what) { return make_error(Status::kCorrupt, "cubin: {}", what); }

template <typename Integer>
Integer read(llvm::StringRef bytes, std::uint64_t offset) {
  return llvm::support::endian::read<Integer, llvm::endianness::little>(bytes.data() + offset);
}

bool fits(llvm::StringRef file, std::uint64_t offset, std::uint64_t size) { return offset <= file.size() && size <= file.size() - offset; }

llvm::StringRef text_at(llvm::StringRef table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  return table.drop_front(offset).split('\0').first;
}

llvm::Expected<std::vector<Section>> read_sections(llvm::StringRef file) {
  if (file.size() < 64 || !file.starts_with("\x7f"
                                            "ELF\x02\x01"))
    return corrupt("not a 64-bit little-endian ELF file");
  if (read<std::uint16_t>(file, 18) != kMachineCuda) return corrupt("an ELF file, but not for a GPU");
  const auto table = read<std::uint64_t>(file, 40);
  const std::uint64_t count = read<std::uint16_t>(file, 60);
  const std::uint64_t names_index = read<std::uint16_t>(file, 62);
  if (read<std::uint16_t>(file, 58) != kSectionHeaderBytes || !fits(file, table, count * kSectionHeaderBytes) || names_index >= count) {
    return corrupt("the section table does not lie in the file");
  }
  constexpr std::uint32_t kNoBits = 8;
  std::vector<Section> sections(count);
  std::vector<std::uint32_t> name_offsets(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t header = table + i * kSectionHeaderBytes;
    name_offsets[i] = read<std::uint32_t>(file, header);
    sections[i].type = read<std::uint32_t>(file, header + 4);
    sections[i].link = read<std::uint32_t>(file, header + 40);
    sections[i].size = read<std::uint64_t>(file, header + 32);
    const auto offset = read<std::uint64_t>(file, header + 24);
    if (sections[i].type == kNoBits || sections[i].type == 0) continue;
    if (!fits(file, offset, sections[i].size)) return corrupt("a section does not lie in the file");
    sections[i].bytes = file.substr(offset, sections[i].size);
  }
  for (std::uint64_t i = 0; i < count; ++i) sections[i].name = text_at(sections[names_index].bytes, name_offsets[i]);
  return sections;
}

const Section* find_section(llvm::ArrayRef<Section> sections, llvm::StringRef name) {
  for (const Section& section : sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

// Calls visit(attribute, value or payload bytes) for each record. False: a record runs past the end.
bool for_each_record(llvm::StringRef info, llvm::function_ref<void(std::uint8_t, std::uint16_t, llvm::StringRef)> visit) {
  while (info.size() >= 4) {
    const auto format = static_cast<std::uint8_t>(info[0]);
    const auto attribute = static_cast<std::uint8_t>(info[1]);
    const auto value = read<std::uint16_t>(info, 2);
    const std::size_t payload = format == kFormatSized ? value : 0;
    if (info.size() < 4 + payload) return false;
    visit(attribute, value, info.substr(4, payload));
    info = info.drop_front(4 + payload);
  }
  return true;
}

std::string symbol_name(llvm::ArrayRef<Section> sections, std::uint32_t index) {
  const Section* symbols = find_section(sections, ".symtab");
  if (!symbols || symbols->link >= sections.size()) return {};
  const std::uint64_t offset = std::uint64_t{index} * kSymbolBytes;
  if (!fits(symbols->bytes, offset, kSymbolBytes)) return {};
  return text_at(sections[symbols->link].bytes, read<std::uint32_t>(symbols->bytes, offset)).str();
}

std::string kernel_names(llvm::ArrayRef<Section> sections) {
  std::vector<llvm::StringRef> names;
  for (const Section& section : sections) {
    llvm::StringRef name = section.name;
    if (name.consume_front(".text.")) names.push_back(name);
  }
  return names.empty() ? "none" : llvm::join(names, ", ");
}

}  // namespace

llvm::Expected<CubinFacts> read_cubin_facts(llvm::StringRef cubin, llvm::StringRef entry) {
  auto read_result = read_sections(cubin);
  if (!read_result) return read_result.takeError();
  const std::vector<Section>& sections = *read_result;
  const Section* code = find_section(sections, (".text." + entry).str());
  if (!code) return make_error(Status::kInvalidArgument, "cubin: no kernel \"{}\"; there are {}", entry, kernel_names(sections));

  CubinFacts facts;
  facts.code_bytes = static_cast<std::uint32_t>(code->size);
  if (const Section* constants = find_section(sections, (".nv.constant0." + entry).str())) {
    facts.constant_bytes = static_cast<std::uint32_t>(constants->size);
  }
  if (const Section* shared = find_section(sections, (".nv.shared." + entry).str())) {
    facts.static_shared_bytes = static_cast<std::uint32_t>(shared->size);
    if (find_section(sections, ".nv.shared.reserved.0") && facts.static_shared_bytes >= kSystemSharedBytes) {
      facts.static_shared_bytes -= kSystemSharedBytes;
    }
  }
  bool good = true, found_registers = false;
  if (const Section* info = find_section(sections, ".nv.info")) {
    good = for_each_record(info->bytes, [&](std::uint8_t attribute, std::uint16_t, llvm::StringRef payload) {
      if ((attribute != kAttributeRegisters && attribute != kAttributeFrameSize) || payload.size() < 8) return;
      if (symbol_name(sections, read<std::uint32_t>(payload, 0)) != entry) return;
      const auto value = read<std::uint32_t>(payload, 4);
      if (attribute == kAttributeFrameSize) facts.local_bytes = value;
      if (attribute == kAttributeRegisters) facts.registers = value, found_registers = true;
    });
  }
  if (const Section* info = find_section(sections, (".nv.info." + entry).str()); info && good) {
    good = for_each_record(info->bytes, [&](std::uint8_t attribute, std::uint16_t value, llvm::StringRef payload) {
      if (attribute == kAttributeParameterBytes) facts.parameter_bytes = value;
      if (attribute == kAttributeMaxThreads && payload.size() >= 12) {
        facts.max_threads = read<std::uint32_t>(payload, 0) * read<std::uint32_t>(payload, 4) * read<std::uint32_t>(payload, 8);
      }
    });
  }
  if (!good || !found_registers) return corrupt("the kernel's attributes are damaged");
  return facts;
}

llvm::Expected<Module> Module::load(const Driver& driver, const std::string& image, llvm::StringRef what) {
  CUcontext context = nullptr;
  if (auto error = driver.check(driver.ctx_get_current(&context), "current context")) return error;
  if (!context) return make_error(Status::kInvalidArgument, "{}: no context is current on this thread", what);
  auto id = context_id(driver, context);
  if (!id) return id.takeError();

  std::array<char, 4096> log{};
  std::array options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // The driver takes sizes in the place of a pointer.
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};  // NOLINT(performance-no-int-to-ptr)
  CUmodule module = nullptr;
  const CUresult result = driver.module_load_data_ex(&module, image.c_str(), options.size(), options.data(), values.data());
  log.back() = '\0';
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    CUdevice device = 0;
    int major = 0, minor = 0;
    if (driver.ctx_get_device(&device) == CUDA_SUCCESS) {
      driver.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
      driver.device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    }
    return make_error(Status::kUnsupported, "{} does not run on this device (compute capability {}.{}) with this driver (CUDA {}): {}",
                      what, major, minor, driver.version_text(), driver.error_name(result));
  }
  if (result != CUDA_SUCCESS && log[0] != '\0') {
    return make_error(Status::kDriver, "loading {}: {}\n{}", what, driver.error_name(result), log.data());
  }
  if (auto error = driver.check(result, fmt::format("loading {}", what))) return error;
  return Module(driver, module, context, *id);
}

Module::Module(Module&& other) noexcept
    : driver_(other.driver_), module_(std::exchange(other.module_, nullptr)), context_(other.context_), context_id_(other.context_id_) {}

Module& Module::operator=(Module&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(module_, other.module_);
  std::swap(context_, other.context_);
  std::swap(context_id_, other.context_id_);
  return *this;
}

Module::~Module() {
  if (!module_) return;
  // A context that is gone took the module with it.
  unsigned long long id = 0;
  if (driver_->ctx_get_id(context_, &id) != CUDA_SUCCESS || id != context_id_) return;
  if (auto scope = ContextScope::enter(*driver_, context_)) {
    driver_->module_unload(module_);
  } else {
    llvm::consumeError(scope.takeError());
  }
}

llvm::Expected<CUfunction> Module::function(llvm::StringRef name) const {
  CUfunction function = nullptr;
  if (auto error = driver_->check(driver_->module_get_function(&function, module_, name.str().c_str()), fmt::format("kernel {}", name)))
    return error;
  int registers = 0;
  if (auto error =
          driver_->check(driver_->func_get_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function), fmt::format("kernel {}", name))) {
    return error;
  }
  return function;
}

}  // namespace tilewright
