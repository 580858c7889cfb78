// The JSON form of descriptions: checks keys and types, then speaks to GraphBuilder.
#include "ops/json.h"

#include <map>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "ops/builder.h"
#include "ops/json_attributes.h"
#include "ops/json_scan.h"
#include "ops/operators.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using Json = llvm::json::Value;

constexpr llvm::StringRef kTopKeys[] = {"name", "precision", "deterministic", "inputs", "dims", "ops", "outputs"};
constexpr llvm::StringRef kInputKeys[] = {"dtype", "shape", "strides"};
constexpr llvm::StringRef kDimKeys[] = {"default", "min", "max", "baked"};
constexpr llvm::StringRef kPrecisionNames[] = {"ieee", "tf32x3", "bf16x3", "tf32", "bf16"};

// "[3:14, byte=57]: text" as llvm says it, to "line 3, column 14: text".
std::string parse_error_text(const std::string& message) {
  llvm::StringRef text = message;
  unsigned line = 0;
  unsigned column = 0;
  if (!text.consume_front("[") || text.consumeInteger(10, line) || !text.consume_front(":") || text.consumeInteger(10, column))
    return message;
  return fmt::format("line {}, column {}: {}", line, column, text.split("]: ").second);
}

class Reader {
 public:
  Reader(JsonKeys keys, llvm::ArrayRef<DimValue> dims) : keys_(std::move(keys)), given_dims_(dims), builder_("") {}

  llvm::Expected<Graph> read(const Json& json) {
    const Object* top = json.getAsObject();
    if (top == nullptr) return type_error("description", "an object", json);
    if (llvm::Error error = check_keys(*top, kTopKeys, "description")) return error;
    if (llvm::Error error = read_head(*top)) return error;
    if (llvm::Error error = read_dims(*top)) return error;
    if (llvm::Error error = read_inputs(*top)) return error;
    if (llvm::Error error = read_ops(*top)) return error;
    llvm::Expected<llvm::SmallVector<ValueId, 4>> outputs = read_outputs(*top);
    if (!outputs) return outputs.takeError();
    return std::move(builder_).build(*outputs);
  }

 private:
  static llvm::Expected<const Json*> required(const Object& object, llvm::StringRef key, const std::string& path) {
    if (const Json* value = object.get(key)) return value;
    return make_error(Status::kInvalidArgument, "{}: \"{}\" is missing", path, key);
  }

  llvm::Error read_head(const Object& top) {
    llvm::Expected<const Json*> name = required(top, "name", "description");
    if (!name) return name.takeError();
    const auto text = (*name)->getAsString();
    const bool is_plain =
        text && !text->empty() && llvm::all_of(*text, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '-' || c == '.'; });
    if (!is_plain) return type_error("name", "a text of letters, digits, _, - and .", **name);
    Precision precision = Precision::kTf32x3;
    if (const Json* value = top.get("precision")) {
      const auto spelled = value->getAsString();
      const auto parsed = spelled ? parse_precision(*spelled) : std::nullopt;
      if (!parsed) return choice_error("precision", kPrecisionNames, *value);
      precision = *parsed;
    }
    builder_ = GraphBuilder(text->str(), precision);
    if (const Json* value = top.get("deterministic")) {
      const auto flag = value->getAsBoolean();
      if (!flag) return type_error("deterministic", "true or false", *value);
      builder_.set_deterministic(*flag);
    }
    return llvm::Error::success();
  }

  llvm::Error read_dims(const Object& top) {
    if (const Json* value = top.get("dims")) {
      const Object* dims = value->getAsObject();
      if (dims == nullptr) return type_error("dims", "an object", *value);
      for (const std::string& name : keys_["dims"]) {
        if (llvm::Error error = read_dim(name, *dims->get(name))) return error;
      }
    }
    for (const DimValue& given : given_dims_) {
      if (llvm::is_contained(dim_names_, given.name)) continue;
      return make_error(Status::kInvalidArgument, "dimension \"{}\" is not in dims of {}{}", given.name, builder_.graph().name(),
                        dim_hint(given.name));
    }
    return llvm::Error::success();
  }

  llvm::Error read_dim(const std::string& name, const Json& json) {
    const std::string path = "dims." + name;
    const Object* object = json.getAsObject();
    if (object == nullptr) return type_error(path, "an object such as {\"default\": 128, \"min\": 1, \"max\": 4096}", json);
    if (llvm::Error error = check_keys(*object, kDimKeys, path)) return error;
    Symbol symbol;
    symbol.name = name;
    llvm::Expected<const Json*> value = required(*object, "default", path);
    if (!value) return value.takeError();
    if (llvm::Error error = read_integer(*object, "default", path, symbol.default_value)) return error;
    if (llvm::Error error = read_integer(*object, "min", path, symbol.min)) return error;
    if (llvm::Error error = read_integer(*object, "max", path, symbol.max)) return error;
    bool is_baked = false;
    if (llvm::Error error = read_flag(*object, "baked", path, is_baked)) return error;
    for (const DimValue& given : given_dims_) {
      if (is_baked && given.name == name) symbol.default_value = given.value;
    }
    llvm::Expected<SizeExpr> size = is_baked ? builder_.baked_dim(symbol) : builder_.dim(symbol);
    if (!size) return size.takeError();
    dim_names_.push_back(name);
    sizes_.emplace(name, *size);
    return llvm::Error::success();
  }

  std::string dim_hint(llvm::StringRef name) const {
    llvm::SmallVector<llvm::StringRef, 4> known(dim_names_.begin(), dim_names_.end());
    return did_you_mean(name, known);
  }

  llvm::Error read_inputs(const Object& top) {
    llvm::Expected<const Json*> value = required(top, "inputs", "description");
    if (!value) return value.takeError();
    const Object* inputs = (*value)->getAsObject();
    if (inputs == nullptr) return type_error("inputs", "an object of name: {\"dtype\": ..., \"shape\": [...]}", **value);
    for (const std::string& name : keys_["inputs"]) {
      if (llvm::Error error = read_input(name, *inputs->get(name))) return error;
    }
    return llvm::Error::success();
  }

  llvm::Error read_input(const std::string& name, const Json& json) {
    const std::string path = "inputs." + name;
    const Object* object = json.getAsObject();
    if (object == nullptr) return type_error(path, "an object with dtype and shape", json);
    if (llvm::Error error = check_keys(*object, kInputKeys, path)) return error;
    llvm::Expected<const Json*> dtype_json = required(*object, "dtype", path);
    if (!dtype_json) return dtype_json.takeError();
    llvm::Expected<DType> dtype = read_dtype(**dtype_json, path + ".dtype");
    if (!dtype) return dtype.takeError();
    llvm::Expected<const Json*> shape_json = required(*object, "shape", path);
    if (!shape_json) return shape_json.takeError();
    const Array* sizes = (*shape_json)->getAsArray();
    if (sizes == nullptr) return type_error(path + ".shape", "a list of sizes", **shape_json);
    Shape shape;
    for (auto [i, entry] : llvm::enumerate(*sizes)) {
      llvm::Expected<SizeExpr> size = read_size(entry, fmt::format("{}.shape[{}]", path, i));
      if (!size) return size.takeError();
      shape.push_back(*size);
    }
    llvm::SmallVector<std::int64_t, 6> strides;
    if (const Json* value = object->get("strides")) {
      if (llvm::Error error = read_integers(*value, path + ".strides", strides)) return error;
      if (strides.empty() && !shape.empty()) return type_error(path + ".strides", fmt::format("{} numbers", shape.size()), *value);
    }
    llvm::Expected<ValueId> id = builder_.input(name, *dtype, shape, strides);
    if (!id) return id.takeError();
    return llvm::Error::success();
  }

  llvm::Expected<SizeExpr> read_size(const Json& json, const std::string& path) const {
    if (const auto number = json.getAsInteger(); number && *number >= 0) return SizeExpr(*number);
    const auto name = json.getAsString();
    if (!name) return type_error(path, "a non-negative integer or a dimension name", json);
    const auto known = sizes_.find(name->str());
    if (known != sizes_.end()) return known->second;
    return type_error(path, "a non-negative integer or a dimension name", json, dim_hint(*name));
  }

  llvm::Error read_ops(const Object& top) {
    llvm::Expected<const Json*> value = required(top, "ops", "description");
    if (!value) return value.takeError();
    const Array* ops = (*value)->getAsArray();
    if (ops == nullptr) return type_error("ops", "a list of operators", **value);
    for (const Json& op : *ops) {
      const Object* object = op.getAsObject();
      const auto name = object == nullptr ? std::nullopt : object->getString("out");
      produced_.push_back(name ? name->str() : "");
    }
    for (auto [i, op] : llvm::enumerate(*ops)) {
      if (llvm::Error error = read_op(op, i)) return error;
    }
    return llvm::Error::success();
  }

  llvm::Error read_op(const Json& json, std::size_t index) {
    const std::string path = fmt::format("ops[{}]", index);
    const Object* object = json.getAsObject();
    if (object == nullptr) return type_error(path, "an object", json);
    llvm::Expected<const Json*> op_json = required(*object, "op", path);
    if (!op_json) return op_json.takeError();
    const auto name = (*op_json)->getAsString();
    const llvm::SmallVector<llvm::StringRef, 32> names = operator_names();
    if (!name) return type_error(path + ".op", "an operator's name", **op_json);
    const OperatorInfo* info = find_operator(*name);
    if (info == nullptr) {
      std::string hint = did_you_mean(*name, names);
      if (hint.empty()) hint = "; operators are " + llvm::join(names.begin(), names.end(), ", ");
      return make_error(Status::kInvalidArgument, "{}: unknown operator \"{}\"{}", path, *name, hint);
    }
    llvm::Error error = read_known_op(*object, *info);
    if (!error) return error;
    ErrorFacts facts = take_error_facts(std::move(error));
    // The builder names the operator it was asked for, which is "map" for every elementwise form.
    llvm::StringRef text = facts.message;
    if (!text.consume_front((info->name + ": ").str())) text.consume_front("map: ");
    return make_error(facts.status, "{} ({}): {}", path, info->name, text);
  }

  llvm::Error read_known_op(const Object& object, const OperatorInfo& info) {
    llvm::SmallVector<llvm::StringRef, 8> allowed{"op", "in", "out"};
    for (const AttributeInfo& attribute : info.attributes) allowed.push_back(attribute.name);
    if (llvm::Error error = check_keys(object, allowed, "")) return error;
    for (const AttributeInfo& attribute : info.attributes) {
      if (attribute.default_value.empty() && object.get(attribute.name) == nullptr) {
        return make_error(Status::kInvalidArgument, "\"{}\" is missing: {}", attribute.name, attribute.type);
      }
    }
    llvm::Expected<const Json*> out = required(object, "out", info.name.str());
    if (!out) return out.takeError();
    const auto name = (*out)->getAsString();
    if (!name || name->empty()) return type_error("out", "a value's name", **out);
    llvm::Expected<llvm::SmallVector<MapOperand, 4>> operands = read_operands(object, info);
    if (!operands) return operands.takeError();
    const AttributeReader attributes(object, [this](const Json& value, const std::string& path) { return baked_integer(value, path); });
    llvm::Expected<ValueId> id = attributes.apply(builder_, info, *operands, name->str());
    if (!id) return id.takeError();
    return llvm::Error::success();
  }

  llvm::Expected<llvm::SmallVector<MapOperand, 4>> read_operands(const Object& object, const OperatorInfo& info) const {
    llvm::Expected<const Json*> in = required(object, "in", info.name.str());
    if (!in) return in.takeError();
    const Array* names = (*in)->getAsArray();
    if (names == nullptr) return type_error("in", "a list of operands", **in);
    const auto least =
        static_cast<std::size_t>(llvm::count_if(info.operands, [](const OperandInfo& operand) { return !operand.optional; }));
    if (names->size() < least || (!info.is_variadic && names->size() > info.operands.size())) {
      std::string wanted;
      for (const OperandInfo& operand : info.operands)
        wanted += fmt::format("{}{}{}", wanted.empty() ? "" : ", ", operand.optional ? "optional " : "", operand.name);
      return make_error(Status::kInvalidArgument, "in: expected {}{}, got {} operand{}", info.is_variadic ? "at least one value for " : "",
                        wanted, names->size(), names->size() == 1 ? "" : "s");
    }
    llvm::SmallVector<MapOperand, 4> operands;
    for (auto [i, entry] : llvm::enumerate(*names)) {
      llvm::Expected<MapOperand> operand =
          read_operand(entry, fmt::format("in[{}]", i), !info.expansion.empty() && info.operands.size() == 2);
      if (!operand) return operand.takeError();
      operands.push_back(*operand);
    }
    return operands;
  }

  llvm::Expected<MapOperand> read_operand(const Json& json, const std::string& path, bool takes_numbers) const {
    if (const auto number = json.getAsNumber(); number && takes_numbers) return MapOperand(*number);
    const auto name = json.getAsString();
    if (!name) return type_error(path, takes_numbers ? "a value's name or a number" : "a value's name", json);
    llvm::Expected<ValueId> id = find_value(*name, path);
    if (!id) return id.takeError();
    return MapOperand(*id);
  }

  llvm::Expected<ValueId> find_value(llvm::StringRef name, const std::string& path) const {
    llvm::SmallVector<llvm::StringRef, 16> known;
    for (auto [id, value] : llvm::enumerate(builder_.graph().values())) {
      if (value.name == name) return static_cast<ValueId>(id);
      known.push_back(value.name);
    }
    const auto later = llvm::find(produced_, name.str());
    if (!name.empty() && later != produced_.end()) {
      return make_error(Status::kInvalidArgument, "{}: \"{}\" is computed by ops[{}]; an op stands after those it reads", path, name,
                        later - produced_.begin());
    }
    return make_error(Status::kInvalidArgument, "{}: unknown value \"{}\"{}", path, name, did_you_mean(name, known));
  }

  llvm::Expected<std::int64_t> baked_integer(const Json& json, const std::string& path) const {
    if (const auto number = json.getAsInteger()) return *number;
    if (const auto name = json.getAsString()) {
      const auto known = sizes_.find(name->str());
      if (known != sizes_.end() && known->second.is_constant()) return known->second.constant();
      if (known != sizes_.end()) {
        return make_error(Status::kUnsupported,
                          "{}: dimension \"{}\" is open until launch; an attribute takes a number or a baked dimension", path, *name);
      }
    }
    return type_error(path, "an integer or a baked dimension", json);
  }

  llvm::Expected<llvm::SmallVector<ValueId, 4>> read_outputs(const Object& top) const {
    llvm::Expected<const Json*> value = required(top, "outputs", "description");
    if (!value) return value.takeError();
    const Array* names = (*value)->getAsArray();
    if (names == nullptr) return type_error("outputs", "a list of values' names", **value);
    llvm::SmallVector<ValueId, 4> outputs;
    for (auto [i, entry] : llvm::enumerate(*names)) {
      llvm::Expected<MapOperand> operand = read_operand(entry, fmt::format("outputs[{}]", i), false);
      if (!operand) return operand.takeError();
      outputs.push_back(std::get<ValueId>(*operand));
    }
    return outputs;
  }

  JsonKeys keys_;
  llvm::ArrayRef<DimValue> given_dims_;
  GraphBuilder builder_;
  std::map<std::string, SizeExpr> sizes_;
  std::vector<std::string> dim_names_;
  std::vector<std::string> produced_;  // "out" of every op, to tell "later" from "never"
};

}  // namespace

llvm::Expected<Graph> parse_description(llvm::StringRef json, llvm::ArrayRef<DimValue> dims) {
  if (llvm::Error error = check_json_nesting(json)) return error;
  llvm::Expected<Json> value = llvm::json::parse(json);
  if (!value) return make_error(Status::kInvalidArgument, "{}", parse_error_text(llvm::toString(value.takeError())));
  llvm::Expected<JsonKeys> keys = scan_json_keys(json);
  if (!keys) return keys.takeError();
  return Reader(std::move(*keys), dims).read(*value);
}

llvm::Expected<Graph> load_description(llvm::StringRef path, llvm::ArrayRef<DimValue> dims) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer) return make_error(Status::kIo, "{}: cannot be read: {}", path, buffer.getError().message());
  llvm::Expected<Graph> graph = parse_description((*buffer)->getBuffer(), dims);
  if (graph) return graph;
  return prefix_error(graph.takeError(), path.str() + ": ");
}

}  // namespace tilewright
