// The canonical form and its hash. Values are numbered inputs first, in declaration order, then results by a depth-first walk from the
// outputs; dimensions by first appearance in the inputs; operand slots of an expression by first appearance in it.
#include <optional>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "ops/json.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

template <typename Range>
std::string list_text(const Range& values) {
  std::string text = "[";
  for (const auto& value : values) text += fmt::format("{}{}", text.size() == 1 ? "" : ",", value);
  return text + "]";
}

void collect_slots(const Expr& expr, llvm::SmallVectorImpl<unsigned>& slots) {
  if (expr->fn == ExprFn::kOperand && !llvm::is_contained(slots, expr->operand)) slots.push_back(expr->operand);
  for (const Expr& arg : expr->args) collect_slots(arg, slots);
}

class Canonical {
 public:
  explicit Canonical(const Graph& graph) : graph_(graph), numbers_(graph.values().size()), order_(graph.symbols().size(), 0) {}

  std::string write() {
    number_symbols();
    for (const ValueId id : graph_.inputs()) numbers_[id] = next_++;
    for (const ValueId id : graph_.outputs()) visit(id);
    std::string ops;
    for (const OpId id : ops_) ops += (ops.empty() ? "" : ",") + op_text(graph_.op(id));
    std::string text = fmt::format("{{\"deterministic\":{},\"dims\":{},\"inputs\":{},\"ops\":[{}],\"outputs\":{}", graph_.deterministic(),
                                   dims_text(), inputs_text(), ops, list_text(numbered(graph_.outputs())));
    if (has_f32_contraction()) text += fmt::format(",\"precision\":\"{}\"", precision_name(graph_.precision()));
    return text + "}";
  }

 private:
  void number_symbols() {
    for (const ValueId id : graph_.inputs()) {
      for (const SizeExpr& size : graph_.value(id).shape) {
        llvm::SmallVector<unsigned, 4> used;
        size.collect_symbols(used);
        for (const unsigned symbol : used) {
          if (llvm::is_contained(symbols_, symbol)) continue;
          order_[symbol] = static_cast<unsigned>(symbols_.size());
          symbols_.push_back(symbol);
        }
      }
    }
  }

  // Iterative, because a chain of ops may be longer than the stack is deep.
  void visit(ValueId root) {
    llvm::SmallVector<ValueId, 16> stack{root};
    while (!stack.empty()) {
      const ValueId id = stack.back();
      if (numbers_[id]) {
        stack.pop_back();
        continue;
      }
      const OpId producer = *graph_.value(id).producer;
      const llvm::SmallVector<ValueId, 4> inputs = ordered_inputs(graph_.op(producer));
      const auto* const waiting = llvm::find_if(inputs, [&](ValueId input) { return !numbers_[input]; });
      if (waiting != inputs.end()) {
        stack.push_back(*waiting);
        continue;
      }
      ops_.push_back(producer);
      numbers_[id] = next_++;
      stack.pop_back();
    }
  }

  static llvm::SmallVector<unsigned, 4> slot_order(const Op& op) {
    llvm::SmallVector<unsigned, 4> slots;
    collect_slots(std::get<MapAttributes>(op.attributes).expr, slots);
    return slots;
  }

  static llvm::SmallVector<ValueId, 4> ordered_inputs(const Op& op) {
    if (!std::holds_alternative<MapAttributes>(op.attributes)) return op.inputs;
    llvm::SmallVector<ValueId, 4> inputs;
    for (const unsigned slot : slot_order(op)) inputs.push_back(op.inputs[slot]);
    return inputs;
  }

  llvm::SmallVector<unsigned, 4> numbered(llvm::ArrayRef<ValueId> ids) const {
    llvm::SmallVector<unsigned, 4> result;
    for (const ValueId id : ids) result.push_back(*numbers_[id]);
    return result;
  }

  std::string dims_text() const {
    std::string text = "[";
    for (const unsigned index : symbols_) {
      const Symbol& symbol = graph_.symbols()[index];
      text += fmt::format("{}{{\"default\":{},\"max\":{},\"min\":{}}}", text.size() == 1 ? "" : ",", symbol.default_value, symbol.max,
                          symbol.min);
    }
    return text + "]";
  }

  std::string inputs_text() const {
    std::string text = "[";
    for (const ValueId id : graph_.inputs()) {
      const Value& value = graph_.value(id);
      std::string shape = "[";
      for (const SizeExpr& size : value.shape) {
        const std::string spelled = size.renumbered(order_).str();
        shape += (shape.size() == 1 ? "" : ",") + (size.is_constant() ? spelled : "\"" + spelled + "\"");
      }
      text += fmt::format("{}{{\"dtype\":\"{}\",\"shape\":{}]", text.size() == 1 ? "" : ",", dtype_name(value.dtype), shape);
      if (!value.strides.empty()) text += ",\"strides\":" + list_text(value.strides);
      text += "}";
    }
    return text + "]";
  }

  std::string op_text(const Op& op) const {
    const std::string in = list_text(numbered(ordered_inputs(op)));
    if (const auto* conv = std::get_if<ConvAttributes>(&op.attributes)) {
      llvm::SmallVector<std::string, 3> padding;
      for (auto [before, after] : llvm::zip(conv->pad_before, conv->pad_after)) padding.push_back(fmt::format("[{},{}]", before, after));
      return fmt::format("{{\"dilation\":{},\"groups\":{},\"in\":{},\"op\":\"conv\",\"padding\":{},\"stride\":{}}}",
                         list_text(conv->dilation), conv->groups, in, list_text(padding), list_text(conv->stride));
    }
    if (const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes)) {
      return fmt::format("{{\"axes\":{},\"in\":{},\"keepdims\":{},\"kind\":\"{}\",\"op\":\"reduce\"}}", list_text(reduce->axes), in,
                         reduce->keepdims, reduce_kind_name(reduce->kind));
    }
    if (const auto* softmax = std::get_if<SoftmaxAttributes>(&op.attributes)) {
      return fmt::format("{{\"axis\":{},\"in\":{},\"op\":\"softmax\"}}", softmax->axis, in);
    }
    if (const auto* loss = std::get_if<CrossEntropyAttributes>(&op.attributes)) {
      // -0 is 0.
      const double smoothing = loss->label_smoothing == 0.0 ? 0.0 : loss->label_smoothing;
      return fmt::format("{{\"ignore_index\":{},\"in\":{},\"label_smoothing\":{},\"op\":\"cross_entropy\",\"reduction\":\"{}\"}}",
                         loss->ignore_index, in, smoothing, loss_reduction_name(loss->reduction));
    }
    const auto& map = std::get<MapAttributes>(op.attributes);
    const llvm::SmallVector<unsigned, 4> slots = slot_order(op);
    llvm::SmallVector<Expr, 4> replacement(op.inputs.size());
    for (unsigned i = 0; i < slots.size(); ++i)
      replacement[slots[i]] = operand_expr(i, compute_type(graph_.value(op.inputs[slots[i]]).dtype));
    return fmt::format("{{\"dtype\":\"{}\",\"expr\":\"{}\",\"in\":{},\"op\":\"map\"}}", dtype_name(map.dtype),
                       expr_text(substitute(map.expr, replacement)), in);
  }

  bool has_f32_contraction() const {
    return llvm::any_of(graph_.ops(), [&](const Op& op) {
      return std::holds_alternative<ConvAttributes>(op.attributes) && graph_.value(op.inputs[0]).dtype == DType::kF32;
    });
  }

  const Graph& graph_;
  std::vector<std::optional<unsigned>> numbers_;
  std::vector<unsigned> order_;  // symbol index -> canonical index
  llvm::SmallVector<unsigned, 4> symbols_;
  std::vector<OpId> ops_;
  unsigned next_ = 0;
};

}  // namespace

std::string canonical_form(const Graph& graph) { return Canonical(graph).write(); }

std::string signature(const Graph& graph) {
  llvm::BLAKE3 hasher;
  hasher.update(llvm::StringRef(canonical_form(graph)));
  const auto digest = hasher.final<16>();
  return llvm::toHex(llvm::ArrayRef<std::uint8_t>(digest.data(), digest.size()), /*LowerCase=*/true);
}

}  // namespace tilewright
