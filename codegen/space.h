// What may be chosen for each template: the named tile parameters and the values worth trying. Which combinations hold together is what the
// lowering of the template accepts; nothing here repeats its checks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

// One parameter of a template; `values` ascending.
struct TemplateParameter {
  llvm::StringRef name;
  std::vector<std::int64_t> values;
  llvm::StringRef meaning;
};
// In the order in which the lowering reads them. Static lifetime.
llvm::ArrayRef<TemplateParameter> template_parameters(TemplateKind kind);

// One parameter of a program. `name` is the key of a config: "block_threads", or "1.block_threads" for kernel 1 of several.
struct SpaceParameter {
  std::string name;
  std::vector<std::int64_t> values;  // ascending, the default among them
  std::int64_t fallback = 0;         // what lowering chooses for this shape and device
  std::string meaning;
};

// Every choice for one program.
struct Space {
  std::vector<SpaceParameter> parameters;

  // All combinations, refused ones too; saturates at INT64_MAX.
  std::int64_t combinations() const;
  // Combination number `index` of combinations(), the last parameter changing fastest.
  ConfigOverrides combination(std::int64_t index) const;
  // What lowering chooses by itself.
  ConfigOverrides default_config() const;
  // Hexadecimal digest of names and values: a record made over another space is not used unseen.
  std::string identity() const;
};

// Errors of prepare_program; options.overrides are not looked at.
llvm::Expected<Space> make_space(const Graph& graph, const CompileOptions& options);

// Success when every parameter of `config` belongs to the space, has one of its values, and the lowering accepts the whole.
// Error kInvalidArgument with the parameter's name, else what the lowering says.
llvm::Error check_config(const Graph& graph, const CompileOptions& options, const Space& space, const ConfigOverrides& config);

// {"block_threads":256,"vector_elems":4}: keys sorted, no spaces.
std::string config_text(const ConfigOverrides& config);

// The table `tilewright show --what space` prints.
std::string space_text(const Graph& graph, const Space& space);

}  // namespace tilewright
