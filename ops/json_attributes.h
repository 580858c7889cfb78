// Reading typed values out of JSON with errors that name the path, what was seen and what was wanted; and the attributes of operators.
#pragma once

#include <functional>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "ops/builder.h"
#include "ops/operators.h"

namespace tilewright {

// `inputs.x.shape[2] must be a non-negative integer or a dimension name, got "N "`, then `hint`.
llvm::Error type_error(const std::string& path, llvm::StringRef wanted, const llvm::json::Value& seen, llvm::StringRef hint = "");
// `precision must be "ieee", "tf32x3", ..., got "tf23"; did you mean "tf32"?`
llvm::Error choice_error(const std::string& path, llvm::ArrayRef<llvm::StringRef> choices, const llvm::json::Value& seen);
// Error: a key that is not in `known`, with the nearest one. `path` names the object, "" for none.
llvm::Error check_keys(const llvm::json::Object& object, llvm::ArrayRef<llvm::StringRef> known, const std::string& path);
// Leave `out` alone when the key is absent.
llvm::Error read_integer(const llvm::json::Object& object, llvm::StringRef key, const std::string& path, std::int64_t& out);
llvm::Error read_flag(const llvm::json::Object& object, llvm::StringRef key, const std::string& path, bool& out);
llvm::Error read_integers(const llvm::json::Value& json, const std::string& path, llvm::SmallVectorImpl<std::int64_t>& out);
llvm::Expected<DType> read_dtype(const llvm::json::Value& json, const std::string& path);

// Reads the attributes of one operator and calls the builder. Keys are known to be valid and required ones present.
class AttributeReader {
 public:
  // Reads an integer that may be spelled as a baked dimension.
  using IntegerReader = std::function<llvm::Expected<std::int64_t>(const llvm::json::Value&, const std::string& path)>;

  AttributeReader(const llvm::json::Object& object, IntegerReader integer) : object_(object), integer_(std::move(integer)) {}

  llvm::Expected<ValueId> apply(GraphBuilder& builder, const OperatorInfo& info, llvm::ArrayRef<MapOperand> operands,
                                std::string name) const;

 private:
  llvm::Expected<ValueId> apply_conv(GraphBuilder& builder, llvm::ArrayRef<ValueId> operands, std::string name) const;
  llvm::Expected<ValueId> apply_reduce(GraphBuilder& builder, ValueId x, std::string name) const;
  llvm::Expected<ValueId> apply_softmax(GraphBuilder& builder, ValueId x, std::string name) const;
  llvm::Expected<ValueId> apply_cross_entropy(GraphBuilder& builder, llvm::ArrayRef<ValueId> operands, std::string name) const;
  llvm::Expected<ValueId> apply_map(GraphBuilder& builder, llvm::ArrayRef<ValueId> operands, std::string name) const;
  llvm::Expected<ValueId> apply_cast(GraphBuilder& builder, ValueId x, std::string name) const;
  llvm::Expected<ValueId> apply_named(GraphBuilder& builder, const OperatorInfo& info, llvm::ArrayRef<MapOperand> operands,
                                      std::string name) const;

  llvm::Error read_spatial(llvm::StringRef key, std::size_t spatial, llvm::SmallVectorImpl<std::int64_t>& out) const;
  llvm::Error read_padding(const Graph& graph, llvm::ArrayRef<ValueId> operands, std::size_t spatial, ConvAttributes& attributes) const;
  llvm::Error read_causal(const Graph& graph, llvm::ArrayRef<ValueId> operands, std::size_t spatial, ConvAttributes& attributes) const;
  llvm::Expected<std::optional<DType>> read_optional_dtype() const;

  const llvm::json::Object& object_;
  IntegerReader integer_;
};

}  // namespace tilewright
