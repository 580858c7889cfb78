// tilewright ops [NAME]: the operators of the description format and the functions of its expressions.
#include "llvm/ADT/STLExtras.h"
#include "ops/expression.h"
#include "ops/operators.h"
#include "tools/cli.h"

namespace tilewright::cli {
namespace {

// Functions callable in an expression: "exp", "max/2" where the arity is not one.
std::string functions_text() {
  std::string text;
  for (const ExprFnInfo& info : expr_functions()) {
    if (!text.empty()) text += ", ";
    text += info.name.str();
    if (info.arity != 1) text += fmt::format("/{}", info.arity);
  }
  return text;
}

bool takes_expression(const OperatorInfo& op) {
  return llvm::any_of(op.attributes, [](const AttributeInfo& attribute) { return attribute.name == "expr"; });
}

std::string operator_text(const OperatorInfo& op) {
  std::string text = fmt::format("{}: {}\n  formula    {}\n  result     {}\n  operands{}\n", op.name, op.summary, op.formula, op.result,
                                 op.is_variadic ? " (any number)" : "");
  for (const OperandInfo& operand : op.operands) {
    text += fmt::format("    {:<16} {}: {}{}\n", operand.name, operand.dtypes, operand.shape, operand.optional ? " (optional)" : "");
  }
  if (!op.attributes.empty()) text += "  attributes\n";
  for (const AttributeInfo& attribute : op.attributes) {
    text += fmt::format("    {:<16} {} ({}): {}\n", attribute.name, attribute.type,
                        attribute.default_value.empty() ? "required" : fmt::format("default {}", attribute.default_value), attribute.doc);
  }
  if (!op.expansion.empty()) text += fmt::format("  short for   map with expr \"{}\"\n", op.expansion);
  if (takes_expression(op)) text += fmt::format("  functions  {}\n", functions_text());
  return text;
}

llvm::json::Object operator_json(const OperatorInfo& op) {
  llvm::json::Array operands, attributes;
  for (const OperandInfo& operand : op.operands) {
    operands.push_back(
        llvm::json::Object{{"name", operand.name}, {"dtypes", operand.dtypes}, {"shape", operand.shape}, {"optional", operand.optional}});
  }
  for (const AttributeInfo& attribute : op.attributes) {
    llvm::json::Object object{
        {"name", attribute.name}, {"type", attribute.type}, {"doc", attribute.doc}, {"required", attribute.default_value.empty()}};
    if (!attribute.default_value.empty()) object["default"] = attribute.default_value;
    attributes.push_back(std::move(object));
  }
  llvm::json::Object object{{"name", op.name},
                            {"summary", op.summary},
                            {"formula", op.formula},
                            {"result", op.result},
                            {"variadic", op.is_variadic},
                            {"operands", std::move(operands)},
                            {"attributes", std::move(attributes)}};
  if (!op.expansion.empty()) object["expansion"] = op.expansion;
  if (takes_expression(op)) {
    llvm::json::Array functions;
    for (const ExprFnInfo& info : expr_functions()) {
      functions.push_back(llvm::json::Object{{"name", info.name}, {"arity", static_cast<std::int64_t>(info.arity)}});
    }
    object["functions"] = std::move(functions);
  }
  return object;
}

Output all_operators(bool json) {
  if (json) {
    llvm::json::Array array;
    for (const OperatorInfo& op : operator_table()) array.push_back(operator_json(op));
    return Output{json_text(llvm::json::Object{{"operators", std::move(array)}})};
  }
  std::string text;
  for (const OperatorInfo& op : operator_table()) text += fmt::format("{:<14} {}\n", op.name, op.summary);
  text += fmt::format("functions in a map's expr: {}\n`tilewright ops NAME` says more\n", functions_text());
  return Output{std::move(text)};
}

llvm::Expected<Output> run_ops(const std::string& name, bool json) {
  if (name.empty()) return all_operators(json);
  if (const OperatorInfo* op = find_operator(name)) return Output{json ? json_text(operator_json(*op)) : operator_text(*op)};
  llvm::ArrayRef<ExprFnInfo> functions = expr_functions();
  const ExprFnInfo* function = llvm::find_if(functions, [&](const ExprFnInfo& info) { return info.name == name; });
  if (function != functions.end()) {
    if (json)
      return Output{
          json_text(llvm::json::Object{{"name", function->name}, {"arity", static_cast<std::int64_t>(function->arity)}, {"of", "map"}})};
    return Output{
        fmt::format("{}: function of {} for the expr of a map; see `tilewright ops map`\n", name, count_text(function->arity, "operand"))};
  }
  llvm::SmallVector<llvm::StringRef, 64> known(operator_names());
  for (const ExprFnInfo& info : functions) known.push_back(info.name);
  llvm::StringRef nearest = nearest_name(name, known);
  return make_error(Status::kInvalidArgument, "unknown operator or function '{}'{}", name,
                    nearest.empty() ? fmt::format("; operators are {}", fmt::join(operator_names(), ", "))
                                    : fmt::format("; did you mean '{}'?", nearest));
}

}  // namespace

Action add_ops(CLI::App& app) {
  struct Options {
    std::string name;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->name, "operator to explain");
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return run_ops(options->name, options->json); };
}

}  // namespace tilewright::cli
