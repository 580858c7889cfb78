#include <fstream>

#include "llvm/Support/Base64.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"
#include "tests/agreement/agreement.h"

namespace tilewright {
namespace {

constexpr std::int64_t kFormat = 1;

llvm::json::Value to_json(const AgreementCase& c) {
  llvm::json::Array dims, outputs;
  for (std::int64_t dim : c.dims) dims.push_back(dim);
  for (const std::string& bytes : c.outputs) outputs.push_back(llvm::encodeBase64(bytes));
  llvm::json::Object overrides;
  for (const auto& [name, value] : c.overrides) overrides[name] = value;
  return llvm::json::Object{{"format", kFormat},
                            {"template", c.template_name},
                            {"agreement", static_cast<std::int64_t>(c.agreement)},
                            {"description", c.description},
                            {"dims", std::move(dims)},
                            {"seed", static_cast<std::int64_t>(c.inputs.seed)},
                            {"low", c.inputs.low},
                            {"high", c.inputs.high},
                            {"special_values", c.inputs.special_values},
                            {"shift_elements", std::int64_t{c.shift_elements}},
                            {"overrides", std::move(overrides)},
                            {"sources", c.sources},
                            {"outputs", std::move(outputs)}};
}

llvm::Expected<AgreementCase> from_json(const llvm::json::Value& value) {
  llvm::json::Path::Root root("case");
  llvm::json::ObjectMapper map(value, root);
  AgreementCase c;
  std::int64_t format = 0, agreement = 0, seed = 0, shift = 0;
  std::vector<std::int64_t> dims;
  std::vector<std::string> outputs;
  const bool good = map && map.map("format", format) && format == kFormat && map.map("template", c.template_name) &&
                    map.map("agreement", agreement) && map.map("description", c.description) && map.map("dims", dims) &&
                    map.map("seed", seed) && map.map("low", c.inputs.low) && map.map("high", c.inputs.high) &&
                    map.map("special_values", c.inputs.special_values) && map.map("shift_elements", shift) &&
                    map.map("overrides", c.overrides) && map.map("sources", c.sources) && map.map("outputs", outputs) && agreement >= 0 &&
                    agreement <= static_cast<std::int64_t>(Agreement::kTensor);
  if (!good) {
    return make_error(Status::kCorrupt, "not a case of format {}: {}", kFormat, llvm::toString(root.getError()));
  }
  c.agreement = static_cast<Agreement>(agreement);
  c.dims.assign(dims.begin(), dims.end());
  c.inputs.seed = static_cast<std::uint64_t>(seed);
  c.shift_elements = static_cast<std::uint32_t>(shift);
  for (const std::string& text : outputs) {
    std::vector<char> bytes;
    if (llvm::Error error = llvm::decodeBase64(text, bytes)) {
      llvm::consumeError(std::move(error));
      return make_error(Status::kCorrupt, "output bytes are not base64");
    }
    c.outputs.emplace_back(bytes.begin(), bytes.end());
  }
  return c;
}

}  // namespace

llvm::Error write_agreement_cases(const std::string& path, llvm::ArrayRef<AgreementCase> cases) {
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (code) return make_error(Status::kIo, "cannot write {}: {}", path, code.message());
  for (const AgreementCase& c : cases) file << to_json(c) << "\n";
  file.close();
  if (file.has_error()) {
    code = file.error();
    file.clear_error();
    return make_error(Status::kIo, "cannot write {}: {}", path, code.message());
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<AgreementCase>> read_agreement_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) return make_error(Status::kIo, "cannot read {}", path);
  std::vector<AgreementCase> cases;
  for (std::string line; std::getline(file, line);) {
    auto json = llvm::json::parse(line);
    if (!json) return make_error(Status::kCorrupt, "{}, line {}: {}", path, cases.size() + 1, llvm::toString(json.takeError()));
    auto c = from_json(*json);
    if (!c) return prefix_error(c.takeError(), fmt::format("{}, line {}: ", path, cases.size() + 1));
    cases.push_back(std::move(*c));
  }
  return cases;
}

}  // namespace tilewright
