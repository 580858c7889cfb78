#include "autotune/verifier.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autotune/candidate.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"
#include "ops/cost.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

using Dims = llvm::SmallVector<std::int64_t, 4>;

// Every named dimension near `wanted`, within its range.
Dims dims_near(const Graph& graph, std::int64_t wanted) {
  Dims dims;
  for (const Symbol& symbol : graph.symbols()) dims.push_back(std::clamp(wanted, symbol.min, symbol.max));
  return dims;
}

// Special values at a few places that a hash of their number chooses; all others stay. `moderate`: products may cancel, and the bound of an
// element allows for rounding errors of moderate ones alone.
void sprinkle(HostTensor& tensor, std::uint64_t seed, bool moderate) {
  const double huge = moderate ? 1e4 : tensor.dtype == DType::kF16 ? 3e4 : 1e15;
  const double tiny = tensor.dtype == DType::kF16 ? 1e-6 : 1e-40;
  const double values[] = {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), tiny, huge};
  const auto count = static_cast<std::uint64_t>(tensor.element_count());
  if (count == 0) return;
  for (double value : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    tensor.set(static_cast<std::int64_t>((seed >> 20) % count), value);
  }
}

// Of an output with more elements a sample is compared: evenly spaced from a place the seed chooses, and the last ones. Every byte is still
// compared between two runs.
constexpr std::int64_t kMostCompared = std::int64_t{1} << 20;
constexpr std::int64_t kLastCompared = 4096;

struct SampledOutput {
  HostTensor got;
  ReferenceTensor want;
};

SampledOutput sample_output(const HostTensor& got, const ReferenceTensor& want, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(want.values.size());
  // Odd, so that no column of a power of two is passed over.
  const std::int64_t step = (count / kMostCompared + 1) | 1;
  std::vector<std::int64_t> places;
  for (std::int64_t i = static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(step)); i < count - kLastCompared; i += step)
    places.push_back(i);
  for (std::int64_t i = count - kLastCompared; i < count; ++i) places.push_back(i);
  const auto sampled = static_cast<std::int64_t>(places.size());
  SampledOutput output{HostTensor::make(got.dtype, {sampled}), {{sampled}, {}}};
  const std::size_t bytes = dtype_bytes(got.dtype);
  for (auto [index, place] : llvm::enumerate(places)) {
    std::copy_n(got.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(got.storage_offset(place)) * bytes), bytes,
                output.got.bytes.begin() + static_cast<std::ptrdiff_t>(index * bytes));
    output.want.values.push_back(want.values[static_cast<std::size_t>(place)]);
  }
  return output;
}

Comparison compare_sampled(const HostTensor& got, const ReferenceTensor& want, const Tolerance& tolerance, std::uint64_t seed) {
  if (got.shape != want.shape || static_cast<std::int64_t>(want.values.size()) <= kMostCompared) return compare(got, want, tolerance);
  const SampledOutput output = sample_output(got, want, seed);
  return compare(output.got, output.want, tolerance);
}

double json_value(const llvm::json::Value* value) {
  return value != nullptr ? value->getAsNumber().value_or(std::numeric_limits<double>::infinity()) : 0.0;
}

}  // namespace

std::vector<VerifyCase> verification_cases(const Graph& graph, llvm::ArrayRef<std::int64_t> dims) {
  using Data = VerifyCase::Data;
  const Dims real(dims.begin(), dims.end());
  std::vector<VerifyCase> cases;
  if (!graph.symbols().empty()) {
    cases.push_back({"tails", dims_near(graph, 37), Data::kRandom, 0, false});
    cases.push_back({"one", dims_near(graph, 1), Data::kRandom, 0, false});
  }
  const Dims small = graph.symbols().empty() ? real : dims_near(graph, 13);
  cases.push_back({"misaligned", small, Data::kRandom, 1, false});
  cases.push_back({"special", small, Data::kSpecial, 0, false});
  cases.push_back({"real", real, Data::kRandom, 0, true});
  return cases;
}

std::vector<HostTensor> case_inputs(const Graph& graph, const VerifyCase& which, std::uint64_t seed) {
  const bool moderate = contracts(graph);
  std::vector<HostTensor> inputs;
  for (auto [index, id] : llvm::enumerate(graph.inputs())) {
    HostTensor tensor = random_input(graph, id, which.dims, seed + index);
    if (which.data == VerifyCase::Data::kSpecial && is_floating(tensor.dtype)) sprinkle(tensor, seed + index, moderate);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

llvm::Expected<bool> CandidateRunner::renew(llvm::ArrayRef<HostTensor>) { return false; }

llvm::json::Object report_json(const VerificationReport& report) {
  llvm::json::Array cases;
  for (const CaseReport& c : report.cases) {
    llvm::json::Value normwise = std::isfinite(c.normwise) ? llvm::json::Value(c.normwise) : llvm::json::Value(nullptr);
    cases.push_back(llvm::json::Object{
        {"name", c.name}, {"passed", c.passed}, {"normwise", std::move(normwise)}, {"text", c.text}, {"launched", c.launched}});
  }
  return llvm::json::Object{
      {"config", config_json(report.config)}, {"cases", std::move(cases)}, {"skipped", llvm::json::Array(report.skipped)}};
}

llvm::Expected<VerificationReport> parse_report(const llvm::json::Value& json) {
  const llvm::json::Object* object = json.getAsObject();
  const llvm::json::Array* cases = object != nullptr ? object->getArray("cases") : nullptr;
  const llvm::json::Array* skipped = object != nullptr ? object->getArray("skipped") : nullptr;
  if (cases == nullptr || skipped == nullptr) return make_error(Status::kCorrupt, "verification report: no cases");
  VerificationReport report;
  auto config = parse_config_json(object->get("config"));
  if (!config) return config.takeError();
  report.config = std::move(*config);
  for (const llvm::json::Value& value : *cases) {
    const llvm::json::Object* c = value.getAsObject();
    if (c == nullptr) return make_error(Status::kCorrupt, "verification report: a case is no object");
    report.cases.push_back({c->getString("name").value_or("").str(), c->getBoolean("passed").value_or(false),
                            json_value(c->get("normwise")), c->getString("text").value_or("").str(),
                            c->getBoolean("launched").value_or(true)});
  }
  for (const llvm::json::Value& value : *skipped) report.skipped.push_back(value.getAsString().value_or("").str());
  return report;
}

double Verified::normwise() const {
  double largest = 0;
  for (const CaseReport& c : report_.cases) largest = std::max(largest, c.normwise);
  return largest;
}

Verifier::Verifier(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, VerifyOptions options)
    : graph_(graph), options_(options), cases_(verification_cases(graph, dims)), prepared_(cases_.size()) {}

bool Verifier::affordable(const VerifyCase& which) const { return graph_cost(graph_, which.dims).flops <= options_.most_reference_flops; }

llvm::Expected<const Verifier::Prepared*> Verifier::prepared(std::size_t index) {
  std::optional<Prepared>& slot = prepared_[index];
  if (!slot) {
    Prepared made;
    made.inputs = case_inputs(graph_, cases_[index], options_.seed + 1000 * index);
    auto wanted = evaluate_reference(graph_, made.inputs, cases_[index].dims);
    if (!wanted) return prefix_error(wanted.takeError(), fmt::format("reference of case {}: ", cases_[index].name));
    made.wanted = std::move(*wanted);
    slot = std::move(made);
  }
  return &*slot;
}

CaseReport Verifier::check_case(std::size_t index, const Prepared& data, const ConfigOverrides& config, CandidateRunner& runner) const {
  const VerifyCase& which = cases_[index];
  CaseReport report{which.name, false, 0, ""};
  std::vector<HostTensor> first;
  for (int run = 0; run < (which.twice && graph_.deterministic() ? 2 : 1); ++run) {
    auto outputs = runner.run(config, which.dims, data.inputs, which.shift_elements);
    if (!outputs) {
      ErrorFacts facts = take_error_facts(outputs.takeError());
      report.text = std::move(facts.message);
      report.launched = facts.status == Status::kKernelFault;  // found by a check, not by the driver
      return report;
    }
    if (run == 0) {
      first = std::move(*outputs);
      continue;
    }
    for (auto [id, a, b] : llvm::zip_equal(graph_.outputs(), first, *outputs)) {
      if (a.bytes == b.bytes) continue;
      report.text = fmt::format("{}: two launches on the same inputs gave different bits", graph_.value(id).name);
      return report;
    }
  }
  for (auto [id, got, want] : llvm::zip_equal(graph_.outputs(), first, data.wanted)) {
    const std::uint64_t place = llvm::xxh3_64bits(config_text(config));  // other elements for each candidate
    const Comparison comparison = compare_sampled(got, want, default_tolerance(graph_, id), place);
    report.normwise = std::max(report.normwise, comparison.normwise);
    report.text = fmt::format("{}: {}", graph_.value(id).name, comparison_text(comparison));
    if (!comparison.passed) return report;
  }
  report.passed = true;
  return report;
}

llvm::Expected<VerificationReport> Verifier::check(const ConfigOverrides& config, CandidateRunner& runner) {
  VerificationReport report;
  report.config = config;
  for (std::size_t index = 0; index < cases_.size(); ++index) {
    if (!affordable(cases_[index])) {
      report.skipped.push_back(cases_[index].name + ": its reference would take too long");
      continue;
    }
    auto data = prepared(index);
    if (!data) return data.takeError();
    CaseReport checked = check_case(index, **data, config, runner);
    if (!checked.passed && checked.launched) {
      // An earlier candidate may have written into the inputs; this one is not to blame for it.
      auto renewed = runner.renew((*data)->inputs);
      if (!renewed) {
        checked.launched = false;
        checked.text = take_error_facts(renewed.takeError()).message;
      } else if (*renewed) {
        checked = check_case(index, **data, config, runner);
      }
    }
    report.cases.push_back(std::move(checked));
    if (!report.cases.back().passed) break;
  }
  return report;
}

llvm::Expected<Verified> Verifier::accept(const ConfigOverrides& config, const VerificationReport& report) const {
  if (report.config != config) {
    return make_error(Status::kMismatch, "the report is about {}, not {}", config_text(report.config), config_text(config));
  }
  std::size_t wanted = 0;
  for (const VerifyCase& which : cases_) {
    if (!affordable(which)) continue;
    ++wanted;
    const auto found = llvm::find_if(report.cases, [&](const CaseReport& c) { return c.name == which.name; });
    if (found == report.cases.end()) {
      for (const CaseReport& c : report.cases) {
        if (!c.passed) return make_error(Status::kMismatch, "case {}: {}", c.name, c.text);
      }
      return make_error(Status::kMismatch, "case {} was not compared", which.name);
    }
    if (!found->passed) return make_error(Status::kMismatch, "case {}: {}", which.name, found->text);
  }
  if (wanted == 0) return make_error(Status::kMismatch, "no case is small enough for a reference");
  return Verified(report);
}

}  // namespace tilewright
