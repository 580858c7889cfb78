#include "autotune/report_view.h"

#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "autotune/svg.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

template <typename Condition>
const TimedCandidate* find_timed(const ReportView& view, Condition condition) {
  const auto found = llvm::find_if(view.timed, condition);
  return found == view.timed.end() ? nullptr : &*found;
}

std::vector<std::string> varying_parameters(llvm::ArrayRef<Candidate> candidates) {
  std::map<std::string, std::set<std::int64_t>> values;
  for (const Candidate& candidate : candidates) {
    for (const auto& [name, value] : candidate.config) values[name].insert(value);
  }
  std::vector<std::string> names;
  for (const auto& [name, seen] : values) {
    if (seen.size() > 1) names.push_back(name);
  }
  return names;
}

}  // namespace

const TimedCandidate* ReportView::winner() const {
  return find_timed(*this, [](const TimedCandidate& c) { return c.winner; });
}

const TimedCandidate* ReportView::fallback() const {
  return find_timed(*this, [](const TimedCandidate& c) { return c.fallback; });
}

ReportView view_of(const ReportProblem& problem) {
  ReportView view;
  view.source = &problem;
  view.floor = parse_floor(problem.environment);
  view.varying = varying_parameters(problem.candidates);
  for (const Candidate& candidate : problem.candidates) {
    TimedCandidate timed;
    timed.candidate = &candidate;
    if (candidate.fate == Fate::kMeasured)
      llvm::copy_if(candidate.samples_us, std::back_inserter(timed.samples), [](double us) { return std::isfinite(us) && us > 0; });
    if (timed.samples.empty()) {
      view.untimed.push_back(&candidate);
      continue;
    }
    timed.time = median_interval(timed.samples);
    timed.winner = problem.winner == candidate.config;
    timed.fallback = problem.fallback == candidate.config;
    view.timed.push_back(std::move(timed));
  }
  llvm::stable_sort(view.timed, [](const TimedCandidate& a, const TimedCandidate& b) {
    return std::tie(a.time.median, a.candidate->config) < std::tie(b.time.median, b.candidate->config);
  });
  for (auto [index, timed] : llvm::enumerate(view.timed)) timed.rank = index + 1;
  llvm::stable_sort(view.untimed, [](const Candidate* a, const Candidate* b) {
    return std::tie(a->fate, a->reason, a->config) < std::tie(b->fate, b->reason, b->config);
  });
  return view;
}

TimeUnit time_unit(double us) {
  if (us >= 1e6) return {1e6, "s"};
  if (us >= 1e4) return {1e3, "ms"};
  if (us < 0.1) return {1e-3, "ns"};
  return {};
}

std::string duration_text(double us) {
  const TimeUnit unit = time_unit(us);
  return fmt::format("{} {}", number_text(us / unit.us, 4), unit.name);
}

std::string rate_text(double per_s, llvm::StringRef unit) {
  static constexpr std::pair<double, llvm::StringLiteral> kPrefixes[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [scale, prefix] : kPrefixes) {
    if (per_s >= scale) return fmt::format("{} {}{}/s", number_text(per_s / scale), llvm::StringRef(prefix), unit);
  }
  return fmt::format("{} {}/s", number_text(per_s), unit);
}

std::vector<std::string> config_words(const ConfigOverrides& config, const ConfigOverrides* base) {
  std::vector<std::string> words;
  for (const auto& [name, value] : config) {
    if (base != nullptr) {
      const auto found = base->find(name);
      if (found != base->end() && found->second == value) continue;
    }
    words.push_back(fmt::format("{} {}", name, value));
  }
  return words;
}

std::string config_line(const ConfigOverrides& config, const ConfigOverrides* base) {
  const std::vector<std::string> words = config_words(config, base);
  if (words.empty()) return base != nullptr ? "the same" : "no parameters";
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string error_text(double normwise) {
  if (!std::isfinite(normwise)) return "not finite";
  return normwise == 0 ? "0" : fmt::format("{:.1e}", normwise);
}

std::string interval_text(const Interval& time) {
  const TimeUnit unit = time_unit(time.median);
  return fmt::format("{} {} [{}, {}]", number_text(time.median / unit.us, 4), unit.name, number_text(time.low / unit.us, 4),
                     number_text(time.high / unit.us, 4));
}

}  // namespace tilewright
