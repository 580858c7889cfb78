#include <algorithm>
#include <map>

#include "autotune/report_page.h"
#include "autotune/svg.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace tilewright {
namespace {

class Statements {
 public:
  void good(llvm::StringRef text) { add("good", "\xe2\x9c\x93", text); }
  void doubtful(llvm::StringRef text) { add("doubt", "!", text); }
  std::string take() { return fmt::format("<ul class=\"trust\">{}</ul>", out_); }

 private:
  void add(llvm::StringRef style, llvm::StringRef sign, llvm::StringRef text) {
    out_ += fmt::format("<li class=\"{}\"><span class=\"sign\">{}</span> {}</li>", style, sign, escape_markup(text));
  }
  std::string out_;
};

bool apart(const Interval& a, const Interval& b) { return a.high < b.low || b.high < a.low; }

void verification(Statements& out, const ReportProblem& source) {
  if (!source.verification) return out.doubtful("No verification is recorded.");
  const VerificationReport& report = *source.verification;
  double normwise = 0;
  bool passed = !report.cases.empty();
  for (const CaseReport& c : report.cases) {
    passed = passed && c.passed;
    normwise = std::max(normwise, c.normwise);
  }
  const std::string cases = count_text(report.cases.size(), "case");
  if (passed)
    out.good(fmt::format("The winner agrees with the reference on {}; largest normwise error {}.", cases, error_text(normwise)));
  else
    out.doubtful(fmt::format("The winner does not agree with the reference on all of {}.", cases));
  for (const std::string& skipped : report.skipped) out.doubtful("Left out of the verification: " + skipped);
}

void against_default(Statements& out, const TimedCandidate& winner, const TimedCandidate* fallback) {
  if (winner.fallback) return out.good("The default is the winner: nothing faster was found.");
  if (fallback == nullptr) return out.doubtful("The default was not timed, so nothing is known of what the tuning gains.");
  const double ratio = fallback->time.median / winner.time.median;
  if (!apart(winner.time, fallback->time))
    out.doubtful(
        fmt::format("Winner and default cannot be told apart: their intervals overlap (medians differ by {:+.1f} %).", (ratio - 1) * 100));
  else if (ratio < 1)
    out.doubtful(
        fmt::format("The default is faster than the winner: {} against {}.", interval_text(fallback->time), interval_text(winner.time)));
  else
    out.good(fmt::format("The winner takes {} of the default's time ({} x as fast), and their intervals are apart.",
                         fmt::format("{:.1f} %", 100 / ratio), number_text(ratio)));
}

// The rule by which a search chooses: among those within the tie band of the fastest, the one with the fewest resources.
void against_rest(Statements& out, const ReportView& view, const TimedCandidate& winner) {
  const double fastest = view.timed.front().time.median, most = fastest * (1 + kTieBand);
  std::size_t ties = 0, overlapping = 0;
  for (const TimedCandidate& c : view.timed) {
    if (c.winner) continue;
    ties += c.time.median <= most;
    overlapping += !apart(c.time, winner.time);
  }
  if (winner.time.median > most)
    out.doubtful(fmt::format("The winner is {:.1f} % slower than the fastest candidate; see the samples of both.",
                             (winner.time.median / fastest - 1) * 100));
  if (ties == 0 && overlapping == 0) return out.good("The winner's interval is apart from that of every other candidate.");
  if (ties > 0)
    out.good(fmt::format("{} within {:.0f} % of the fastest; among those the fewest resources decide.",
                         ties == 1 ? "1 other candidate is" : fmt::format("{} other candidates are", ties), kTieBand * 100));
  out.good(fmt::format("Of {} the interval overlaps the winner's: they cannot be told apart from it.",
                       count_text(overlapping, "other candidate")));
}

void samples(Statements& out, const TimedCandidate& winner) {
  const double width = (winner.time.high - winner.time.low) / winner.time.median * 100;
  const std::string text = fmt::format("The winner has {}; the 95 % interval of its median is {:.1f} % wide.",
                                       count_text(winner.samples.size(), "sample"), width);
  constexpr std::size_t kFewSamples = 6;  // below, the interval is the range of the samples
  if (winner.samples.size() < kFewSamples || width > 5)
    out.doubtful(text);
  else
    out.good(text);
}

void fates(Statements& out, const ReportView& view) {
  std::map<Fate, std::size_t> counts;
  for (const Candidate* candidate : view.untimed) ++counts[candidate->fate];
  const std::size_t total = view.source->candidates.size();
  if (view.timed.empty()) return out.doubtful(fmt::format("None of {} was verified and timed.", count_text(total, "candidate")));
  std::vector<std::string> harmful;
  for (Fate fate : {Fate::kWrong, Fate::kCrashed, Fate::kTimedOut}) {
    if (counts.count(fate)) harmful.push_back(fmt::format("{} {}", counts[fate], fate_name(fate)));
  }
  if (!harmful.empty())
    out.doubtful(
        fmt::format("Of {}: {}. None of them can win; reasons are below.", count_text(total, "candidate"), fmt::join(harmful, ", ")));
}

// "2 busy, 1 throttled"; "" for none.
std::string troubles(const llvm::json::Object* counts) {
  std::vector<std::string> parts;
  if (counts == nullptr) return "";
  for (const auto& [trouble, count] : *counts) parts.push_back(fmt::format("{} {}", count.getAsInteger().value_or(0), trouble.str()));
  llvm::sort(parts);
  return fmt::format("{}", fmt::join(parts, ", "));
}

void conditions(Statements& out, const llvm::json::Object* seen) {
  if (seen == nullptr) return;
  if (const std::string kept = troubles(seen->getObject("kept")); !kept.empty())
    out.doubtful(fmt::format("Sets of samples taken under bad conditions, repeated in vain and kept: {}.", kept));
  if (const std::string repeated = troubles(seen->getObject("repeated")); !repeated.empty())
    out.good(fmt::format("Samples taken under bad conditions were thrown away and taken again: {}.", repeated));
}

}  // namespace

std::string trust_list(const ReportView& view) {
  Statements out;
  const ReportProblem& source = *view.source;
  if (source.problem.policy == "simulated") out.doubtful("Times are simulated on the CPU: they show the machinery, not a GPU.");
  const TimedCandidate* winner = view.winner();
  if (winner == nullptr) {
    out.doubtful("There is no winner and no record: the default stays in use.");
  } else {
    verification(out, source);
    against_default(out, *winner, view.fallback());
    against_rest(out, view, *winner);
    samples(out, *winner);
    if (winner->time.median < view.floor.us())
      out.doubtful(
          "The winner is faster than the floor: part of the data was served by caches, or the bandwidth is not that of this device.");
  }
  fates(out, view);
  conditions(out, source.environment.getObject("conditions"));
  const std::string ended = source.environment.getString("ended").value_or("").str();
  if (ended == "settled") out.good("The search ended by itself.");
  if (!ended.empty() && ended != "settled") out.doubtful(fmt::format("The search was ended by: {}.", ended));
  return out.take();
}

}  // namespace tilewright
