// What there is to know about each operator of the description format, as data: the one source for `tilewright ops`, for the check of
// unknown keys and for nearest-name hints.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tilewright {

struct AttributeInfo {
  llvm::StringRef name;
  llvm::StringRef type;           // "integer", "list of integers", "\"mean\" | \"sum\" | \"none\"", ...
  llvm::StringRef default_value;  // as JSON; "" when the attribute is required
  llvm::StringRef doc;
};

struct OperandInfo {
  llvm::StringRef name;
  llvm::StringRef dtypes;
  llvm::StringRef shape;
  bool optional = false;
};

struct OperatorInfo {
  llvm::StringRef name;
  llvm::StringRef summary;
  llvm::StringRef formula;
  llvm::ArrayRef<OperandInfo> operands;
  bool is_variadic = false;  // map: any number of operands, each named in expr
  llvm::ArrayRef<AttributeInfo> attributes;
  llvm::StringRef result;  // dtype and shape of the output
  // For a named elementwise form: the map expression it stands for, over its operands' names; "" otherwise.
  llvm::StringRef expansion;
};

// Every operator of the format: conv, reduce, softmax, cross_entropy, map, cast, then the named elementwise forms.
llvm::ArrayRef<OperatorInfo> operator_table();
const OperatorInfo* find_operator(llvm::StringRef name);  // null when unknown
llvm::SmallVector<llvm::StringRef, 32> operator_names();

}  // namespace tilewright
