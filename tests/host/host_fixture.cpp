#include "tests/host/host_fixture.h"

#include "codegen/space.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/codegen/inputs.h"

namespace tilewright::tests {

HostBuilder& host_builder() {
  static const std::unique_ptr<HostBuilder> kBuilder = make_host_builder(StoreOptions{});
  return *kBuilder;
}

bool names_one_of(llvm::StringRef report, llvm::StringRef wanted) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  wanted.split(parts, '|');
  return llvm::any_of(parts, [&](llvm::StringRef part) { return report.contains(part); });
}

void check_on_host(const std::string& title, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const HostCase& run) {
  INFO(title << ", seed " << run.seed << (run.special_values ? ", special values" : "") << (run.shift_elements ? ", misaligned" : "")
             << (run.fuse ? "" : ", unfused") << ", " << config_text(run.overrides));
  const std::vector<HostTensor> inputs = make_test_inputs(graph, dims, {run.seed, run.low, run.high, run.special_values});
  RunOnHostOptions options;
  options.compile.plan.fuse = run.fuse;
  options.run.execute.seed = run.seed;
  options.run.execute.time_limit_s = 120;
  options.run.shift_elements = run.shift_elements;
  options.compile.overrides = run.overrides;
  options.sanitize = run.sanitize;
  auto result = run_on_host(graph, inputs, dims, host_builder(), options);
  if (!result) {
    FAIL_CHECK(take_error_facts(result.takeError()).message);
    return;
  }
  const auto wanted = value_of(evaluate_reference(graph, inputs, dims));
  for (auto [index, id] : llvm::enumerate(graph.outputs())) {
    const Comparison comparison = compare(result->outputs[index], wanted[index], default_tolerance(graph, id));
    INFO(comparison_text(comparison));
    CHECK(comparison.passed);
  }
}

}  // namespace tilewright::tests
