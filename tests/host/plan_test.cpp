// The plan over all templates: every description of tests/codegen/cases.cpp in combinations of data, alignment, dimensions and tile
// parameters. The full product would take hours, so each pair of choices comes together in some combination of a description or, for tile
// parameters, of its neighbours in the list; what is left out is counted and printed.
#include <cstdio>

#include "tests/codegen/cases.h"
#include "tests/host/host_fixture.h"

using namespace tilewright;
using namespace tilewright::tests;

namespace {

enum class Data { kPlain, kSpecial };
enum class Sizes { kDefault, kLeast, kOdd };
enum class Config { kDefault, kSmall, kUnfused };

struct Combination {
  Data data;
  bool misaligned;
  Sizes sizes;
  Config config;
};

// Every pair of values of two factors is in one of the rows (two factors of three values need nine; three rows of them and the two of two
// values fall together).
constexpr Combination kPairs[] = {
    {Data::kPlain, false, Sizes::kDefault, Config::kDefault}, {Data::kSpecial, true, Sizes::kDefault, Config::kSmall},
    {Data::kPlain, true, Sizes::kDefault, Config::kUnfused},  {Data::kSpecial, true, Sizes::kLeast, Config::kDefault},
    {Data::kPlain, false, Sizes::kLeast, Config::kSmall},     {Data::kSpecial, false, Sizes::kLeast, Config::kUnfused},
    {Data::kPlain, true, Sizes::kOdd, Config::kDefault},      {Data::kSpecial, false, Sizes::kOdd, Config::kSmall},
    {Data::kSpecial, true, Sizes::kOdd, Config::kUnfused},
};
constexpr unsigned kAllCombinations = 2 * 2 * 3 * 3;
constexpr unsigned kParts = 4, kSanitizedParts = 4;

llvm::SmallVector<std::int64_t, 4> sizes_of(const Graph& graph, Sizes sizes) {
  llvm::SmallVector<std::int64_t, 4> dims = graph.default_dims();
  for (auto [dim, symbol] : llvm::zip_equal(dims, graph.symbols())) {
    if (sizes == Sizes::kLeast) dim = symbol.min;
    if (sizes == Sizes::kOdd) dim = std::min(symbol.max, std::max(symbol.min, symbol.default_value * 2 + 1));
  }
  return dims;
}

// Smaller blocks than the default, where the template takes them.
ConfigOverrides small_config(const Graph& graph) {
  const auto prepared = value_of(prepare_program(graph));
  for (const auto& [name, value] : prepared.lowered.kernels.front().parameters) {
    if (name != "block_threads" || value < 64) continue;
    CompileOptions options;
    options.overrides = {{name, value / 2}};
    auto smaller = prepare_program(graph, options);
    if (smaller) return options.overrides;
    llvm::consumeError(smaller.takeError());
  }
  return {};
}

HostCase host_case(const DescriptionCase& c, const Graph& graph, const Combination& choice, std::uint64_t seed) {
  HostCase run;
  run.fuse = !c.unfused && choice.config != Config::kUnfused;
  run.seed = seed;
  run.low = -3.0;
  run.high = 3.0;
  run.special_values = choice.data == Data::kSpecial;
  run.shift_elements = choice.misaligned ? 1 : 0;
  if (choice.config == Config::kSmall) run.overrides = small_config(graph);
  if (run.fuse && run.overrides.empty()) run.overrides = c.config;
  return run;
}

void run_part(unsigned part) {
  unsigned ran = 0, described = 0;
  const std::vector<DescriptionCase> cases = description_cases();
  for (std::size_t i = part; i < cases.size(); i += kParts) {
    const Graph graph = value_of(parse_description(cases[i].json));
    ++described;
    for (std::size_t row = 0; row < std::size(kPairs); ++row) {
      const Combination& c = kPairs[row];
      // Without named dimensions the sizes fall together; one row of each remaining pair stays, in turn.
      if (graph.symbols().empty() && row != 0 && row % 4 != i / kParts % 4) continue;
      HostCase run = host_case(cases[i], graph, c, 100 * i + row + 1);
      if (row == 0) run.low = -1.0, run.high = 1.0;
      check_on_host(cases[i].name, graph, sizes_of(graph, c.sizes), run);
      ++ran;
    }
  }
  std::printf("host plan, part %u of %u: %u descriptions, %u of %u combinations ran\n", part + 1, kParts, described, ran,
              described * kAllCombinations);
}

// Under the compiler's sanitizers: of each description one combination, the next one each time, so that every one comes with every
// template.
void run_sanitized_part(unsigned part) {
  unsigned ran = 0, described = 0;
  const std::vector<DescriptionCase> cases = description_cases();
  for (std::size_t i = part; i < cases.size(); i += kSanitizedParts) {
    const Graph graph = value_of(parse_description(cases[i].json));
    const Combination& c = kPairs[i / kSanitizedParts % std::size(kPairs)];
    HostCase run = host_case(cases[i], graph, c, 1000 * i + 7);
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
