#include "ops/json_attributes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using Json = llvm::json::Value;

constexpr std::size_t kShownCharacters = 48;
constexpr llvm::StringRef kDtypeNames[] = {"f32", "f16", "bf16", "i32", "i64", "bool"};
constexpr llvm::StringRef kReduceKindNames[] = {"sum", "mean", "min", "max"};
constexpr llvm::StringRef kLossReductionNames[] = {"mean", "sum", "none"};
constexpr llvm::StringRef kGeluForms[] = {"none", "tanh"};

std::string json_text(const Json& json) {
  std::string text;
  llvm::raw_string_ostream(text) << json;
  if (text.size() <= kShownCharacters) return text;
  std::size_t cut = kShownCharacters;
  // Not inside a UTF-8 sequence.
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
  return text.substr(0, cut) + "...";
}

}  // namespace

llvm::Error type_error(const std::string& path, llvm::StringRef wanted, const Json& seen, llvm::StringRef hint) {
  return make_error(Status::kInvalidArgument, "{} must be {}, got {}{}", path, wanted, json_text(seen), hint);
}

llvm::Error choice_error(const std::string& path, llvm::ArrayRef<llvm::StringRef> choices, const Json& seen) {
  std::string wanted;
  for (const llvm::StringRef choice : choices) wanted += fmt::format("{}\"{}\"", wanted.empty() ? "" : ", ", choice);
  const auto text = seen.getAsString();
  return type_error(path, "one of " + wanted, seen, text ? did_you_mean(*text, choices) : "");
}

llvm::Error check_keys(const Object& object, llvm::ArrayRef<llvm::StringRef> known, const std::string& path) {
  // The first in the alphabet, so that the message does not depend on the order of a hash table.
  llvm::SmallVector<llvm::StringRef, 2> unknown;
  for (const auto& entry : object) {
    if (!llvm::is_contained(known, llvm::StringRef(entry.first))) unknown.push_back(entry.first);
  }
  if (unknown.empty()) return llvm::Error::success();
  const llvm::StringRef key = *std::min_element(unknown.begin(), unknown.end());
  std::string hint = did_you_mean(key, known);
  if (hint.empty()) {
    for (const llvm::StringRef name : known) hint += (hint.empty() ? "; known keys are " : ", ") + name.str();
  }
  return make_error(Status::kInvalidArgument, "{}{}unknown key \"{}\"{}", path, path.empty() ? "" : ": ", key, hint);
}

llvm::Error read_integer(const Object& object, llvm::StringRef key, const std::string& path, std::int64_t& out) {
  const Json* value = object.get(key);
  if (value == nullptr) return llvm::Error::success();
  const auto number = value->getAsInteger();
  if (!number) return type_error(path + "." + key.str(), "an integer", *value);
  out = *number;
  return llvm::Error::success();
}

llvm::Error read_flag(const Object& object, llvm::StringRef key, const std::string& path, bool& out) {
  const Json* value = object.get(key);
  if (value == nullptr) return llvm::Error::success();
  const auto flag = value->getAsBoolean();
  if (!flag) return type_error(path.empty() ? key.str() : path + "." + key.str(), "true or false", *value);
  out = *flag;
  return llvm::Error::success();
}

llvm::Error read_integers(const Json& json, const std::string& path, llvm::SmallVectorImpl<std::int64_t>& out) {
  const Array* list = json.getAsArray();
  if (list == nullptr) return type_error(path, "a list of integers", json);
  for (auto [i, entry] : llvm::enumerate(*list)) {
    const auto number = entry.getAsInteger();
    if (!number) return type_error(fmt::format("{}[{}]", path, i), "an integer", entry);
    out.push_back(*number);
  }
  return llvm::Error::success();
}

llvm::Expected<DType> read_dtype(const Json& json, const std::string& path) {
  const auto text = json.getAsString();
  const auto dtype = text ? parse_dtype(*text) : std::nullopt;
  if (!dtype) return choice_error(path, kDtypeNames, json);
  return *dtype;
}

llvm::Expected<std::optional<DType>> AttributeReader::read_optional_dtype() const {
  const Json* value = object_.get("dtype");
  if (value == nullptr) return std::optional<DType>();
  llvm::Expected<DType> dtype = read_dtype(*value, "dtype");
  if (!dtype) return dtype.takeError();
  return std::optional<DType>(*dtype);
}

llvm::Expected<ValueId> AttributeReader::apply(GraphBuilder& builder, const OperatorInfo& info, llvm::ArrayRef<MapOperand> operands,
                                               std::string name) const {
  if (!info.expansion.empty() && info.name != "cast") return apply_named(builder, info, operands, std::move(name));
  llvm::SmallVector<ValueId, 4> values;
  for (const MapOperand& operand : operands) values.push_back(std::get<ValueId>(operand));
  if (info.name == "conv") return apply_conv(builder, values, std::move(name));
  if (info.name == "reduce") return apply_reduce(builder, values[0], std::move(name));
  if (info.name == "softmax") return apply_softmax(builder, values[0], std::move(name));
  if (info.name == "cross_entropy") return apply_cross_entropy(builder, values, std::move(name));
  if (info.name == "map") return apply_map(builder, values, std::move(name));
  if (info.name == "cast") return apply_cast(builder, values[0], std::move(name));
  return make_error(Status::kInternal, "operator \"{}\" is in the table but has no reader", info.name);
}

llvm::Error AttributeReader::read_spatial(llvm::StringRef key, std::size_t spatial, llvm::SmallVectorImpl<std::int64_t>& out) const {
  const Json* value = object_.get(key);
  if (value == nullptr) return llvm::Error::success();
  const Array* list = value->getAsArray();
  if (list == nullptr) {
    llvm::Expected<std::int64_t> number = integer_(*value, key.str());
    if (!number) return number.takeError();
    out.assign(spatial, *number);
    return llvm::Error::success();
  }
  if (list->size() != spatial) return type_error(key.str(), fmt::format("an integer or {} (one per spatial dimension)", spatial), *value);
  for (auto [i, entry] : llvm::enumerate(*list)) {
    llvm::Expected<std::int64_t> number = integer_(entry, fmt::format("{}[{}]", key, i));
    if (!number) return number.takeError();
    out.push_back(*number);
  }
  return llvm::Error::success();
}

llvm::Error AttributeReader::read_causal(const Graph& graph, llvm::ArrayRef<ValueId> operands, std::size_t spatial,
                                         ConvAttributes& attributes) const {
  if (spatial != 1) {
    return make_error(Status::kInvalidArgument, "padding: \"causal\" is for one spatial dimension, x {} has {}",
                      shape_text(graph.value(operands[0]).shape, graph.symbols()), spatial);
  }
  const SizeExpr& kernel = graph.value(operands[1]).shape.back();
  // Any other kernel is refused by the builder, which then sees no padding.
  if (!kernel.is_constant() || kernel.constant() < 1) return llvm::Error::success();
  const std::int64_t dilation = attributes.dilation.empty() ? 1 : attributes.dilation[0];
  attributes.pad_before.assign(1, ((kernel - 1) * dilation).constant());
  attributes.pad_after.assign(1, 0);
  return llvm::Error::success();
}

llvm::Error AttributeReader::read_padding(const Graph& graph, llvm::ArrayRef<ValueId> operands, std::size_t spatial,
                                          ConvAttributes& attributes) const {
  const Json* value = object_.get("padding");
  if (value == nullptr) return llvm::Error::success();
  if (value->getAsString() == llvm::StringRef("causal")) return read_causal(graph, operands, spatial, attributes);
  const std::string wanted = fmt::format("a number, {} of number or [before, after] (one per spatial dimension), or \"causal\"", spatial);
  const Array* list = value->getAsArray();
  if (list != nullptr && list->size() != spatial) {
    const bool is_pair = spatial == 1 && list->size() == 2;
    return type_error("padding", wanted, *value, is_pair ? "; before and after of one dimension are written [[before, after]]" : "");
  }
  for (std::size_t d = 0; d < spatial; ++d) {
    const Json& entry = list == nullptr ? *value : (*list)[d];
    const Array* pair = entry.getAsArray();
    if (pair != nullptr && pair->size() != 2) return type_error(fmt::format("padding[{}]", d), "a number or [before, after]", entry);
    for (const std::size_t side : {0, 1}) {
      const Json& number = pair == nullptr ? entry : (*pair)[side];
      if (number.getAsString() && list == nullptr) {
        // A misspelt "causal" and a baked dimension look alike.
        if (llvm::Expected<std::int64_t> baked = integer_(number, "padding"); !baked) {
          const std::string text = llvm::toString(baked.takeError());
          return type_error("padding", wanted, *value, did_you_mean(*number.getAsString(), {"causal"}));
        }
      }
      llvm::Expected<std::int64_t> size = integer_(number, list == nullptr ? std::string("padding") : fmt::format("padding[{}]", d));
      if (!size) return size.takeError();
      (side == 0 ? attributes.pad_before : attributes.pad_after).push_back(*size);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<ValueId> AttributeReader::apply_conv(GraphBuilder& builder, llvm::ArrayRef<ValueId> operands, std::string name) const {
  const std::size_t rank = builder.graph().value(operands[0]).shape.size();
  const std::size_t spatial = rank < 3 ? 1 : std::min<std::size_t>(rank - 2, 3);  // another rank is refused by the builder
  ConvAttributes attributes;
  if (llvm::Error error = read_spatial("stride", spatial, attributes.stride)) return error;
  if (llvm::Error error = read_spatial("dilation", spatial, attributes.dilation)) return error;
  if (llvm::Error error = read_padding(builder.graph(), operands, spatial, attributes)) return error;
  if (const Json* value = object_.get("groups")) {
    llvm::Expected<std::int64_t> groups = integer_(*value, "groups");
    if (!groups) return groups.takeError();
    attributes.groups = *groups;
  }
  const std::optional<ValueId> bias = operands.size() > 2 ? std::optional<ValueId>(operands[2]) : std::nullopt;
  return builder.conv(operands[0], operands[1], bias, attributes, std::move(name));
}

llvm::Expected<ValueId> AttributeReader::apply_reduce(GraphBuilder& builder, ValueId x, std::string name) const {
  const Json& kind_json = *object_.get("kind");
  const auto kind_text = kind_json.getAsString();
  const auto kind = kind_text ? parse_reduce_kind(*kind_text) : std::nullopt;
  if (!kind) return choice_error("kind", kReduceKindNames, kind_json);
  llvm::SmallVector<std::int64_t, 6> axes;
  if (llvm::Error error = read_integers(*object_.get("axes"), "axes", axes)) return error;
  bool keepdims = false;
  if (llvm::Error error = read_flag(object_, "keepdims", "", keepdims)) return error;
  return builder.reduce(x, *kind, axes, keepdims, std::move(name));
}

llvm::Expected<ValueId> AttributeReader::apply_softmax(GraphBuilder& builder, ValueId x, std::string name) const {
  const Json& value = *object_.get("axis");
  const auto axis = value.getAsInteger();
  if (!axis) return type_error("axis", "an integer", value);
  return builder.softmax(x, *axis, std::move(name));
}

llvm::Expected<ValueId> AttributeReader::apply_cross_entropy(GraphBuilder& builder, llvm::ArrayRef<ValueId> operands,
                                                             std::string name) const {
  CrossEntropyAttributes attributes;
  if (const Json* value = object_.get("reduction")) {
    const auto text = value->getAsString();
    const auto reduction = text ? parse_loss_reduction(*text) : std::nullopt;
    if (!reduction) return choice_error("reduction", kLossReductionNames, *value);
    attributes.reduction = *reduction;
  }
  if (const Json* value = object_.get("ignore_index")) {
    const auto index = value->getAsInteger();
    if (!index) return type_error("ignore_index", "an integer", *value);
    attributes.ignore_index = *index;
  }
  if (const Json* value = object_.get("label_smoothing")) {
    const auto smoothing = value->getAsNumber();
    if (!smoothing) return type_error("label_smoothing", "a number in [0, 1]", *value);
    attributes.label_smoothing = *smoothing;
  }
  return builder.cross_entropy(operands[0], operands[1], attributes, std::move(name));
}

llvm::Expected<ValueId> AttributeReader::apply_map(GraphBuilder& builder, llvm::ArrayRef<ValueId> operands, std::string name) const {
  const Json& value = *object_.get("expr");
  const auto expr = value.getAsString();
  if (!expr) return type_error("expr", "a text such as \"gelu(x + z) * 0.5\"", value);
  llvm::Expected<std::optional<DType>> dtype = read_optional_dtype();
  if (!dtype) return dtype.takeError();
  return builder.map(*expr, operands, *dtype, std::move(name));
}

llvm::Expected<ValueId> AttributeReader::apply_cast(GraphBuilder& builder, ValueId x, std::string name) const {
  llvm::Expected<DType> dtype = read_dtype(*object_.get("dtype"), "dtype");
  if (!dtype) return dtype.takeError();
  return builder.cast(x, *dtype, std::move(name));
}

llvm::Expected<ValueId> AttributeReader::apply_named(GraphBuilder& builder, const OperatorInfo& info, llvm::ArrayRef<MapOperand> operands,
                                                     std::string name) const {
  llvm::StringRef form = info.name;
  if (const Json* value = object_.get("approximate")) {
    const auto text = value->getAsString();
    if (!text || !llvm::is_contained(kGeluForms, *text)) return choice_error("approximate", kGeluForms, *value);
    if (*text == "tanh") form = "gelu_tanh";
  }
  llvm::Expected<std::optional<DType>> dtype = read_optional_dtype();
  if (!dtype) return dtype.takeError();
  llvm::Expected<ValueId> id = builder.named(form, operands, *dtype, std::move(name));
  if (id || form == info.name) return id;
  ErrorFacts facts = take_error_facts(id.takeError());
  llvm::StringRef text = facts.message;
  text.consume_front("gelu_tanh: ");
  return make_error(facts.status, "{}", text);
}

}  // namespace tilewright
