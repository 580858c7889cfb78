#include "codegen/plan.h"

#include <algorithm>
#include <initializer_list>

#include "codegen/planning.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// More leaves than this in one kernel cost registers and parameter space without saving traffic.
constexpr std::size_t kMaxLeaves = 16;
// Fusing stops here (16 transcendental functions, 240 additions), because the compiler's time grows faster than the chain: a kernel of 100
// gelu took NVRTC 13.0 16 s, while what is saved, one write and one read, is by then far below the arithmetic.
constexpr std::uint64_t kMaxFusedWeight = 256;

bool may_fuse(const FusedMap& map) { return map.leaves.size() <= kMaxLeaves && compile_weight(map) <= kMaxFusedWeight; }

const MapAttributes* as_map(const Op& op) { return std::get_if<MapAttributes>(&op.attributes); }

// The value a map stores: its expression converted to the map's dtype. A 16-bit result is rounded even inside a fused chain (a kCast node
// of that storage type), so that fusing never changes what an explicit cast means.
Expr stored(Expr expr, DType dtype) {
  const bool is_narrow = dtype == DType::kF16 || dtype == DType::kBf16;
  if (expr->type != compute_type(dtype)) expr = cast_expr(std::move(expr), compute_type(dtype));
  if (!is_narrow) return expr;
  auto node = std::make_shared<ExprNode>();
  node->fn = ExprFn::kCast;
  node->type = dtype;
  node->args.push_back(std::move(expr));
  return node;
}

// Compute type of operand `slot` as the expression uses it; f32 when it does not. Each node is looked at once: expressions share nodes.
DType slot_type(const Expr& expr, unsigned slot) {
  llvm::SmallPtrSet<const ExprNode*, 16> seen;
  llvm::SmallVector<const ExprNode*, 16> waiting{expr.get()};
  while (!waiting.empty()) {
    const ExprNode* node = waiting.pop_back_val();
    if (!seen.insert(node).second) continue;
    if (node->fn == ExprFn::kOperand && node->operand == slot) return node->type;
    for (const Expr& arg : node->args) waiting.push_back(arg.get());
  }
  return DType::kF32;
}

// Slot of `value` among the leaves, added when it is new: a value is read once however often it is used.
unsigned leaf_slot(llvm::SmallVectorImpl<ValueId>& leaves, ValueId value) {
  auto* found = llvm::find(leaves, value);
  if (found != leaves.end()) return static_cast<unsigned>(found - leaves.begin());
  leaves.push_back(value);
  return static_cast<unsigned>(leaves.size() - 1);
}

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options) : graph_(graph), fuse_(options.fuse), taken_(graph.ops().size()) {}

  llvm::Expected<Plan> run();

 private:
  llvm::Error start_group(OpId anchor);
  void start_map_group(OpId id);
  void append(Group& group, OpId op);
  void absorb_chain(Group& group);
  bool absorb_map(Group& group, FusedMap& stage, ValueId incoming, OpId user);
  bool absorb_reduction(Group& group, OpId user);
  bool absorb_softmax(Group& group, OpId user);
  void inline_into(Group& group, FusedMap& map);
  bool can_inline(ValueId value, const Group& group) const;
  std::optional<OpId> only_user(ValueId value) const;
  void finish(Group& group);
  void order_groups(Plan& plan) const;

  const Graph& graph_;
  bool fuse_;
  llvm::BitVector taken_;  // ops that already have a group
  std::vector<Group> groups_;
};

std::optional<OpId> Planner::only_user(ValueId value) const {
  if (graph_.is_output(value)) return std::nullopt;
  const auto users = graph_.users(value);
  if (users.size() != 1) return std::nullopt;
  return users.front();
}

// A map producer is recomputed inside its only reader instead of being written and read back.
bool Planner::can_inline(ValueId value, const Group& group) const {
  if (!fuse_) return false;
  const Value& v = graph_.value(value);
  if (!v.producer || taken_.test(*v.producer) || graph_.is_output(value)) return false;
  if (!as_map(graph_.op(*v.producer))) return false;
  if (!llvm::all_of(graph_.users(value), [&](OpId user) { return llvm::is_contained(group.ops, user); })) return false;
  // Where several operands or stages want it, it is written once: inlined into one of them, the others would read what no kernel writes.
  auto wants = [&](const FusedMap& map) { return llvm::is_contained(map.leaves, value); };
  const auto stages =
      llvm::count_if(std::initializer_list<const FusedMap*>{&group.after_anchor, &group.after_reduction, &group.after_softmax},
                     [&](const FusedMap* stage) { return wants(*stage); });
  return llvm::count_if(group.prologues, wants) + stages <= 1;
}

// Replaces leaves by the expressions that make them, as long as that is allowed.
void Planner::inline_into(Group& group, FusedMap& map) {
  for (std::size_t slot = 0; slot < map.leaves.size();) {
    const ValueId leaf = map.leaves[slot];
    if (leaf == FusedMap::kIncoming || !can_inline(leaf, group)) {
      ++slot;
      continue;
    }
    const OpId producer = *graph_.value(leaf).producer;
    const Op& op = graph_.op(producer);
    llvm::SmallVector<ValueId, 4> leaves(map.leaves);
    leaves.erase(leaves.begin() + static_cast<std::ptrdiff_t>(slot));
    llvm::SmallVector<Expr, 4> inner;
    for (ValueId input : op.inputs) {
      inner.push_back(operand_expr(leaf_slot(leaves, input), compute_type(graph_.value(input).dtype)));
    }
    llvm::SmallVector<Expr, 4> outer;
    for (unsigned i = 0; i < map.leaves.size(); ++i) {
      outer.push_back(i == slot ? stored(substitute(as_map(op)->expr, inner), as_map(op)->dtype)
                                : operand_expr(i < slot ? i : i - 1, slot_type(map.expr, i)));
    }
    FusedMap inlined{substitute(map.expr, outer), std::move(leaves)};
    if (!may_fuse(inlined)) {
      ++slot;
      continue;
    }
    map = std::move(inlined);
    taken_.set(producer);
    group.ops.push_back(producer);
    slot = 0;
  }
}

// The op is the group's and makes its result.
void Planner::append(Group& group, OpId op) {
  taken_.set(op);
  group.ops.push_back(op);
  group.result = graph_.op(op).output;
}

bool Planner::absorb_map(Group& group, FusedMap& stage, ValueId incoming, OpId user) {
  const Op& op = graph_.op(user);
  const MapAttributes* map = as_map(op);
  const Value& out = graph_.value(op.output);
  if (!map || out.shape != graph_.value(incoming).shape) return false;
  FusedMap next;
  if (stage.is_identity()) {
    next.leaves.push_back(FusedMap::kIncoming);
  } else {
    next.leaves = stage.leaves;
  }
  const DType incoming_type = compute_type(graph_.value(incoming).dtype);
  Expr so_far = stage.is_identity() ? operand_expr(0, incoming_type) : stage.expr;
  llvm::SmallVector<Expr, 4> operands;
  for (ValueId input : op.inputs) {
    if (input == incoming) {
      operands.push_back(so_far);
      continue;
    }
    operands.push_back(operand_expr(leaf_slot(next.leaves, input), compute_type(graph_.value(input).dtype)));
  }
  next.expr = stored(substitute(map->expr, operands), map->dtype);
  if (!may_fuse(next)) return false;
  stage = std::move(next);
  append(group, user);
  return true;
}

// conv [N, O, spatial...] reduced over exactly one spatial dimension.
bool Planner::absorb_reduction(Group& group, OpId user) {
  const auto* reduce = std::get_if<ReduceAttributes>(&graph_.op(user).attributes);
  if (!reduce || group.fused_reduction || group.fused_softmax || reduce->axes.size() != 1 || reduce->axes.front() < 2) return false;
  const DType dtype = graph_.value(group.result).dtype;
  if (!is_floating(dtype)) return false;
  const SizeExpr& extent = graph_.value(group.result).shape[reduce->axes.front()];
  if (extent.lower_bound(graph_.symbols()) < 1) return false;
  group.fused_reduction = user;
  if (!conv_fits(graph_, group)) {
    group.fused_reduction.reset();
    return false;
  }
  append(group, user);
  return true;
}

bool Planner::absorb_softmax(Group& group, OpId user) {
  const auto* softmax = std::get_if<SoftmaxAttributes>(&graph_.op(user).attributes);
  if (!softmax || group.fused_softmax || softmax->axis != 1) return false;
  const Op& anchor = graph_.op(*group.anchor);
  if (std::get<ConvAttributes>(anchor.attributes).groups != 1) return false;
  group.fused_softmax = user;
  if (!conv_fits(graph_, group)) {
    group.fused_softmax.reset();
    return false;
  }
  append(group, user);
  return true;
}

// Follows the only reader of the result while it can join the group.
void Planner::absorb_chain(Group& group) {
  while (fuse_) {
    const auto user = only_user(group.result);
    if (!user || taken_.test(*user)) return;
    FusedMap& stage = group.fused_softmax ? group.after_softmax : group.fused_reduction ? group.after_reduction : group.after_anchor;
    if (absorb_map(group, stage, group.result, *user)) continue;
    if (group.kind == TemplateKind::kConv && absorb_reduction(group, *user)) continue;
    if (group.kind == TemplateKind::kConv && absorb_softmax(group, *user)) continue;
    return;
  }
}

llvm::Error Planner::start_group(OpId anchor) {
  Group group;
  const Op& op = graph_.op(anchor);
  group.anchor = anchor;
  group.kind = choose_template(graph_, group, group.reason);
  append(group, anchor);
  const bool contracts = group.kind == TemplateKind::kConv && graph_.value(op.inputs[0]).dtype == DType::kF32;
  if (contracts && (graph_.precision() == Precision::kBf16x3 || graph_.precision() == Precision::kBf16)) {
    return make_error(Status::kUnsupported, "precision {} is not offered yet for f32 convolutions; use ieee, tf32x3 or tf32",
                      precision_name(graph_.precision()));
  }
  absorb_chain(group);
  groups_.push_back(std::move(group));
  return llvm::Error::success();
}

void Planner::start_map_group(OpId id) {
  const Op& op = graph_.op(id);
  Group group;
  group.reason = "elementwise";
  append(group, id);
  FusedMap whole;
  llvm::SmallVector<Expr, 4> operands;
  for (ValueId input : op.inputs) {
    operands.push_back(operand_expr(leaf_slot(whole.leaves, input), compute_type(graph_.value(input).dtype)));
  }
  whole.expr = stored(substitute(as_map(op)->expr, operands), as_map(op)->dtype);
  if (fuse_) inline_into(group, whole);
  group.prologues.push_back(std::move(whole));
  finish(group);
  groups_.push_back(std::move(group));
}

void Planner::finish(Group& group) {
  if (group.anchor) {
    const Op& op = graph_.op(*group.anchor);
    for (ValueId input : op.inputs) {
      group.prologues.emplace_back();
      group.prologues.back().leaves.push_back(input);
    }
    for (auto [slot, input] : llvm::enumerate(op.inputs)) {
      // The direct convolution reads each element many times and targets are indices, so their producers stay kernels of their own.
      const bool may_inline = group.kind != TemplateKind::kConvDirect && graph_.value(input).dtype != DType::kI64 && slot < 2;
      if (!may_inline || !can_inline(input, group)) continue;
      group.prologues[slot].expr = operand_expr(0, compute_type(graph_.value(input).dtype));
      inline_into(group, group.prologues[slot]);
    }
  }
  for (FusedMap* stage : {&group.after_anchor, &group.after_reduction, &group.after_softmax}) {
    if (!stage->is_identity()) inline_into(group, *stage);
  }
  llvm::sort(group.ops);
  auto read = [&](const FusedMap& map) {
    for (ValueId leaf : map.leaves) {
      if (leaf != FusedMap::kIncoming && !llvm::is_contained(group.reads, leaf)) group.reads.push_back(leaf);
    }
  };
  for (const FusedMap& map : group.prologues) read(map);
  for (const FusedMap* map : {&group.after_anchor, &group.after_reduction, &group.after_softmax}) read(*map);
}

// Repeatedly takes the first group all of whose reads are ready; groups were found in op order, so this is stable.
void Planner::order_groups(Plan& plan) const {
  llvm::BitVector ready(static_cast<unsigned>(graph_.values().size()));
  for (ValueId input : graph_.inputs()) ready.set(input);
  std::vector<const Group*> waiting;
  for (const Group& group : groups_) waiting.push_back(&group);
  while (!waiting.empty()) {
    auto next =
        llvm::find_if(waiting, [&](const Group* group) { return llvm::all_of(group->reads, [&](ValueId id) { return ready.test(id); }); });
    if (next == waiting.end()) break;  // impossible in an acyclic graph; the caller's check reports it
    ready.set((*next)->result);
    plan.groups.push_back(**next);
    waiting.erase(next);
  }
}

llvm::Expected<Plan> Planner::run() {
  for (OpId id = 0; id < graph_.ops().size(); ++id) {
    if (as_map(graph_.op(id)) || taken_.test(id)) continue;
    if (llvm::Error error = start_group(id)) return error;
  }
  // Readers are visited before producers: a group pulls in the maps only it reads, and what no group took becomes a kernel of its own.
  for (OpId id = static_cast<OpId>(graph_.ops().size()); id-- > 0;) {
    auto group = llvm::find_if(groups_, [&](const Group& g) { return g.anchor && g.prologues.empty() && g.ops.back() == id; });
    if (group != groups_.end()) {
      finish(*group);
    } else if (!taken_.test(id)) {
      start_map_group(id);
    }
  }
  llvm::sort(groups_, [](const Group& a, const Group& b) { return a.ops.back() < b.ops.back(); });  // no two share an op
  Plan plan;
  order_groups(plan);
  if (plan.groups.size() != groups_.size()) return make_error(Status::kInternal, "plan of {}: groups depend on each other", graph_.name());
  return plan;
}

}  // namespace

llvm::Expected<Plan> make_plan(const Graph& graph, const PlanOptions& options) { return Planner(graph, options).run(); }

}  // namespace tilewright
