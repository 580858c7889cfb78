#include "codegen/compile.h"

#include <iterator>

#include "codegen/embedded_templates.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "ops/json.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// SMs of the largest common part and opt-in shared memory per block (CUDA programming guide, technical specifications per capability).
struct ArchitectureModel {
  int number;
  DeviceModel device;
};
constexpr ArchitectureModel kArchitectures[] = {
    {80, {108, 166912}},  {86, {84, 101376}},  {87, {16, 166912}},   {88, {84, 101376}},  {89, {142, 101376}},  {90, {132, 232448}},
    {100, {148, 232448}}, {101, {20, 232448}}, {103, {160, 232448}}, {110, {20, 232448}}, {120, {188, 101376}}, {121, {48, 101376}},
};

// What an entry of the store says of itself, for people and tools: no part of its key.
std::string provenance(const Graph& graph, llvm::StringRef canonical, llvm::StringRef graph_signature, const LoweredKernel& kernel) {
  llvm::json::Object config;
  for (const auto& [name, value] : kernel.parameters) config[name] = value;
  llvm::json::Object object{{"name", graph.name()},         {"kernel", kernel.spec.launch.entry}, {"computes", kernel.spec.title},
                            {"signature", graph_signature}, {"description", canonical},           {"config", std::move(config)}};
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::json::Value(std::move(object));
  return os.str();
}

}  // namespace

DeviceModel device_model(const Target& target) {
  // The newest architecture not newer than the target; PTX for the unknown is planned for the newest known one.
  const ArchitectureModel* best = std::begin(kArchitectures);
  for (const ArchitectureModel& model : kArchitectures) {
    if (model.number <= target.number()) best = &model;
  }
  DeviceModel device = best->device;
  device.wgmma = target.number() == 90 && target.architecture_specific && !target.ptx;
  return device;
}

llvm::ArrayRef<MemoryHeader> template_headers() {
  static const std::vector<MemoryHeader> kHeaders = [] {
    std::vector<MemoryHeader> headers;
    for (const EmbeddedFile& file : embedded_templates()) {
      headers.push_back({file.name.data(), file.text.data()});  // NOLINT(bugprone-suspicious-stringview-data-usage): literals end in a zero
    }
    return headers;
  }();
  return kHeaders;
}

llvm::ArrayRef<MemoryHeader> host_headers() {
  static const std::vector<MemoryHeader> kHeaders = [] {
    std::vector<MemoryHeader> headers(template_headers());
    for (const EmbeddedFile& file : embedded_host_headers()) headers.push_back({file.name.data(), file.text.data()});
    return headers;
  }();
  return kHeaders;
}

BuilderOptions builder_options(llvm::ArrayRef<MemoryHeader> headers) {
  BuilderOptions options;
  options.headers = headers;
  options.build_identity = build_identity().str();
  options.library_version = TILEWRIGHT_VERSION;
  return options;
}

std::unique_ptr<Builder> make_builder(StoreOptions store) {
  return std::make_unique<Builder>(std::make_shared<Store>(std::move(store)), builder_options(template_headers()));
}

llvm::Expected<PreparedProgram> prepare_program(const Graph& graph, const CompileOptions& options) {
  llvm::Expected<Plan> plan = make_plan(graph, options.plan);
  if (!plan) return plan.takeError();
  llvm::Expected<LoweredProgram> lowered = lower(graph, *plan, options.device, options.overrides);
  if (!lowered) return lowered.takeError();
  PreparedProgram prepared{std::move(*plan), std::move(*lowered), {}};
  const std::string canonical = canonical_form(graph);
  const std::string graph_signature = signature(graph);
  for (const LoweredKernel& kernel : prepared.lowered.kernels) {
    prepared.sources.push_back({kernel.spec.launch.entry, kernel.source, provenance(graph, canonical, graph_signature, kernel)});
  }
  return prepared;
}

llvm::Expected<CompiledProgram> compile_program(const Graph& graph, const Target& target, Builder& builder, const CompileOptions& options) {
  llvm::Expected<PreparedProgram> prepared = prepare_program(graph, options);
  if (!prepared) return prepared.takeError();
  auto artifacts = builder.get_all(prepared->sources, target);
  if (!artifacts) return artifacts.takeError();
  return CompiledProgram{std::move(*prepared), std::move(*artifacts)};
}

llvm::Expected<std::unique_ptr<Program>> load_program(const Driver& driver, const CompiledProgram& compiled) {
  return Program::create(driver, compiled.prepared.lowered.recipe, compiled.artifacts);
}

}  // namespace tilewright
