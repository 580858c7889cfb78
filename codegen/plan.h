// Which ops share a kernel and which template serves each group. A plan depends on the graph and the options alone, never on a device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "ops/graph.h"

namespace tilewright {

enum class TemplateKind : std::uint8_t { kElementwise, kRow, kReduce, kColumn, kStencil, kConv, kConvDirect };
llvm::StringRef template_name(TemplateKind kind);  // "row": the template's file is tilewright/row.cuh

// Elementwise work as one expression: slot i of `expr` is leaves[i], a value read from memory and broadcast to the space the expression
// lives in, or the incoming value of the stage (kIncoming).
struct FusedMap {
  static constexpr ValueId kIncoming = ~ValueId{0};
  Expr expr;  // null: identity
  llvm::SmallVector<ValueId, 4> leaves;
  bool is_identity() const { return !expr; }
};

// How much a map gives the compiler to do for each element, in additions: 1 an operation, 16 a function that expands to many instructions
// (exp, gelu, pow, ...), 4 a leaf. A node that is used twice counts once.
std::uint64_t compile_weight(const FusedMap& map);

// Ops that become one kernel. The chain of a group is: prologues (one per operand of the anchor), anchor, then the epilogue stages
//   epilogue[0] -> (conv only: reduction over one output dimension -> epilogue[1] -> softmax over channels -> epilogue[2]) -> result.
// Each epilogue is in the space of the value it follows.
struct Group {
  TemplateKind kind = TemplateKind::kElementwise;
  std::vector<OpId> ops;            // all members, ascending
  std::optional<OpId> anchor;       // empty: elementwise
  std::vector<FusedMap> prologues;  // per anchor operand; elementwise: exactly one, the whole kernel
  FusedMap after_anchor, after_reduction, after_softmax;
  std::optional<OpId> fused_reduction;  // conv only
  std::optional<OpId> fused_softmax;    // conv only
  ValueId result = 0;
  std::vector<ValueId> reads;  // values read from memory, without repeats
  std::string reason;          // why this template, one line
};

struct PlanOptions {
  bool fuse = true;  // false: one kernel per op
};

struct Plan {
  std::vector<Group> groups;  // in an order that respects dependencies
};

// Error: kUnsupported with the op named when no template takes it.
llvm::Expected<Plan> make_plan(const Graph& graph, const PlanOptions& options = {});

}  // namespace tilewright
