// The plan over all templates: every description of tests/codegen/cases.cpp in combinations of data, alignment, dimensions and tile
// parameters. The full product would take hours: each pair of choices comes together in some combination of a description or of its
// neighbours in the list, and of the tile parameters one at a time leaves its default. What is left out is counted and printed.
#include <algorithm>
#include <cstdio>
#include <map>

#include "codegen/space.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/codegen/cases.h"
#include "tests/graphs.h"
#include "tests/host/host_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

enum class Data { kPlain, kSpecial };
enum class Sizes { kDefault, kLeast, kOdd };
enum class Config { kDefault, kOther, kUnfused };

struct Combination {
  Data data;
  bool misaligned;
  Sizes sizes;
  Config config;
};

// Every pair of values of two factors is in one of the rows (two factors of three values need nine; three rows of them and the two of two
// values fall together).
constexpr Combination kPairs[] = {
    {Data::kPlain, false, Sizes::kDefault, Config::kDefault}, {Data::kSpecial, true, Sizes::kDefault, Config::kOther},
    {Data::kPlain, true, Sizes::kDefault, Config::kUnfused},  {Data::kSpecial, true, Sizes::kLeast, Config::kDefault},
    {Data::kPlain, false, Sizes::kLeast, Config::kOther},     {Data::kSpecial, false, Sizes::kLeast, Config::kUnfused},
    {Data::kPlain, true, Sizes::kOdd, Config::kDefault},      {Data::kSpecial, false, Sizes::kOdd, Config::kOther},
    {Data::kSpecial, true, Sizes::kOdd, Config::kUnfused},
};
constexpr unsigned kAllCombinations = 2 * 2 * 3 * 3;
constexpr unsigned kParts = 4, kSanitizedParts = 4;
constexpr unsigned kMostExtra = 3;  // runs of a description for values that nobody has tried
// Of reductions, whose blocks wait for others and keep their stacks meanwhile: more take minutes, or more mappings than the system gives.
constexpr std::int64_t kMostSplits = 8, kMostThreads = 256;

llvm::SmallVector<std::int64_t, 4> sizes_of(const Graph& graph, Sizes sizes) {
  llvm::SmallVector<std::int64_t, 4> dims = graph.default_dims();
  for (auto [dim, symbol] : llvm::zip_equal(dims, graph.symbols())) {
    if (sizes == Sizes::kLeast) dim = symbol.min;
    if (sizes == Sizes::kOdd) dim = std::min(symbol.max, std::max(symbol.min, symbol.default_value * 2 + 1));
  }
  return dims;
}

// One tile parameter at another value than the default's.
struct Change {
  std::string label;  // "row.block_threads = 64"
  std::string name;
  std::int64_t value;
};

// Those that the lowering takes, of all kernels of a fused program.
std::vector<Change> changes_of(const DescriptionCase& c, const Graph& graph) {
  CompileOptions options;
  options.plan.fuse = !c.unfused;
  const Space space = value_of(make_space(graph, options));
  const auto prepared = value_of(prepare_program(graph, options));
  std::vector<Change> changes;
  for (const SpaceParameter& parameter : space.parameters) {
    const auto [kernel, of_kernel] = llvm::StringRef(parameter.name).split('.');
    const unsigned index = of_kernel.empty() ? 0 : static_cast<unsigned>(std::stoul(kernel.str()));
    const llvm::StringRef short_name = of_kernel.empty() ? llvm::StringRef(parameter.name) : of_kernel;
    for (std::int64_t value : parameter.values) {
      const bool waits = prepared.plan.groups[index].kind == TemplateKind::kReduce;
      if (waits && ((short_name == "splits" && value > kMostSplits) || (short_name == "block_threads" && value > kMostThreads))) continue;
      ConfigOverrides config = c.config;
      config[parameter.name] = value;
      if (value == parameter.fallback || !take_error_facts(check_config(graph, options, space, config)).message.empty()) continue;
      changes.push_back(
          {fmt::format("{}.{} = {}", template_name(prepared.plan.groups[index].kind), short_name, value), parameter.name, value});
    }
  }
  return changes;
}

// How often each change has run; a part of the plan takes the least tried of what a description allows.
class Coverage {
 public:
  // The config of `c` with the least tried change, where there is one.
  ConfigOverrides next(const DescriptionCase& c, llvm::ArrayRef<Change> changes) {
    ConfigOverrides config = c.config;
    if (const Change* least = least_tried(changes)) {
      ++runs_[least->label];
      config[least->name] = least->value;
    }
    return config;
  }
  // Whether some change has not run yet.
  bool lacks(llvm::ArrayRef<Change> changes) {
    const Change* least = least_tried(changes);
    return least != nullptr && runs_[least->label] == 0;
  }
  void print() const {
    for (const auto& [label, runs] : runs_) std::printf("value %s %u\n", label.c_str(), runs);
  }
  std::size_t known() const { return runs_.size(); }
  std::size_t tried() const {
    return static_cast<std::size_t>(llvm::count_if(runs_, [](const auto& run) { return run.second > 0; }));
  }

 private:
  const Change* least_tried(llvm::ArrayRef<Change> changes) {
    for (const Change& change : changes) runs_.try_emplace(change.label, 0);
    const auto* least =
        std::min_element(changes.begin(), changes.end(), [&](const Change& a, const Change& b) { return runs_[a.label] < runs_[b.label]; });
    return least == changes.end() ? nullptr : least;
  }

  std::map<std::string, unsigned> runs_;
};

// But for the config of Config::kOther.
HostCase host_case(const DescriptionCase& c, const Combination& choice, std::uint64_t seed) {
  HostCase run;
  run.fuse = !c.unfused && choice.config != Config::kUnfused;
  run.seed = seed;
  run.low = -3.0;
  run.high = 3.0;
  run.special_values = choice.data == Data::kSpecial;
  run.shift_elements = choice.misaligned ? 1 : 0;
  if (choice.config != Config::kUnfused) run.overrides = c.config;
  return run;
}

void run_part(unsigned part) {
  unsigned ran = 0, described = 0;
  Coverage coverage;
  const std::vector<DescriptionCase> cases = description_cases();
  for (std::size_t i = part; i < cases.size(); i += kParts) {
    const Graph graph = graph_of(cases[i].json);
    std::vector<Change> changes = changes_of(cases[i], graph);
    // Every part begins elsewhere.
    std::rotate(changes.begin(), changes.begin() + static_cast<std::ptrdiff_t>(changes.size() * part / kParts), changes.end());
    ++described;
    for (std::size_t row = 0; row < std::size(kPairs); ++row) {
      const Combination& c = kPairs[row];
      // Without named dimensions the sizes fall together; one row of each remaining pair stays, in turn.
      if (graph.symbols().empty() && row != 0 && row % 4 != i / kParts % 4) continue;
      HostCase run = host_case(cases[i], c, 100 * i + row + 1);
      if (c.config == Config::kOther) run.overrides = coverage.next(cases[i], changes);
      if (row == 0) run.low = -1.0, run.high = 1.0;
      check_on_host(cases[i].name, graph, sizes_of(graph, c.sizes), run);
      ++ran;
    }
    for (unsigned extra = 0; extra < kMostExtra && !cases[i].seed_like && coverage.lacks(changes); ++extra) {
      HostCase run = host_case(cases[i], kPairs[0], 100 * i + 50 + extra);
      run.overrides = coverage.next(cases[i], changes);
      check_on_host(cases[i].name, graph, graph.default_dims(), run);
      ++ran;
    }
  }
  std::printf("host plan, part %u of %u: %u descriptions, %u of %u combinations ran, %zu of %zu parameter values\n", part + 1, kParts,
              described, ran, described * kAllCombinations, coverage.tried(), coverage.known());
  if (std::getenv("TILEWRIGHT_PLAN_VALUES") != nullptr) coverage.print();
}

// Under the compiler's sanitizers: of each description one combination, the next one each time, so that every one comes with every
// template.
void run_sanitized_part(unsigned part) {
  unsigned ran = 0, described = 0;
  Coverage coverage;
  const std::vector<DescriptionCase> cases = description_cases();
  for (std::size_t i = part; i < cases.size(); i += kSanitizedParts) {
    const Graph graph = graph_of(cases[i].json);
    const Combination& c = kPairs[i / kSanitizedParts % std::size(kPairs)];
    HostCase run = host_case(cases[i], c, 1000 * i + 7);
    if (c.config == Config::kOther) run.overrides = coverage.next(cases[i], changes_of(cases[i], graph));
    run.sanitize = "address,undefined";
    check_on_host(cases[i].name, graph, sizes_of(graph, c.sizes), run);
    ++described, ++ran;
  }
  std::printf("host plan under sanitizers, part %u of %u: %u descriptions, %u of %u combinations ran\n", part + 1, kSanitizedParts,
              described, ran, described * kAllCombinations);
}

}  // namespace

TEST_CASE("host: plan over all templates, part 1", "[host]") { run_part(0); }
TEST_CASE("host: plan over all templates, part 2", "[host]") { run_part(1); }
TEST_CASE("host: plan over all templates, part 3", "[host]") { run_part(2); }
TEST_CASE("host: plan over all templates, part 4", "[host]") { run_part(3); }

// Run by sanitizer_test.cpp in a process of their own.
TEST_CASE("host: sanitized plan over all templates 1", "[.sanitized]") { run_sanitized_part(0); }
TEST_CASE("host: sanitized plan over all templates 2", "[.sanitized]") { run_sanitized_part(1); }
TEST_CASE("host: sanitized plan over all templates 3", "[.sanitized]") { run_sanitized_part(2); }
TEST_CASE("host: sanitized plan over all templates 4", "[.sanitized]") { run_sanitized_part(3); }
