#include "tests/host/host_fixture.h"

#include <limits>

#include "llvm/ADT/STLExtras.h"

namespace tilewright::tests {
namespace {

void sprinkle_special_values(HostTensor& tensor, std::uint64_t seed) {
  const double values[] = {std::numeric_limits<double>::quiet_NaN(), INFINITY, -INFINITY, 1e-40, -0.0, 1e15, -1e15};
  const std::int64_t count = tensor.element_count();
  if (!is_floating(tensor.dtype) || count == 0) return;
  for (std::uint64_t k = 0; k < 7; ++k)
    tensor.set(static_cast<std::int64_t>((seed * 2654435761u + k * 40503u * 97u) % static_cast<std::uint64_t>(count)), values[k]);
}

}  // namespace

HostBuilder& host_builder() {
  static const std::unique_ptr<HostBuilder> kBuilder = make_host_builder(StoreOptions{});
  return *kBuilder;
}

void check_on_host(const std::string& title, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const HostCase& run) {
  INFO(title << ", seed " << run.seed << (run.special_values ? ", special values" : "") << (run.shift_elements ? ", misaligned" : "")
             << (run.fuse ? "" : ", unfused") << (run.overrides.empty() ? "" : ", small blocks"));
  std::vector<HostTensor> inputs;
  for (auto [index, id] : llvm::enumerate(graph.inputs())) {
    inputs.push_back(random_input(graph, id, dims, run.seed + index, index == 0 ? run.low : -0.25, index == 0 ? run.high : 0.25));
    if (run.special_values) sprinkle_special_values(inputs.back(), run.seed + index);
  }
  RunOnHostOptions options;
  options.compile.plan.fuse = run.fuse;
  options.run.execute.seed = run.seed;
  options.run.execute.time_limit_s = 120;
  options.run.shift_elements = run.shift_elements;
  options.compile.overrides = run.overrides;
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
