// The elementwise part of GraphBuilder, and its end: every form becomes a map; `build` checks the whole.
#include <cmath>
#include <limits>

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "ops/builder.h"
#include "ops/infer.h"
#include "ops/operators.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr double kLargestExactInteger = 9007199254740992.0;  // 2^53

Expr number_expr(double value) {
  const bool is_whole = std::isfinite(value) && std::trunc(value) == value && std::abs(value) <= kLargestExactInteger;
  // -0.0 is no integer.
  if (!is_whole || (value == 0.0 && std::signbit(value))) return constant_expr(value, DType::kF32);
  const bool is_small = value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
  return constant_expr(value, is_small ? DType::kI32 : DType::kI64);
}

}  // namespace

llvm::Expected<ValueId> GraphBuilder::map_expr(Expr expr, llvm::ArrayRef<ValueId> inputs, std::optional<DType> dtype, std::string name) {
  if (llvm::Error error = check_values("map", inputs)) return error;
  // A value given twice is read once.
  llvm::SmallVector<ValueId, 4> distinct;
  llvm::SmallVector<Expr, 4> replacement;
  for (const ValueId id : inputs) {
    if (!llvm::is_contained(distinct, id)) distinct.push_back(id);
    const auto slot = static_cast<unsigned>(llvm::find(distinct, id) - distinct.begin());
    replacement.push_back(operand_expr(slot, compute_type(graph_.value(id).dtype)));
  }
  MapAttributes attributes;
  attributes.expr = distinct.size() == inputs.size() ? std::move(expr) : substitute(expr, replacement);
  llvm::Expected<Inferred> result = infer_map(graph_, distinct, dtype, attributes);
  if (!result) return prefix_error(result.takeError(), "map: ");
  return add_op({std::move(attributes), std::move(distinct)}, result->dtype, result->shape, std::move(name));
}

llvm::Expected<ValueId> GraphBuilder::map(llvm::StringRef expr, llvm::ArrayRef<ValueId> inputs, std::optional<DType> dtype,
                                          std::string name) {
  if (llvm::Error error = check_values("map", inputs)) return error;
  llvm::SmallVector<llvm::StringRef, 4> names;
  llvm::SmallVector<DType, 4> types;
  for (const ValueId id : inputs) {
    if (llvm::is_contained(names, graph_.value(id).name)) {
      return make_error(Status::kInvalidArgument, "map: {} is given twice; name it twice in expr instead", operand_text(graph_, id, "in"));
    }
    names.push_back(graph_.value(id).name);
    types.push_back(compute_type(graph_.value(id).dtype));
  }
  llvm::Expected<Expr> parsed = parse_expression(expr, names, types);
  if (!parsed) return prefix_error(parsed.takeError(), "map: ");
  return map_expr(std::move(*parsed), inputs, dtype, std::move(name));
}

llvm::Expected<ValueId> GraphBuilder::named(llvm::StringRef form, llvm::ArrayRef<MapOperand> operands, std::optional<DType> dtype,
                                            std::string name) {
  const OperatorInfo* info = find_operator(form == "gelu_tanh" ? "gelu" : form);
  if (info == nullptr || info->expansion.empty() || info->name == "cast") {
    llvm::SmallVector<llvm::StringRef, 32> forms;
    for (const OperatorInfo& candidate : operator_table()) {
      if (!candidate.expansion.empty() && candidate.name != "cast") forms.push_back(candidate.name);
    }
    return make_error(Status::kInvalidArgument, "{}: not a named elementwise form{}", form, did_you_mean(form, forms));
  }
  if (operands.size() != info->operands.size()) {
    return make_error(Status::kInvalidArgument, "{}: expected {} operand{}, got {}", form, info->operands.size(),
                      info->operands.size() == 1 ? "" : "s", operands.size());
  }
  llvm::SmallVector<ValueId, 2> inputs;
  llvm::SmallVector<Expr, 2> replacement;
  llvm::SmallVector<llvm::StringRef, 2> names;
  llvm::SmallVector<DType, 2> types;
  for (auto [operand, role] : llvm::zip(operands, info->operands)) {
    names.push_back(role.name);
    if (const auto* id = std::get_if<ValueId>(&operand)) {
      if (llvm::Error error = check_values(form, *id)) return error;
      replacement.push_back(operand_expr(static_cast<unsigned>(inputs.size()), compute_type(graph_.value(*id).dtype)));
      inputs.push_back(*id);
    } else {
      replacement.push_back(number_expr(std::get<double>(operand)));
    }
    types.push_back(replacement.back()->type);
  }
  if (inputs.empty()) return make_error(Status::kInvalidArgument, "{}: expected at least one operand that is a value", form);
  llvm::Expected<Expr> parsed = parse_expression(form == "gelu_tanh" ? "gelu_tanh(x)" : info->expansion, names, types);
  if (!parsed) return parsed.takeError();
  llvm::Expected<ValueId> result = map_expr(substitute(*parsed, replacement), inputs, dtype, std::move(name));
  if (result) return result;
  ErrorFacts facts = take_error_facts(result.takeError());
  llvm::StringRef text = facts.message;
  text.consume_front("map: ");
  return make_error(facts.status, "{}: {}", form, text);
}

llvm::Expected<ValueId> GraphBuilder::cast(ValueId x, DType dtype, std::string name) {
  if (llvm::Error error = check_values("cast", x)) return error;
  return map_expr(operand_expr(0, compute_type(graph_.value(x).dtype)), x, dtype, std::move(name));
}

llvm::Error GraphBuilder::check_outputs(llvm::ArrayRef<ValueId> outputs) const {
  const std::string& graph = graph_.name_;
  if (outputs.empty()) return make_error(Status::kInvalidArgument, "{}: expected at least one output", graph);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] >= graph_.values_.size())
      return make_error(Status::kInvalidArgument, "{}: outputs: there is no value {}", graph, outputs[i]);
    const Value& value = graph_.value(outputs[i]);
    if (llvm::is_contained(outputs.take_front(i), outputs[i])) {
      return make_error(Status::kInvalidArgument, "{}: outputs: \"{}\" is given twice", graph, value.name);
    }
    if (!value.producer)
      return make_error(Status::kInvalidArgument, "{}: outputs: \"{}\" is an input; copy it with a map", graph, value.name);
  }
  return llvm::Error::success();
}

llvm::Error GraphBuilder::check_use(llvm::ArrayRef<ValueId> outputs) const {
  llvm::BitVector needed(static_cast<unsigned>(graph_.values_.size()));
  for (const ValueId id : outputs) needed.set(id);
  for (const Op& op : llvm::reverse(graph_.ops_)) {
    if (!needed.test(op.output)) continue;
    for (const ValueId id : op.inputs) needed.set(id);
  }
  llvm::SmallVector<unsigned, 4> symbols;
  for (ValueId id = 0; id < graph_.values_.size(); ++id) {
    const Value& value = graph_.value(id);
    if (!value.producer) {
      for (const SizeExpr& size : value.shape) size.collect_symbols(symbols);
    }
    if (needed.test(id)) continue;
    if (!value.producer) return make_error(Status::kInvalidArgument, "{}: input \"{}\" is read by no op", graph_.name_, value.name);
    const OpId op = *value.producer;
    return make_error(Status::kInvalidArgument, "{}: ops[{}] ({}) computes \"{}\", which no output needs", graph_.name_, op,
                      op_name(graph_.op(op)), value.name);
  }
  for (unsigned i = 0; i < graph_.symbols_.size(); ++i) {
    if (llvm::is_contained(symbols, i)) continue;
    return make_error(Status::kInvalidArgument, "{}: dimension {} is in no input's shape", graph_.name_, graph_.symbols_[i].name);
  }
  return llvm::Error::success();
}

llvm::Expected<Graph> GraphBuilder::build(llvm::ArrayRef<ValueId> outputs) && {
  if (graph_.precision_ == Precision::kBf16x3) {
    return make_error(Status::kUnsupported, "{}: precision \"bf16x3\" is not offered yet; use \"tf32x3\" or \"tf32\"", graph_.name_);
  }
  if (llvm::Error error = check_outputs(outputs)) return error;
  if (llvm::Error error = check_use(outputs)) return error;
  graph_.outputs_.assign(outputs.begin(), outputs.end());
  return std::move(graph_);
}

}  // namespace tilewright
