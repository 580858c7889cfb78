#include "codegen/space.h"

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"
#include "runtime/hash.h"
#include "runtime/integer.h"

namespace tilewright {
namespace {

const std::vector<std::int64_t> kBlockThreads{64, 128, 256, 512, 1024};
constexpr llvm::StringRef kBlockMeaning = "threads a block";
constexpr llvm::StringRef kVectorMeaning = "elements of one load or store";

std::vector<TemplateParameter> elementwise_parameters() {
  return {{"block_threads", kBlockThreads, kBlockMeaning},
          {"vector_elems", {1, 2, 4, 8, 16}, kVectorMeaning},
          {"vectors_per_thread", {1, 2, 4, 8}, "vectors a thread has in flight"}};
}

std::vector<TemplateParameter> row_parameters() {
  return {{"block_threads", kBlockThreads, kBlockMeaning},
          {"row_threads", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, "threads that share a row"},
          {"vector_elems", {1, 2, 4, 8}, kVectorMeaning},
          {"vectors_per_thread", {1, 2, 3, 4, 6, 8, 12, 16}, "vectors of a row that a thread holds in registers"}};
}

std::vector<TemplateParameter> reduce_parameters() {
  return {{"block_threads", kBlockThreads, kBlockMeaning},
          {"team_threads", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, "threads that share an output"},
          {"vector_elems", {1, 2, 4, 8}, kVectorMeaning},
          {"unroll", {1, 2, 4, 8}, "vectors a thread has in flight"},
          {"splits", {1, 2, 4, 8, 16, 32, 64, 128, 256}, "blocks that share an output"}};
}

std::vector<TemplateParameter> column_parameters() {
  return {{"vector_elems", {1, 2, 4, 8}, "columns of a thread"},
          {"block_threads", kBlockThreads, kBlockMeaning},
          {"axis_threads", {1, 2, 4, 8, 16, 32}, "threads that share a column"}};
}

std::vector<TemplateParameter> stencil_parameters() {
  return {{"vector_elems", {1, 2, 4, 8}, kVectorMeaning},
          {"line", {0, 1}, "1: a warp owns a piece of a line; 0: a thread owns a tile"},
          {"block_threads", kBlockThreads, kBlockMeaning},
          {"vectors_per_thread", {1, 2, 4, 8}, "vectors of a line, or rows of a tile, that a thread owns"}};
}

std::vector<TemplateParameter> conv_parameters() {
  return {{"warps", {2, 4, 6, 8, 12, 16}, "warps a block"},
          {"m_tiles", {1, 2, 4}, "tiles of 16 pixels a warp"},
          {"n_tiles", {1, 2, 3, 4, 6, 8, 16}, "tiles of 8 output channels a block"},
          {"tile_y", {1, 2, 4, 6, 8, 12, 16}, "rows of output pixels a block"},
          {"tile_x", {16, 32, 64, 128}, "output pixels of a row a block"},
          {"chunk_channels", {1, 2, 4, 8, 16, 32}, "input channels staged at a time"},
          {"planes_per_block", {1, 2, 4, 8, 16}, "output planes a block walks through"},
          {"unroll", {1, 2, 4, 8}, "steps of the product written out"},
          {"prefetch", {0, 1}, "1: the next plane is loaded into registers during the product"},
          {"flush_steps", {0, 10, 20, 40}, "steps after which split products are added to the sum; 0: never"},
          {"min_blocks_per_sm", {0, 1, 2, 3, 4}, "blocks a multiprocessor the compiler makes room for; 0: as it likes"},
          {"stream", {0, 1}, "1: planes stream through blocks that stay, products on wgmma"},
          {"warpgroups", {1, 2, 3, 4, 5}, "warpgroups that multiply, with stream"},
          {"stages", {6, 8, 9, 10, 12, 15, 18}, "planes in the ring, with stream"}};
}

std::vector<TemplateParameter> conv_direct_parameters() {
  return {{"block_threads", kBlockThreads, kBlockMeaning},
          {"channels_per_thread", {1, 2, 4, 8}, "output channels of a thread"},
          {"pixels_per_thread", {1, 2, 4}, "output pixels of a thread"}};
}

// "1." for kernel 1 of several, "" for the only one.
std::string prefix(std::size_t kernel, std::size_t kernels) { return kernels > 1 ? fmt::format("{}.", kernel) : ""; }

}  // namespace

llvm::ArrayRef<TemplateParameter> template_parameters(TemplateKind kind) {
  static const std::vector<TemplateParameter> kElementwise = elementwise_parameters(), kRow = row_parameters(),
                                              kReduce = reduce_parameters(), kColumn = column_parameters(), kStencil = stencil_parameters(),
                                              kConv = conv_parameters(), kConvDirect = conv_direct_parameters();
  switch (kind) {
    case TemplateKind::kElementwise:
      return kElementwise;
    case TemplateKind::kRow:
      return kRow;
    case TemplateKind::kReduce:
      return kReduce;
    case TemplateKind::kColumn:
      return kColumn;
    case TemplateKind::kStencil:
      return kStencil;
    case TemplateKind::kConv:
      return kConv;
    case TemplateKind::kConvDirect:
      return kConvDirect;
  }
  return {};
}

std::int64_t Space::combinations() const {
  std::int64_t count = 1;
  for (const SpaceParameter& parameter : parameters) count = saturating_mul(count, static_cast<std::int64_t>(parameter.values.size()));
  return count;
}

ConfigOverrides Space::combination(std::int64_t index) const {
  ConfigOverrides config;
  for (const SpaceParameter& parameter : llvm::reverse(parameters)) {
    const auto count = static_cast<std::int64_t>(parameter.values.size());
    config[parameter.name] = parameter.values[static_cast<std::size_t>(index % count)];
    index /= count;
  }
  return config;
}

ConfigOverrides Space::default_config() const {
  ConfigOverrides config;
  for (const SpaceParameter& parameter : parameters) config[parameter.name] = parameter.fallback;
  return config;
}

std::string Space::identity() const {
  std::string text;
  for (const SpaceParameter& parameter : parameters) text += fmt::format("{}:{};", parameter.name, fmt::join(parameter.values, ","));
  return digest_hex(blake3(text)).substr(0, 16);
}

llvm::Expected<Space> make_space(const Graph& graph, const CompileOptions& options) {
  CompileOptions defaults = options;
  defaults.overrides.clear();
  auto prepared = prepare_program(graph, defaults);
  if (!prepared) return prepared.takeError();
  Space space;
  const std::size_t kernels = prepared->lowered.kernels.size();
  for (auto [index, kernel] : llvm::enumerate(prepared->lowered.kernels)) {
    const auto documented = template_parameters(prepared->plan.groups[index].kind);
    for (const auto& [name, chosen] : kernel.parameters) {
      const auto* entry = llvm::find_if(documented, [&](const TemplateParameter& p) { return p.name == name; });
      if (entry == documented.end()) return make_error(Status::kInternal, "space: parameter {} has no values", name);
      SpaceParameter parameter{prefix(index, kernels) + name, entry->values, chosen, entry->meaning.str()};
      if (!llvm::is_contained(parameter.values, chosen)) parameter.values.push_back(chosen);
      llvm::sort(parameter.values);
      space.parameters.push_back(std::move(parameter));
    }
  }
  return space;
}

llvm::Error check_config(const Graph& graph, const CompileOptions& options, const Space& space, const ConfigOverrides& config) {
  for (const auto& [name, value] : config) {
    const auto found = llvm::find_if(space.parameters, [&, &name = name](const SpaceParameter& p) { return p.name == name; });
    if (found == space.parameters.end()) return make_error(Status::kInvalidArgument, "config: {} is no parameter of this space", name);
    if (!llvm::is_contained(found->values, value)) {
      return make_error(Status::kInvalidArgument, "config: {} = {} is not in the space, values: {}", name, value,
                        fmt::join(found->values, ", "));
    }
  }
  CompileOptions chosen = options;
  chosen.overrides = config;
  auto prepared = prepare_program(graph, chosen);
  return prepared ? llvm::Error::success() : prepared.takeError();
}

std::string config_text(const ConfigOverrides& config) {
  std::string text;
  for (const auto& [name, value] : config) text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  return "{" + text + "}";
}

std::string space_text(const Graph& graph, const Space& space) {
  std::string text = fmt::format("{}: {} parameters, {} combinations (those that do not hold together are refused), space {}\n",
                                 graph.name(), space.parameters.size(), space.combinations(), space.identity());
  for (const SpaceParameter& parameter : space.parameters) {
    std::vector<std::string> values;
    for (std::int64_t value : parameter.values)
      values.push_back(value == parameter.fallback ? fmt::format("[{}]", value) : std::to_string(value));
    text += fmt::format("  {:<22} {:<44} {}\n", parameter.name, fmt::format("{}", fmt::join(values, " ")), parameter.meaning);
  }
  return text + fmt::format("default, in brackets: {}\n", config_text(space.default_config()));
}

}  // namespace tilewright
