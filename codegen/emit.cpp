#include "codegen/kernel_spec.h"
#include "runtime/error.h"

namespace tilewright {

std::string emit(const KernelSpec& spec) {
  std::string out =
      fmt::format("// {}: {}\n// {}\n#include \"tilewright/math.cuh\"\n#include \"tilewright/memory.cuh\"\n#include \"{}\"\n\n",
                  spec.launch.entry, spec.title, spec.why, spec.header);
  out += fmt::format("inline constexpr {} kConfig{{\n", spec.config_type);
  for (const auto& [field, value] : spec.config) out += fmt::format("    .{} = {},\n", field, value);
  out += "};\n\n" + spec.hooks + "\n";
  for (const KernelParam& param : spec.launch.params) {
    out += fmt::format("static_assert(sizeof({0}) == {1}, \"host and device lay out {0} differently\");\n", param.type_name,
                       param_layout(param).back());
  }
  for (const std::string& assertion : spec.assertions) out += assertion + "\n";
  const std::uint32_t threads = spec.launch.block[0] * spec.launch.block[1] * spec.launch.block[2];
  const std::string blocks = spec.min_blocks_per_sm == 0 ? "" : fmt::format(", {}", spec.min_blocks_per_sm);
  out += fmt::format("\nextern \"C\" __global__ void __launch_bounds__({}{})\n{}(", threads, blocks, spec.launch.entry);
  const char* const names[] = {"args", "hooks"};
  for (std::size_t i = 0; i < spec.launch.params.size(); ++i) {
    out += fmt::format("{}const __grid_constant__ {} {}", i == 0 ? "" : ", ", spec.launch.params[i].type_name, names[i]);
  }
  out += fmt::format(") {{\n  {}<kConfig>(args, hooks);\n}}\n", spec.function);
  return out;
}

}  // namespace tilewright
