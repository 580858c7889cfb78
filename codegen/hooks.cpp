#include "codegen/hooks.h"

#include <algorithm>
#include <bit>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// Largest power of two (at most 64) that divides `value`; 64 for 0.
int power_of_two_divisor(std::int64_t value) { return value == 0 ? 64 : static_cast<int>(std::min<std::int64_t>(64, value & -value)); }

int power_of_two_divisor(const SizeExpr& size) { return size.is_constant() ? power_of_two_divisor(size.constant()) : 1; }

// "tw::NAME(" or "tw::NAME_if(wanted, ": what follows is the call's other arguments. NAME may have template arguments.
std::string call(llvm::StringRef name, HooksWriter::Guard guard) {
  if (guard == HooksWriter::Guard::kNone) return fmt::format("tw::{}(", name);
  const auto [function, arguments] = name.split('<');
  return fmt::format("tw::{}_if{}(wanted, ", function, name.drop_front(function.size()));
}

const char* guard_parameter(HooksWriter::Guard guard) { return guard == HooksWriter::Guard::kNone ? "" : ", bool wanted"; }

}  // namespace

HooksWriter::HooksWriter(const Graph& graph, const BufferMap& buffers) : graph_(graph), buffers_(buffers) {}

std::string HooksWriter::pointer(ValueId value, bool writable) {
  const BufferRef buffer = buffers_[value];
  for (const KernelArg& field : fields_) {
    if (field.buffer == buffer) return field.name;
  }
  const Value& v = graph_.value(value);
  KernelArg field;
  field.kind = KernelArg::Kind::kBuffer;
  field.buffer = buffer;
  field.name = writable ? "out" : fmt::format("in{}", fields_.size());
  fields_.push_back(field);
  members_ += fmt::format("  {}{}* {};  // {} {}\n", writable ? "" : "const ", storage_type_text(v.dtype), field.name, dtype_name(v.dtype),
                          shape_text(v.shape));
  std::int64_t extent = element_count(v.shape).upper_bound(graph_.symbols());
  if (!v.strides.empty()) {
    extent = 1;
    for (auto [size, stride] : llvm::zip(v.shape, v.strides)) extent += (size.upper_bound(graph_.symbols()) - 1) * std::abs(stride);
  }
  if (extent >= kIndex32Limit) fits_index32_ = false;
  return field.name;
}

// A vector access is at most 16 bytes wide.
void HooksWriter::note_vector_access(ValueId value) {
  vector_elems_ = std::min(vector_elems_, static_cast<int>(16 / dtype_bytes(graph_.value(value).dtype)));
}

void HooksWriter::note_space(const SizeExpr& elements) {
  if (elements.upper_bound(graph_.symbols()) >= kIndex32Limit) fits_index32_ = false;
}

std::string HooksWriter::size_text(const SizeExpr& size) {
  if (size.is_constant()) return std::to_string(size.constant());
  for (const auto& [expr, name] : size_fields_) {
    if (expr == size) return fmt::format("Index({})", name);
  }
  std::string name = fmt::format("size{}", size_fields_.size());
  size_fields_.emplace_back(size, name);
  return fmt::format("Index({})", name);
}

std::vector<HooksWriter::Axis> HooksWriter::leaf_axes(ValueId leaf, llvm::ArrayRef<SizeExpr> space) const {
  const Value& value = graph_.value(leaf);
  const std::size_t missing = space.size() - value.shape.size();
  std::vector<Axis> axes;  // innermost first while building
  SizeExpr row_major = 1;
  for (std::size_t d = space.size(); d-- > 0;) {
    SizeExpr stride = 0;
    if (d >= missing) {
      const SizeExpr& size = value.shape[d - missing];
      const bool broadcast = size.is_constant(1) && !space[d].is_constant(1);
      if (!broadcast) stride = value.strides.empty() ? row_major : SizeExpr(value.strides[d - missing]);
      row_major = row_major * size;
    }
    if (space[d].is_constant(1)) continue;
    if (!axes.empty()) {
      Axis& inner = axes.back();
      const bool both_broadcast = stride.is_constant(0) && inner.stride.is_constant(0);
      const bool contiguous = !inner.stride.is_constant(0) && stride == inner.stride * inner.size;
      if (both_broadcast || contiguous) {
        inner.size = inner.size * space[d];
        continue;
      }
    }
    axes.push_back({space[d], stride});
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

// Writes the statements that turn a logical index into the leaf's element offset; gives the offset's spelling.
std::string HooksWriter::scalar_offset(const std::vector<Axis>& axes, const std::string& index, const std::string& indent,
                                       const std::string& tag, std::string& out) {
  std::size_t outermost = 0;  // axes outside it are broadcast and need no index
  while (outermost < axes.size() && axes[outermost].stride.is_constant(0)) ++outermost;
  if (outermost == axes.size()) return "0";
  if (axes.size() == 1 && axes[0].stride.is_constant(1)) return index;
  std::string rest = index;
  std::string sum;
  for (std::size_t d = axes.size(); d-- > outermost;) {
    const bool last = d == 0;
    const std::string size = size_text(axes[d].size);
    if (!axes[d].stride.is_constant(0)) {
      std::string term = last ? rest : fmt::format("{} % {}", rest, size);
      if (!axes[d].stride.is_constant(1)) term = fmt::format("{} * {}", last ? rest : "(" + term + ")", size_text(axes[d].stride));
      sum += sum.empty() ? term : " + " + term;
    }
    if (d > outermost) {
      const std::string name = fmt::format("{}_{}", tag, d);
      out += fmt::format("{}const Index {} = {} / {};\n", indent, name, rest, size);
      rest = name;
    }
  }
  return sum;
}

// Loads every leaf of `map` as aS (an array of V, or a scalar where the leaf is one element for all).
void HooksWriter::write_leaf_loads(std::string& out, const FusedMap& map, llvm::ArrayRef<SizeExpr> space, Guard guard) {
  const std::string load_vector = call("load_vector<V>", guard), load_scalar = call("load_scalar", guard);
  for (auto [slot, leaf] : llvm::enumerate(map.leaves)) {
    if (leaf == FusedMap::kIncoming) continue;
    const Value& value = graph_.value(leaf);
    const std::string name = pointer(leaf, false);
    const std::string type = compute_type_text(value.dtype);
    const auto axes = leaf_axes(leaf, space);
    note_vector_access(leaf);
    out += fmt::format("    {} a{}[V];\n", type, slot);
    const bool identity = axes.empty() || (axes.size() == 1 && axes[0].stride.is_constant(1));
    if (identity) {
      out += fmt::format("    {}{} + i, a{});\n", load_vector, name, slot);
      continue;
    }
    // How many neighbours share one element, or lie side by side, at any index that is a multiple of that many.
    const bool splat = axes.back().stride.is_constant(0);
    int run = power_of_two_divisor(axes.back().size);
    if (axes.size() == 1) run = 64;
    if (!splat) {
      if (!axes.back().stride.is_constant(1)) run = 1;
      for (std::size_t d = 0; d + 1 < axes.size(); ++d) run = std::min(run, power_of_two_divisor(axes[d].stride));
    }
    std::string whole;
    const std::string offset = scalar_offset(axes, "i", "      ", fmt::format("q{}", slot), whole);
    if (run > 1) {
      out += fmt::format("    if constexpr (V <= {}) {{\n{}", run, whole);
      out += splat ? fmt::format("      tw::splat_vector<V>({}{} + {}), a{});\n", load_scalar, name, offset, slot)
                   : fmt::format("      {}{} + {}, a{});\n", load_vector, name, offset, slot);
      out += "    } else {\n";
    } else {
      out += "    {\n";
    }
    std::string each;
    const std::string element = scalar_offset(axes, "e", "        ", fmt::format("q{}", slot), each);
    out += "#pragma unroll\n      for (int k = 0; k < V; ++k) {\n";
    out += fmt::format("        const Index e = i + k;\n{}        a{}[k] = {}{} + {});\n      }}\n    }}\n", each, slot, load_scalar, name,
                       element);
  }
}

void HooksWriter::write_expression(std::string& out, const FusedMap& map, const std::string& indent, bool vector,
                                   const std::string& incoming, std::string& result) {
  llvm::SmallVector<std::string, 8> operands;
  for (auto [slot, leaf] : llvm::enumerate(map.leaves)) {
    operands.push_back(leaf == FusedMap::kIncoming ? incoming : fmt::format("a{}{}", slot, vector ? "[k]" : ""));
  }
  result = map.expr ? write_expression_statements(out, map.expr, operands, indent) : operands.empty() ? incoming : operands.front();
}

void HooksWriter::add_vector_load(const std::string& name, const FusedMap& map, llvm::ArrayRef<SizeExpr> space, Guard guard) {
  note_space(element_count(space));
  std::string body, result;
  write_leaf_loads(body, map, space, guard);
  body += "#pragma unroll\n    for (int k = 0; k < V; ++k) {\n";
  write_expression(body, map, "      ", true, "", result);
  // A map of zeros need not be zero.
  const bool select = guard == Guard::kWanted && !map.is_identity();
  body += fmt::format("      v[k] = {}Value({}){};\n    }}\n", select ? "wanted ? " : "", result, select ? " : Value(0)" : "");
  members_ += fmt::format("  template <int V>\n  __device__ __forceinline__ void {}(Index i, Value (&v)[V]{}) const {{\n{}  }}\n", name,
                          guard_parameter(guard), body);
}

void HooksWriter::add_scalar_load(const std::string& name, const FusedMap& map, llvm::ArrayRef<SizeExpr> space, const std::string& type,
                                  Guard guard) {
  note_space(element_count(space));
  std::string body, result;
  const auto finish = [&] {
    members_ += fmt::format("  __device__ __forceinline__ {} {}(Index i{}) const {{\n{}  }}\n", type, name, guard_parameter(guard), body);
  };
  for (auto [slot, leaf] : llvm::enumerate(map.leaves)) {
    const std::string pointer_name = pointer(leaf, false);
    const std::string offset = scalar_offset(leaf_axes(leaf, space), "i", "    ", fmt::format("q{}", slot), body);
    const bool raw = map.is_identity() && is_floating(graph_.value(leaf).dtype) && type == storage_type_text(graph_.value(leaf).dtype);
    if (raw) {
      body += fmt::format("    return {}{} + {});\n", call("load_raw", guard), pointer_name, offset);
      return finish();
    }
    body += fmt::format("    const {} a{} = {}{} + {});\n", compute_type_text(graph_.value(leaf).dtype), slot, call("load_scalar", guard),
                        pointer_name, offset);
  }
  write_expression(body, map, "    ", false, "", result);
  const bool narrow = type == "tw::f16" || type == "tw::bf16";
  std::string value = narrow ? fmt::format("tw::from_float<{}>({})", type, result) : fmt::format("{}({})", type, result);
  if (guard == Guard::kWanted && !map.is_identity()) value = fmt::format("wanted ? {} : {}{{}}", value, type);
  body += fmt::format("    return {};\n", value);
  finish();
}

void HooksWriter::add_vector_store(const std::string& name, const FusedMap& stage, ValueId result, const std::string& incoming_type,
                                   Guard guard) {
  const Value& out_value = graph_.value(result);
  std::string body, spelled;
  write_leaf_loads(body, stage, out_value.shape, guard);
  const std::string target = pointer(result, true);
  note_vector_access(result);
  body += fmt::format("    {} r[V];\n#pragma unroll\n    for (int k = 0; k < V; ++k) {{\n", compute_type_text(out_value.dtype));
  write_expression(body, stage, "      ", true, "v[k]", spelled);
  body += fmt::format("      r[k] = {}({});\n    }}\n    {}{} + i, r);\n", compute_type_text(out_value.dtype), spelled,
                      call("store_vector<V>", guard), target);
  members_ += fmt::format("  template <int V>\n  __device__ __forceinline__ void {}(Index i, const {} (&v)[V]{}) const {{\n{}  }}\n", name,
                          incoming_type, guard_parameter(guard), body);
}

void HooksWriter::add_scalar_store(const std::string& name, const FusedMap& stage, ValueId result, const std::string& incoming_type,
                                   Guard guard) {
  const Value& out_value = graph_.value(result);
  std::string body, spelled;
  for (auto [slot, leaf] : llvm::enumerate(stage.leaves)) {
    if (leaf == FusedMap::kIncoming) continue;
    const std::string source = pointer(leaf, false);
    const std::string offset = scalar_offset(leaf_axes(leaf, out_value.shape), "i", "    ", fmt::format("q{}", slot), body);
    body += fmt::format("    const {} a{} = {}{} + {});\n", compute_type_text(graph_.value(leaf).dtype), slot, call("load_scalar", guard),
                        source, offset);
  }
  const std::string target = pointer(result, true);
  write_expression(body, stage, "    ", false, "value", spelled);
  body += fmt::format("    {}{} + i, {}({}));\n", call("store_scalar", guard), target, compute_type_text(out_value.dtype), spelled);
  members_ += fmt::format("  __device__ __forceinline__ void {}(Index i, {} value{}) const {{\n{}  }}\n", name, incoming_type,
                          guard_parameter(guard), body);
}

void HooksWriter::add_scalar_map(const std::string& name, const FusedMap& stage, llvm::ArrayRef<SizeExpr> space, unsigned channel_axis) {
  note_space(element_count(space));
  std::string body, spelled;
  for (auto [slot, leaf] : llvm::enumerate(stage.leaves)) {
    if (leaf == FusedMap::kIncoming) continue;
    const Value& value = graph_.value(leaf);
    const std::string source = pointer(leaf, false);
    const std::size_t missing = space.size() - value.shape.size();
    bool by_channel = true;  // every other dimension of the leaf is broadcast
    for (std::size_t d = 0; d < value.shape.size(); ++d) {
      if (d + missing != channel_axis && !value.shape[d].is_constant(1)) by_channel = false;
    }
    const bool has_channel = channel_axis >= missing && !value.shape[channel_axis - missing].is_constant(1);
    std::string offset;
    if (by_channel && value.strides.empty()) {
      offset = has_channel ? "channel" : "0";
    } else {
      offset = scalar_offset(leaf_axes(leaf, space), "i", "    ", fmt::format("q{}", slot), body);
    }
    body += fmt::format("    const {} a{} = tw::load_scalar({} + {});\n", compute_type_text(value.dtype), slot, source, offset);
  }
  write_expression(body, stage, "    ", false, "value", spelled);
  body += fmt::format("    return float({});\n", spelled);
  members_ += fmt::format("  __device__ __forceinline__ float {}(float value, Index i, int channel) const {{\n{}  }}\n", name, body);
}

void HooksWriter::add_vector_apply(const std::string& name, const FusedMap& map, ValueId result) {
  const Value& out_value = graph_.value(result);
  note_space(element_count(out_value.shape));
  std::string body, spelled;
  write_leaf_loads(body, map, out_value.shape, Guard::kNone);
  const std::string target = pointer(result, true);
  note_vector_access(result);
  body += fmt::format("    {} r[V];\n#pragma unroll\n    for (int k = 0; k < V; ++k) {{\n", compute_type_text(out_value.dtype));
  write_expression(body, map, "      ", true, "", spelled);
  body += fmt::format("      r[k] = {}({});\n    }}\n    tw::store_vector<V>({} + i, r);\n", compute_type_text(out_value.dtype), spelled,
                      target);
  members_ += fmt::format("  template <int V>\n  __device__ __forceinline__ void {}(Index i) const {{\n{}  }}\n", name, body);
}

void HooksWriter::add_member(const std::string& line) { members_ += fmt::format("  {}\n", line); }

int HooksWriter::vector_limit(int limit) const {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(1, std::min(limit, vector_elems_)))));
}

std::string HooksWriter::text(bool index64, const std::string& value_type) const {
  std::string out = "struct Hooks {\n";
  out += fmt::format("  using Index = {};\n", index64 ? "tw::i64" : "tw::i32");
  if (!value_type.empty()) out += fmt::format("  using Value = {};\n", value_type);
  out += members_;
  for (const auto& [size, name] : size_fields_) out += fmt::format("  tw::i64 {};  // {}\n", name, size.str(graph_.symbols()));
  return out + "};\n";
}

KernelParam HooksWriter::param() const {
  KernelParam param{"Hooks", fields_};
  for (const auto& [size, name] : size_fields_) {
    KernelArg field;
    field.kind = KernelArg::Kind::kInt64;
    field.name = name;
    field.value = size;
    param.fields.push_back(field);
  }
  return param;
}

}  // namespace tilewright
