#include "runtime/launch_recipe.h"

#include <algorithm>
#include <cstring>

namespace tilewright {
namespace {

// Every field of a parameter struct is as large as its alignment.
std::uint32_t field_bytes(KernelArg::Kind kind) {
  switch (kind) {
    case KernelArg::Kind::kBuffer:
    case KernelArg::Kind::kInt64:
      return 8;
    case KernelArg::Kind::kFloat32:
    case KernelArg::Kind::kMisalignment:
      return 4;
  }
  return 0;
}

std::uint32_t round_up(std::uint32_t value, std::uint32_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

llvm::SmallVector<std::uint32_t, 16> param_layout(const KernelParam& param) {
  llvm::SmallVector<std::uint32_t, 16> layout;
  std::uint32_t offset = 0;
  std::uint32_t alignment = 1;
  for (const KernelArg& field : param.fields) {
    const std::uint32_t bytes = field_bytes(field.kind);
    offset = round_up(offset, bytes);
    layout.push_back(offset);
    offset += bytes;
    alignment = std::max(alignment, bytes);
  }
  // A struct without members still has size one in C++.
  layout.push_back(std::max<std::uint32_t>(1, round_up(offset, alignment)));
  return layout;
}

void pack_param(const KernelLaunch& launch, std::size_t param, llvm::ArrayRef<std::uint32_t> layout,
                llvm::function_ref<std::uint64_t(const BufferRef&)> address, std::uint32_t misalignment, llvm::ArrayRef<std::int64_t> dims,
                char* out) {
  const auto put = [out](std::uint32_t offset, auto value) { std::memcpy(out + offset, &value, sizeof(value)); };
  std::memset(out, 0, layout.back());
  const std::vector<KernelArg>& fields = launch.params[param].fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const KernelArg& field = fields[i];
    switch (field.kind) {
      case KernelArg::Kind::kBuffer:
        put(layout[i], address(field.buffer));
        break;
      case KernelArg::Kind::kInt64:
        put(layout[i], field.value.evaluate(dims));
        break;
      case KernelArg::Kind::kFloat32:
        put(layout[i], field.number);
        break;
      case KernelArg::Kind::kMisalignment:
        put(layout[i], misalignment);
        break;
    }
  }
}

}  // namespace tilewright
