#include "codegen/lower.h"

#include <algorithm>

#include "codegen/lowering.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// A workspace buffer and the last kernel that reads it.
struct Slot {
  std::uint32_t index;
  std::size_t last_use;
};

// The workspace buffer of what kernel `index` writes: one that no later kernel reads, else a new one.
std::uint32_t workspace_slot(const Graph& graph, const Plan& plan, std::size_t index, llvm::SmallVectorImpl<Slot>& slots,
                             std::vector<WorkspaceSpec>& workspace) {
  const ValueId id = plan.groups[index].result;
  const Value& value = graph.value(id);
  const SizeExpr bytes = element_count(value.shape) * static_cast<std::int64_t>(dtype_bytes(value.dtype));
  std::size_t last_use = index;
  for (std::size_t reader = index + 1; reader < plan.groups.size(); ++reader) {
    if (llvm::is_contained(plan.groups[reader].reads, id)) last_use = reader;
  }
  // One of the same size first, so that none grows without need.
  Slot* chosen = nullptr;
  for (Slot& slot : slots) {
    if (slot.last_use >= index) continue;
    if (!chosen || workspace[slot.index].bytes == bytes) chosen = &slot;
    if (workspace[slot.index].bytes == bytes) break;
  }
  if (!chosen) {
    slots.push_back({static_cast<std::uint32_t>(workspace.size()), last_use});
    workspace.push_back({value.name, bytes, false});
    return slots.back().index;
  }
  chosen->last_use = last_use;
  WorkspaceSpec& reused = workspace[chosen->index];
  reused.name += ", " + value.name;
  reused.bytes = max(reused.bytes, bytes);
  return chosen->index;
}

// Buffers of every value: the program's boundary first, then workspace for the values that cross from kernel to kernel.
BufferMap assign_buffers(const Graph& graph, const Plan& plan, LaunchRecipe& recipe) {
  BufferMap buffers(graph.values().size());
  auto spec = [&](ValueId id) {
    const Value& value = graph.value(id);
    return TensorSpec{value.name, value.dtype, value.shape, value.strides};
  };
  for (ValueId id : graph.inputs()) {
    buffers[id] = {BufferKind::kInput, static_cast<std::uint32_t>(recipe.inputs.size())};
    recipe.inputs.push_back(spec(id));
  }
  for (ValueId id : graph.outputs()) {
    buffers[id] = {BufferKind::kOutput, static_cast<std::uint32_t>(recipe.outputs.size())};
    recipe.outputs.push_back(spec(id));
  }
  llvm::SmallVector<Slot, 8> slots;
  for (auto [index, group] : llvm::enumerate(plan.groups)) {
    if (graph.is_output(group.result)) continue;
    buffers[group.result] = {BufferKind::kWorkspace, workspace_slot(graph, plan, index, slots, recipe.workspace)};
  }
  return buffers;
}

llvm::Expected<KernelSpec> lower_group(Lowering& lowering) {
  switch (lowering.group.kind) {
    case TemplateKind::kElementwise:
      return lower_elementwise(lowering);
    case TemplateKind::kRow:
      return lower_row(lowering);
    case TemplateKind::kReduce:
      return lower_reduce(lowering);
    case TemplateKind::kColumn:
      return lower_column(lowering);
    case TemplateKind::kStencil:
      return lower_stencil(lowering);
    case TemplateKind::kConv:
      return lower_conv(lowering);
    case TemplateKind::kConvDirect:
      return lower_conv_direct(lowering);
  }
  return make_error(Status::kInternal, "group of unknown template");
}

// "reduce.min", "conv": the word a person knows an op by.
std::string op_word(const Op& op) {
  if (const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes)) return reduce_kind_name(reduce->kind).str();
  return op_name(op).str();
}

std::string entry_name(const Graph& graph, const Group& group) {
  std::string name = "tw";
  std::string last;
  for (OpId id : group.ops) {
    std::string word = op_word(graph.op(id));
    if (word != last) name += "_" + word;
    last = std::move(word);
  }
  constexpr std::size_t kMaxName = 80;  // a long elementwise chain says enough in its first ops
  return name.substr(0, kMaxName);
}

std::string title(const Graph& graph, const Group& group) {
  std::string text;
  for (OpId id : group.ops) {
    const Value& out = graph.value(graph.op(id).output);
    text += fmt::format("{}{} -> {} {}", text.empty() ? "" : ", ", op_word(graph.op(id)), dtype_name(out.dtype), shape_text(out.shape));
  }
  return text;
}

llvm::Error check_overrides(const ConfigOverrides& overrides, const std::set<std::string>& used, const LoweredProgram& program) {
  for (const auto& [name, value] : overrides) {
    if (used.count(name) != 0) continue;
    std::vector<std::string> known;
    for (const LoweredKernel& kernel : program.kernels) {
      for (const auto& [parameter, chosen] : kernel.parameters) {
        if (!llvm::is_contained(known, parameter)) known.push_back(parameter);
      }
    }
    std::vector<llvm::StringRef> refs(known.begin(), known.end());
    const llvm::StringRef nearest = nearest_name(name, refs);
    return make_error(Status::kInvalidArgument, "config: no kernel of this program has a parameter {}{}; parameters: {}", name,
                      nearest.empty() ? std::string() : fmt::format(", did you mean {}?", nearest), fmt::join(known, ", "));
  }
  return llvm::Error::success();
}

}  // namespace

std::int64_t Lowering::parameter(const std::string& name, std::int64_t fallback) {
  std::int64_t value = fallback;
  for (const std::string& key : {name, fmt::format("{}.{}", index, name)}) {
    if (auto found = overrides.find(key); found != overrides.end()) {
      value = found->second;
      used_overrides.insert(key);
    }
  }
  parameters.emplace_back(name, value);
  return value;
}

BufferRef Lowering::add_workspace(std::string name, SizeExpr bytes, bool zero_initialized) {
  workspace.push_back({std::move(name), std::move(bytes), zero_initialized});
  return {BufferKind::kWorkspace, static_cast<std::uint32_t>(workspace.size() - 1)};
}

std::string baked(const SizeExpr& size) { return size.is_constant() ? std::to_string(size.constant()) : "0"; }

KernelArg arg_i64(std::string name, SizeExpr value) {
  KernelArg arg;
  arg.kind = KernelArg::Kind::kInt64;
  arg.name = std::move(name);
  arg.value = std::move(value);
  return arg;
}

KernelArg arg_f32(std::string name, float value) {
  KernelArg arg;
  arg.kind = KernelArg::Kind::kFloat32;
  arg.name = std::move(name);
  arg.number = value;
  return arg;
}

KernelArg arg_buffer(std::string name, BufferRef buffer) {
  KernelArg arg;
  arg.kind = KernelArg::Kind::kBuffer;
  arg.name = std::move(name);
  arg.buffer = buffer;
  return arg;
}

KernelArg arg_misalignment() {
  KernelArg arg;
  arg.kind = KernelArg::Kind::kMisalignment;
  arg.name = "misalignment";
  return arg;
}

llvm::Error check_parameter(bool ok, const Lowering& lowering, llvm::StringRef parameter, std::int64_t value, llvm::StringRef wanted) {
  if (ok) return llvm::Error::success();
  return make_error(Status::kInvalidArgument, "config: {} = {} does not suit the {} template here, wanted {}", parameter, value,
                    template_name(lowering.group.kind), wanted);
}

llvm::Error check_block_threads(const Lowering& lowering, std::int64_t threads) {
  return check_parameter(threads >= 32 && threads <= 1024 && threads % 32 == 0, lowering, "block_threads", threads,
                         "a multiple of 32 from 32 to 1024");
}

llvm::Error check_vector_elems(const Lowering& lowering, std::int64_t vector, const HooksWriter& hooks) {
  const int limit = hooks.vector_limit(16);
  const bool good = vector >= 1 && vector <= limit && (vector & (vector - 1)) == 0;
  return check_parameter(good, lowering, "vector_elems", vector, fmt::format("a power of two up to {}", limit));
}

llvm::Expected<LoweredProgram> lower(const Graph& graph, const Plan& plan, const DeviceModel& device, const ConfigOverrides& overrides) {
  LoweredProgram program;
  program.recipe.symbols.assign(graph.symbols().begin(), graph.symbols().end());
  const BufferMap buffers = assign_buffers(graph, plan, program.recipe);
  std::set<std::string> used_overrides;
  for (auto [index, group] : llvm::enumerate(plan.groups)) {
    Lowering lowering{graph, group, device, buffers, overrides, program.recipe.workspace, used_overrides, index};
    auto spec = lower_group(lowering);
    if (!spec) return spec.takeError();
    spec->launch.entry = entry_name(graph, group);
    spec->title = title(graph, group);
    spec->why = group.reason;
    LoweredKernel kernel{std::move(*spec), "", std::move(lowering.parameters)};
    kernel.source = emit(kernel.spec);
    program.recipe.kernels.push_back(kernel.spec.launch);
    program.kernels.push_back(std::move(kernel));
  }
  if (llvm::Error error = check_overrides(overrides, used_overrides, program)) return error;
  return program;
}

Cost group_cost(const Graph& graph, const Group& group, llvm::ArrayRef<std::int64_t> dims) {
  Cost cost;
  for (OpId id : group.ops) cost.flops += op_cost(graph, id, dims).flops;
  auto bytes = [&](ValueId id) {
    const Value& value = graph.value(id);
    return static_cast<std::uint64_t>(element_count(value.shape).evaluate(dims)) * dtype_bytes(value.dtype);
  };
  for (ValueId id : group.reads) cost.bytes += bytes(id);
  cost.bytes += bytes(group.result);
  return cost;
}

std::string plan_text(const Graph& graph, const Plan& plan, const LoweredProgram& program, llvm::ArrayRef<std::int64_t> dims) {
  std::string out = fmt::format("{}: {} op{}, {} kernel{}\n", graph.name(), graph.ops().size(), graph.ops().size() == 1 ? "" : "s",
                                plan.groups.size(), plan.groups.size() == 1 ? "" : "s");
  Cost total;
  for (auto [index, group] : llvm::enumerate(plan.groups)) {
    const LoweredKernel& kernel = program.kernels[index];
    const Cost cost = group_cost(graph, group, dims);
    total.bytes += cost.bytes;
    total.flops += cost.flops;
    std::vector<std::string> ops;
    for (OpId id : group.ops) ops.push_back(fmt::format("{}({})", op_word(graph.op(id)), graph.value(graph.op(id).output).name));
    const auto& launch = kernel.spec.launch;
    out += fmt::format("  kernel {}: {}\n    template {}: {}\n    ops: {}\n", index, launch.entry, template_name(group.kind), group.reason,
                       fmt::join(ops, " -> "));
    out +=
        fmt::format("    grid [{}, {}, {}], block {}, dynamic shared {} B\n", launch.grid[0].evaluate(dims), launch.grid[1].evaluate(dims),
                    launch.grid[2].evaluate(dims), launch.block[0] * launch.block[1] * launch.block[2], launch.dynamic_shared_bytes);
    std::vector<std::string> parameters;
    for (const auto& [name, value] : kernel.parameters) parameters.push_back(fmt::format("{}={}", name, value));
    out += fmt::format("    config: {}\n    bytes {}, flops {}\n", fmt::join(parameters, " "), cost.bytes, cost.flops);
  }
  const Cost floor = graph_cost(graph, dims);
  out += fmt::format("  all kernels: bytes {}, flops {}; floor of the graph: bytes {}, flops {}\n", total.bytes, total.flops, floor.bytes,
                     floor.flops);
  return out;
}

}  // namespace tilewright
