// Writes the `struct Hooks` of a kernel: the pointers and sizes it holds (kernel parameter 1) and the functions a template calls. All that
// depends on dtypes, broadcasting, strides and elementwise expressions is decided here; templates see linear logical indices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/plan.h"
#include "ops/graph.h"
#include "runtime/launch_recipe.h"

namespace tilewright {

// Where a value lives at launch.
using BufferMap = std::vector<BufferRef>;  // by ValueId

// Tensors with fewer elements are indexed in 32 bits.
inline constexpr std::int64_t kIndex32Limit = std::int64_t{1} << 31;

class HooksWriter {
 public:
  HooksWriter(const Graph& graph, const BufferMap& buffers);

  // True when every tensor the hooks touch stays below 2^31 elements, so that Index can be 32 bits wide.
  bool fits_index32() const { return fits_index32_; }

  // kWanted gives an access a last parameter `bool wanted`: without it no memory is touched, a load gives zeros, and i may be any number.
  enum class Guard { kNone, kWanted };

  // Reads V elements of `map` at logical index i of `space` into `v`:  template <int V> void NAME(Index i, Value (&v)[V]) const.
  void add_vector_load(const std::string& name, const FusedMap& map, llvm::ArrayRef<SizeExpr> space, Guard guard = Guard::kNone);
  // Scalar read of `map` at index i of `space`, converted to `type`, such as "float" or "tw::f16":  TYPE NAME(Index i) const.
  void add_scalar_load(const std::string& name, const FusedMap& map, llvm::ArrayRef<SizeExpr> space, const std::string& type,
                       Guard guard = Guard::kNone);
  // Applies `stage` to V incoming values at index i of the shape of `result`, rounds and writes:
  //   template <int V> void NAME(Index i, const Value (&v)[V]) const.
  void add_vector_store(const std::string& name, const FusedMap& stage, ValueId result, const std::string& incoming_type,
                        Guard guard = Guard::kNone);
  // void NAME(Index i, float value) const
  void add_scalar_store(const std::string& name, const FusedMap& stage, ValueId result, const std::string& incoming_type,
                        Guard guard = Guard::kNone);
  // float NAME(float value, Index i, int channel) const; leaves that vary along `channel_axis` of `space` alone are read by channel.
  void add_scalar_map(const std::string& name, const FusedMap& stage, llvm::ArrayRef<SizeExpr> space, unsigned channel_axis);
  // The whole elementwise kernel body:  template <int V> void NAME(Index i) const.
  void add_vector_apply(const std::string& name, const FusedMap& map, ValueId result);
  // A member written as is, for instance "static constexpr bool kHasBias = true;".
  void add_member(const std::string& line);
  // Pointer field of a value; its name in the struct.
  std::string pointer(ValueId value, bool writable);

  // Largest V (a power of two, at most `limit`) that every vector access so far can use; 1 when some access is scalar by nature.
  int vector_limit(int limit) const;

  std::string text(bool index64, const std::string& value_type) const;
  KernelParam param() const;  // type "Hooks"

 private:
  struct Axis {  // collapsed dimension of a space, innermost last; stride 0 = broadcast
    SizeExpr size;
    SizeExpr stride;
  };
  std::vector<Axis> leaf_axes(ValueId leaf, llvm::ArrayRef<SizeExpr> space) const;
  std::string size_text(const SizeExpr& size);
  void note_space(const SizeExpr& elements);
  void note_vector_access(ValueId value);
  void write_leaf_loads(std::string& out, const FusedMap& map, llvm::ArrayRef<SizeExpr> space, Guard guard);
  std::string scalar_offset(const std::vector<Axis>& axes, const std::string& index, const std::string& indent, const std::string& tag,
                            std::string& out);
  void write_expression(std::string& out, const FusedMap& map, const std::string& indent, bool vector, const std::string& incoming,
                        std::string& result);

  const Graph& graph_;
  const BufferMap& buffers_;
  bool fits_index32_ = true;
  int vector_elems_ = 64;  // shrinks with every access that cannot be as wide
  std::vector<KernelArg> fields_;
  std::vector<std::pair<SizeExpr, std::string>> size_fields_;
  std::string members_;
};

// C++ type of stored elements ("float", "tw::f16", ...) and of computed values ("float", "tw::i32", "tw::i64", "bool").
std::string storage_type_text(DType dtype);
std::string compute_type_text(DType dtype);

// One statement per node, `tN` temporaries numbered from 0; operand slot i is spelled operands[i]. Gives the final value's spelling.
std::string write_expression_statements(std::string& out, const Expr& expr, llvm::ArrayRef<std::string> operands,
                                        const std::string& indent);

}  // namespace tilewright
