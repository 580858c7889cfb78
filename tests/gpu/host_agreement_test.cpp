// What the kernels compute on the CPU, from the file that write_host_results wrote, against what they compute on the card.
// TILEWRIGHT_HOST_RESULTS names the file and TILEWRIGHT_HOST_STORE, where given, the store of its kernels;
// TILEWRIGHT_AGREEMENT_REPORT, where given, gets what is printed as JSON.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/parallel.h"
#include "tests/agreement/agreement.h"
#include "tests/gpu/gpu_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

// Of one template and one kind of agreement.
struct Count {
  unsigned cases = 0, bit_equal = 0, good = 0;
  std::int64_t elements = 0, equal_elements = 0;
  double units = 0, normwise = 0, to_exact = 0;  // the largest
};

using Compiled = std::map<std::string, std::unique_ptr<llvm::Expected<CompiledProgram>>>;

std::string program_name(const AgreementCase& c) {
  std::string name = c.description;
  for (const auto& [parameter, value] : c.overrides) name += "\n" + parameter + "=" + std::to_string(value);
  return name;
}

// Every program once, on all cores: the compiler takes most of the time of this test.
Compiled compile_all(llvm::ArrayRef<AgreementCase> cases, const Target& target) {
  StoreOptions store;
  if (const char* const directory = std::getenv("TILEWRIGHT_HOST_STORE")) store.layers.push_back(directory);
  const std::unique_ptr<Builder> builder = make_builder(store);
  Compiled compiled;
  std::vector<const AgreementCase*> distinct;
  std::vector<std::unique_ptr<llvm::Expected<CompiledProgram>>*> places;
  for (const AgreementCase& c : cases) {
    auto [place, fresh] = compiled.try_emplace(program_name(c));
    if (!fresh) continue;
    distinct.push_back(&c);
    places.push_back(&place->second);
  }
  parallel_pieces(static_cast<std::int64_t>(distinct.size()), 1, 0, [&](std::int64_t piece, std::int64_t) {
    const auto i = static_cast<std::size_t>(piece);
    *places[i] = std::make_unique<llvm::Expected<CompiledProgram>>(compile_case(*distinct[i], target, *builder));
  });
  return compiled;
}

HostTensor host_result(const Graph& graph, const AgreementCase& c, std::size_t output) {
  const Value& value = graph.value(graph.outputs()[output]);
  HostTensor tensor = HostTensor::make(value.dtype, concrete_shape(value.shape, c.dims));
  REQUIRE(tensor.bytes.size() == c.outputs[output].size());
  std::copy(c.outputs[output].begin(), c.outputs[output].end(), reinterpret_cast<char*>(tensor.bytes.data()));
  return tensor;
}

void compare_case(const AgreementCase& c, const CompiledProgram& compiled, Count& count) {
  const Graph graph = graph_of(c.description);
  INFO(c.template_name << ", N=" << c.dims[0] << ", seed " << c.inputs.seed << "\n" << c.description);
  std::vector<std::string> sources;
  for (const KernelSource& source : compiled.prepared.sources) sources.push_back(source.text);
  // Another text would make the comparison one of two kernels.
  CHECK(sources_hash(sources) == c.sources);
  GpuRun run;
  run.shift_elements = c.shift_elements;
  Gpu& gpu = Gpu::instance();
  const auto program = value_of(load_program(gpu.driver(), compiled));
  const std::vector<HostTensor> got = gpu.outputs(*program, graph, agreement_inputs(graph, c), c.dims, run);
  REQUIRE(c.outputs.size() == got.size());
  const HostTensor want = host_result(graph, c, 0);
  const Difference apart = difference(got[0], want);
  double to_exact = 0;
  if (c.agreement == Agreement::kTensor) to_exact = normwise_error(got[0], value_of(exact_sums(graph, c)).front().values);
  const bool good = agrees(c.agreement, want.dtype, apart, to_exact);
  INFO(apart.equal << " of " << apart.elements << " elements equal, " << apart.misplaced << " misplaced, " << apart.units
                   << " units in the last place, normwise " << apart.normwise << ", from the exact sums " << to_exact);
  CHECK(good);
  ++count.cases;
  count.good += good ? 1 : 0;
  count.bit_equal += apart.equal == apart.elements ? 1 : 0;
  count.elements += apart.elements;
  count.equal_elements += apart.equal;
  count.units = std::max(count.units, apart.units);
  count.normwise = std::max(count.normwise, apart.normwise);
  count.to_exact = std::max(count.to_exact, to_exact);
}

using Counts = std::map<std::pair<std::string, Agreement>, Count>;

void report(const Counts& counts) {
  llvm::json::Array lines;
  std::printf("%-30s %-52s %5s %9s %9s %10s %10s %10s\n", "template", "agreement", "cases", "bit-equal", "elements=", "units", "normwise",
              "to exact");
  for (const auto& [name, count] : counts) {
    const std::string agreement = agreement_name(name.second).str();
    std::printf("%-30s %-52s %5u %9u %8.3f%% %10.3g %10.3g %10.3g%s\n", name.first.c_str(), agreement.c_str(), count.cases, count.bit_equal,
                100.0 * static_cast<double>(count.equal_elements) / static_cast<double>(std::max<std::int64_t>(1, count.elements)),
                count.units, count.normwise, count.to_exact, count.good == count.cases ? "" : "  BEYOND ITS BOUND");
    lines.push_back(llvm::json::Object{{"template", name.first},
                                       {"agreement", agreement},
                                       {"cases", static_cast<std::int64_t>(count.cases)},
                                       {"good", static_cast<std::int64_t>(count.good)},
                                       {"bit_equal", static_cast<std::int64_t>(count.bit_equal)},
                                       {"elements", count.elements},
                                       {"equal_elements", count.equal_elements},
                                       {"largest_units", count.units},
                                       {"largest_normwise", std::isfinite(count.normwise) ? count.normwise : -1.0},
                                       {"largest_to_exact", std::isfinite(count.to_exact) ? count.to_exact : -1.0}});
  }
  const char* const path = std::getenv("TILEWRIGHT_AGREEMENT_REPORT");
  if (path == nullptr) return;
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  INFO(path << ": " << code.message());
  REQUIRE(!code);
  file << llvm::json::Value(std::move(lines)) << "\n";
}

}  // namespace

TEST_CASE("gpu: kernels compute what they compute on the CPU", "[gpu][agreement]") {
  const char* const path = std::getenv("TILEWRIGHT_HOST_RESULTS");
  if (path == nullptr) {
    std::puts("TILEWRIGHT_HOST_RESULTS is not set: no results of the CPU to compare with (write_host_results FILE writes them)");
    return;
  }
  const std::vector<AgreementCase> cases = value_of(read_agreement_cases(path));
  REQUIRE(!cases.empty());
  const Compiled compiled = compile_all(cases, Gpu::instance().target());
  std::printf("%zu cases, %zu programs compiled\n", cases.size(), compiled.size());
  std::fflush(stdout);
  Counts counts;
  for (const AgreementCase& c : cases) {
    llvm::Expected<CompiledProgram>& program = *compiled.at(program_name(c));
    INFO(c.description);
    if (!program) FAIL(take_error_facts(program.takeError()).message);
    compare_case(c, *program, counts[{c.template_name, c.agreement}]);
  }
  report(counts);
  for (const auto& [name, count] : counts) CHECK(count.good == count.cases);
}
