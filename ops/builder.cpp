#include "ops/builder.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "ops/infer.h"
#include "ops/operators.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

bool is_identifier(llvm::StringRef name) {
  if (name.empty() || !(llvm::isAlpha(name[0]) || name[0] == '_')) return false;
  return llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

// Literals of the expression language cannot name values.
bool is_reserved(llvm::StringRef name) { return name == "inf" || name == "nan" || name == "true" || name == "false"; }

// Empty dimensions count as one, so that row-major strides cannot overflow either.
std::int64_t largest_extent(llvm::ArrayRef<SizeExpr> shape, llvm::ArrayRef<std::int64_t> dims) {
  SizeExpr count = 1;
  for (const SizeExpr& size : shape) count = count * std::max<std::int64_t>(1, size.evaluate(dims));
  return count.constant();
}

llvm::Error check_shape(const Graph& graph, llvm::ArrayRef<SizeExpr> shape, llvm::StringRef what) {
  const std::string text = shape_text(shape, graph.symbols());
  llvm::SmallVector<std::int64_t, 4> least;
  for (const Symbol& symbol : graph.symbols()) least.push_back(symbol.min);
  for (const SizeExpr& size : shape) {
    if (size.lower_bound(graph.symbols()) >= 0) continue;
    return make_error(Status::kInvalidArgument, "{}: dimension {} of shape {} is negative", what, size.str(graph.symbols()), text);
  }
  if (std::max(largest_extent(shape, graph.default_dims()), largest_extent(shape, least)) <= kMaxElements) return llvm::Error::success();
  return make_error(Status::kInvalidArgument, "{}: shape {} has more than 2^62 elements", what, text);
}

bool is_row_major(llvm::ArrayRef<SizeExpr> shape, llvm::ArrayRef<std::int64_t> strides) {
  SizeExpr expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (!shape[i].is_constant(1) && !expected.is_constant(strides[i])) return false;
    expected = expected * shape[i];
  }
  return true;
}

llvm::Error check_strides(const Graph& graph, llvm::ArrayRef<SizeExpr> shape, llvm::ArrayRef<std::int64_t> strides, llvm::StringRef what) {
  if (strides.size() != shape.size()) {
    return make_error(Status::kInvalidArgument, "{}: expected {} strides for shape {}, got {}", what, shape.size(),
                      shape_text(shape, graph.symbols()), strides.size());
  }
  SizeExpr extent = 1;
  const llvm::SmallVector<std::int64_t, 4> dims = graph.default_dims();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] < 0) return make_error(Status::kInvalidArgument, "{}: strides must not be negative, got {}", what, strides[i]);
    extent = extent + SizeExpr(std::max<std::int64_t>(0, shape[i].evaluate(dims) - 1)) * strides[i];
  }
  if (extent.constant() <= kMaxElements) return llvm::Error::success();
  return make_error(Status::kInvalidArgument, "{}: strides reach beyond 2^62 elements for shape {}", what,
                    shape_text(shape, graph.symbols()));
}

}  // namespace

std::string shape_of(const Graph& graph, ValueId id) { return shape_text(graph.value(id).shape, graph.symbols()); }

std::string operand_text(const Graph& graph, ValueId id, llvm::StringRef role) {
  const std::string& name = graph.value(id).name;
  return name == role ? fmt::format("operand {}", role) : fmt::format("operand {} \"{}\"", role, name);
}

llvm::Error check_floating(const Graph& graph, ValueId id, llvm::StringRef role) {
  const DType dtype = graph.value(id).dtype;
  if (is_floating(dtype)) return llvm::Error::success();
  return make_error(Status::kInvalidArgument, "{}: expected dtype f32, f16 or bf16, got {}", operand_text(graph, id, role),
                    dtype_name(dtype));
}

llvm::Expected<unsigned> resolve_axis(std::int64_t axis, std::size_t rank, llvm::StringRef what) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (rank == 0) return make_error(Status::kInvalidArgument, "{}: {} is given, but the operand is a scalar", what, axis);
  if (axis < -signed_rank || axis >= signed_rank) {
    return make_error(Status::kInvalidArgument, "{}: expected a number in [{}, {}], got {}", what, -signed_rank, signed_rank - 1, axis);
  }
  return static_cast<unsigned>(axis < 0 ? axis + signed_rank : axis);
}

GraphBuilder::GraphBuilder(std::string name, Precision precision) {
  graph_.name_ = std::move(name);
  graph_.precision_ = precision;
}

void GraphBuilder::set_deterministic(bool deterministic) { graph_.deterministic_ = deterministic; }

llvm::Expected<SizeExpr> GraphBuilder::dim(Symbol symbol) {
  const auto has_name = [&](const Symbol& other) { return other.name == symbol.name; };
  if (!is_identifier(symbol.name))
    return make_error(Status::kInvalidArgument, "dimension \"{}\": the name must be an identifier", symbol.name);
  if (llvm::any_of(graph_.symbols_, has_name) || llvm::any_of(graph_.baked_, has_name)) {
    return make_error(Status::kInvalidArgument, "dimension {}: declared twice", symbol.name);
  }
  if (symbol.min < 0 || symbol.max < symbol.min) {
    return make_error(Status::kInvalidArgument, "dimension {}: the range [{}, {}] is empty or negative", symbol.name, symbol.min,
                      symbol.max);
  }
  if (symbol.default_value < symbol.min || symbol.default_value > symbol.max) {
    return make_error(Status::kInvalidArgument, "dimension {}: {} is outside its range [{}, {}]", symbol.name, symbol.default_value,
                      symbol.min, symbol.max);
  }
  graph_.symbols_.push_back(std::move(symbol));
  return SizeExpr::symbol(static_cast<unsigned>(graph_.symbols_.size() - 1));
}

llvm::Expected<SizeExpr> GraphBuilder::baked_dim(Symbol symbol) {
  llvm::Expected<SizeExpr> checked = dim(std::move(symbol));
  if (!checked) return checked;
  graph_.baked_.push_back(std::move(graph_.symbols_.back()));
  graph_.symbols_.pop_back();
  return SizeExpr(graph_.baked_.back().default_value);
}

llvm::Error GraphBuilder::check_new_value_name(llvm::StringRef name) const {
  if (!is_identifier(name) || is_reserved(name)) {
    return make_error(Status::kInvalidArgument, "value \"{}\": the name must be an identifier other than inf, nan, true, false", name);
  }
  for (const Value& value : graph_.values_) {
    if (value.name == name) return make_error(Status::kInvalidArgument, "value {}: the name is taken", name);
  }
  return llvm::Error::success();
}

std::string GraphBuilder::fresh_name() const {
  for (std::size_t i = graph_.values_.size();; ++i) {
    std::string name = fmt::format("v{}", i);
    if (llvm::none_of(graph_.values_, [&](const Value& value) { return value.name == name; })) return name;
  }
}

llvm::Expected<ValueId> GraphBuilder::input(std::string name, DType dtype, Shape shape, llvm::ArrayRef<std::int64_t> strides) {
  if (llvm::Error error = check_new_value_name(name)) return error;
  const std::string what = fmt::format("input {}", name);
  if (llvm::Error error = check_shape(graph_, shape, what)) return error;
  Value value{std::move(name), dtype, std::move(shape), {}, std::nullopt};
  if (!strides.empty()) {
    if (llvm::Error error = check_strides(graph_, value.shape, strides, what)) return error;
    if (!is_row_major(value.shape, strides)) value.strides.assign(strides.begin(), strides.end());
  }
  const auto id = static_cast<ValueId>(graph_.values_.size());
  graph_.values_.push_back(std::move(value));
  graph_.inputs_.push_back(id);
  return id;
}

llvm::Error GraphBuilder::check_values(llvm::StringRef op, llvm::ArrayRef<ValueId> values) const {
  for (const ValueId id : values) {
    if (id >= graph_.values_.size()) return make_error(Status::kInvalidArgument, "{}: there is no value {}", op, id);
  }
  return llvm::Error::success();
}

llvm::Expected<ValueId> GraphBuilder::add_op(Op op, DType dtype, Shape shape, std::string name) {
  if (name.empty()) name = fresh_name();
  const std::string what = op_name(op).str();
  if (llvm::Error error = check_new_value_name(name)) return prefix_error(std::move(error), what + ": ");
  if (llvm::Error error = check_shape(graph_, shape, what + ": result")) return error;
  const auto id = static_cast<ValueId>(graph_.values_.size());
  op.output = id;
  graph_.values_.push_back({std::move(name), dtype, std::move(shape), {}, static_cast<OpId>(graph_.ops_.size())});
  graph_.ops_.push_back(std::move(op));
  return id;
}

llvm::Expected<ValueId> GraphBuilder::conv(ValueId x, ValueId w, std::optional<ValueId> bias, const ConvAttributes& attributes,
                                           std::string name) {
  llvm::SmallVector<ValueId, 4> inputs{x, w};
  if (bias) inputs.push_back(*bias);
  if (llvm::Error error = check_values("conv", inputs)) return error;
  ConvAttributes complete = attributes;
  llvm::Expected<Inferred> result = infer_conv(graph_, inputs, complete);
  if (!result) return prefix_error(result.takeError(), "conv: ");
  return add_op({std::move(complete), std::move(inputs)}, result->dtype, result->shape, std::move(name));
}

llvm::Expected<ValueId> GraphBuilder::reduce(ValueId x, ReduceKind kind, llvm::ArrayRef<std::int64_t> axes, bool keepdims,
                                             std::string name) {
  if (llvm::Error error = check_values("reduce", x)) return error;
  ReduceAttributes attributes{kind, {}, keepdims};
  if (axes.empty()) return make_error(Status::kInvalidArgument, "reduce: axes: expected at least one axis of x {}", shape_of(graph_, x));
  for (const std::int64_t axis : axes) {
    llvm::Expected<unsigned> resolved = resolve_axis(axis, graph_.value(x).shape.size(), fmt::format("axes of x {}", shape_of(graph_, x)));
    if (!resolved) return prefix_error(resolved.takeError(), "reduce: ");
    if (llvm::is_contained(attributes.axes, *resolved))
      return make_error(Status::kInvalidArgument, "reduce: axes: axis {} is given twice", *resolved);
    attributes.axes.push_back(*resolved);
  }
  llvm::sort(attributes.axes);
  llvm::Expected<Inferred> result = infer_reduce(graph_, x, attributes);
  if (!result) return prefix_error(result.takeError(), "reduce: ");
  return add_op({std::move(attributes), {x}}, result->dtype, result->shape, std::move(name));
}

llvm::Expected<ValueId> GraphBuilder::softmax(ValueId x, std::int64_t axis, std::string name) {
  if (llvm::Error error = check_values("softmax", x)) return error;
  llvm::Expected<unsigned> resolved = resolve_axis(axis, graph_.value(x).shape.size(), fmt::format("axis of x {}", shape_of(graph_, x)));
  if (!resolved) return prefix_error(resolved.takeError(), "softmax: ");
  const SoftmaxAttributes attributes{*resolved};
  llvm::Expected<Inferred> result = infer_softmax(graph_, x, attributes);
  if (!result) return prefix_error(result.takeError(), "softmax: ");
  return add_op({attributes, {x}}, result->dtype, result->shape, std::move(name));
}

llvm::Expected<ValueId> GraphBuilder::cross_entropy(ValueId logits, ValueId targets, const CrossEntropyAttributes& attributes,
                                                    std::string name) {
  if (llvm::Error error = check_values("cross_entropy", {logits, targets})) return error;
  llvm::Expected<Inferred> result = infer_cross_entropy(graph_, {logits, targets}, attributes);
  if (!result) return prefix_error(result.takeError(), "cross_entropy: ");
  return add_op({attributes, {logits, targets}}, result->dtype, result->shape, std::move(name));
}

}  // namespace tilewright
