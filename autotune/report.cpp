#include "autotune/report.h"

#include <cmath>

#include "autotune/report_charts.h"
#include "autotune/report_page.h"
#include "autotune/svg.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// Widths that fit the page on a desk and on a telephone; the style sheet shows one of the two.
constexpr double kBroad = 940, kSlim = 338;

std::string sizes_text(const ReportProblem& source) {
  const std::string named = source.environment.getString("sizes").value_or("").str();
  return named.empty() && !source.problem.dims.empty() ? fmt::format("[{}]", fmt::join(source.problem.dims, ", ")) : named;
}

std::string figure(llvm::StringRef name, llvm::StringRef value, llvm::StringRef detail) {
  return fmt::format("<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>", escape_markup(name), escape_markup(value),
                     escape_markup(detail));
}

std::string range_text(const Interval& time) {
  const TimeUnit unit = time_unit(time.median);
  return fmt::format("{} to {} {}", number_text(time.low / unit.us, 4), number_text(time.high / unit.us, 4), unit.name);
}

std::string figures(const ReportView& view) {
  std::string out = "<dl class=\"figures\">";
  const TimedCandidate* winner = view.winner();
  const TimedCandidate* fallback = view.fallback();
  if (winner != nullptr) out += figure("winner", duration_text(winner->time.median), range_text(winner->time));
  if (fallback != nullptr) out += figure("default", duration_text(fallback->time.median), range_text(fallback->time));
  if (winner != nullptr && fallback != nullptr)
    out += figure("gain", fmt::format("{} x", number_text(fallback->time.median / winner->time.median)), "default / winner");
  if (view.floor.us() > 0)
    out += figure("floor", duration_text(view.floor.us()),
                  winner != nullptr ? fmt::format("winner is {} x that", number_text(winner->time.median / view.floor.us())) : "");
  out += figure("candidates", std::to_string(view.source->candidates.size()), fmt::format("{} timed", view.timed.size()));
  return out + "</dl>";
}

// A picture in both widths.
template <typename Draw>
std::string both_widths(Draw draw, double broad = kBroad) {
  return fmt::format("<div class=\"broad\">{}</div><div class=\"slim\">{}</div>", draw(broad), draw(kSlim));
}

constexpr llvm::StringLiteral kMarks =
    "<span class=\"key win\">\xe2\x97\x86</span> winner, <span class=\"key def\">\xe2\x96\xa0</span> default";

std::string time_pictures(const ReportView& view) {
  if (view.timed.empty()) return "<p class=\"note\">No candidate was timed, so there is no picture of times.</p>";
  std::string out = "<h3>All candidates</h3><figure>" + both_widths([&](double width) { return times_chart(view, width); });
  out += fmt::format(
      "<figcaption>Dot: median. Thick bar: its 95 % interval. Thin line: least to largest sample. {}{}. Point at a candidate for its "
      "config.</figcaption></figure>",
      kMarks.str(), view.floor.us() > 0 ? ", <span class=\"key floor\">\xe2\x80\x94</span> floor" : "");
  out += "<h3>The fastest, magnified</h3><figure>" + both_widths([&](double width) { return finalists_chart(view, width); });
  out += fmt::format(
      "<figcaption>Every sample is a dot. Shaded: within {:.0f} % of the fastest. The line above each names the parameters in which it "
      "differs from the winner.</figcaption></figure>",
      kTieBand * 100);
  if (view.varying.empty()) return out;
  out += fmt::format("<h3>Parameters against time</h3><figure><div class=\"panels\">{}</div>", parameter_panels(view));
  out += fmt::format(
      "<figcaption>Time [{}] over the values of each parameter that varies. Each dot is a candidate; the line joins the fastest of each "
      "value. {}; \xc3\x97 "
      "tried, none timed.</figcaption></figure>",
      time_unit(view.timed.front().time.median).name, kMarks.str());
  return out;
}

std::string problem_section(const ReportView& view, std::size_t number) {
  const ReportProblem& source = *view.source;
  const std::string sizes = sizes_text(source);
  std::string out = fmt::format("<section id=\"p{}\"><h2>{} {}</h2>", number, escape_markup(source.problem.name), escape_markup(sizes));
  out += fmt::format("<p class=\"sub\">{} ({}), timing policy {}{}</p>", escape_markup(source.problem.device),
                     escape_markup(source.problem.target), escape_markup(source.problem.policy),
                     source.problem.fuse ? "" : ", one kernel per op");
  out += figures(view);
  if (source.winner) out += fmt::format("<p class=\"config\">{}</p>", escape_markup(config_line(*source.winner)));
  out += "<h3>Can it be trusted?</h3>" + trust_list(view) + time_pictures(view);
  const std::string roofline = both_widths([&](double width) { return roofline_chart(view, width); }, 460);
  out += "<h3>Roofline</h3><div class=\"pair\">";
  if (!roofline.empty())
    out += fmt::format(
        "<figure>{}<figcaption>Dots: candidates, at the operations a byte of the problem. Green: up to "
        "what memory and arithmetic allow there.</figcaption></figure>",
        roofline);
  out += fmt::format("<div><div class=\"scroll\">{}</div></div></div>", rates_table(view));
  out += "<h3>Fates and reasons</h3>" + fates_table(view);
  out += fmt::format("<h3>Every candidate</h3><details><summary>Table of {}</summary>{}</details>", source.candidates.size(),
                     candidates_table(view));
  out += "<h3>Verification of the winner</h3>" + verification_table(view);
  return out + "<h3>Environment</h3>" + environment_table(view) + "</section>\n";
}

std::string overview(llvm::ArrayRef<ReportView> views) {
  std::string rows;
  for (auto [index, view] : llvm::enumerate(views)) {
    const TimedCandidate* winner = view.winner();
    const TimedCandidate* fallback = view.fallback();
    auto number = [&](const std::string& text) { rows += fmt::format("<td class=\"n\">{}</td>", escape_markup(text)); };
    const RecordProblem& problem = view.source->problem;
    rows += fmt::format("<tr><th scope=\"row\"><a href=\"#p{}\">{}</a><br><small>{}</small></th>", index + 1, escape_markup(problem.name),
                        escape_markup(sizes_text(*view.source)));
    number(winner != nullptr ? duration_text(winner->time.median) : "no winner");
    number(fallback != nullptr ? duration_text(fallback->time.median) : "-");
    number(winner != nullptr && fallback != nullptr ? fmt::format("{} x", number_text(fallback->time.median / winner->time.median)) : "-");
    number(winner != nullptr && view.floor.us() > 0 ? fmt::format("{} x", number_text(winner->time.median / view.floor.us())) : "-");
    number(fmt::format("{} of {}", view.timed.size(), view.source->candidates.size()));
    for (const std::string& text : {problem.device, problem.policy}) rows += fmt::format("<td>{}</td>", escape_markup(text));
    rows += "</tr>";
  }
  return fmt::format("<div class=\"scroll\"><table>{}<tbody>{}</tbody></table></div>",
                     table_heads({"problem", "winner", "default", "gain", "time / floor", "timed", "device", "policy"}), rows);
}

}  // namespace

double Floor::us() const { return bytes > 0 && bytes_per_s > 0 ? bytes / bytes_per_s * 1e6 : 0; }

llvm::json::Object floor_json(const Cost& cost, const DeviceRates& rates) {
  return llvm::json::Object{{"bytes", static_cast<double>(cost.bytes)},
                            {"flops", static_cast<double>(cost.flops)},
                            {"bytes_per_s", rates.bytes_per_s},
                            {"flops_per_s", rates.flops_per_s}};
}

Floor parse_floor(const llvm::json::Object& environment) {
  const llvm::json::Object* object = environment.getObject("floor");
  if (object == nullptr) return {};
  auto positive = [&](llvm::StringRef key) {
    const double value = object->getNumber(key).value_or(0);
    return std::isfinite(value) && value > 0 ? value : 0.0;
  };
  return {positive("bytes"), positive("flops"), positive("bytes_per_s"), positive("flops_per_s")};
}

ReportProblem report_problem(const TuningRecord& record) {
  ReportProblem problem{record.problem(), record.winner(), record.fallback(), {}, {}, record.environment(), record.space(), record.build()};
  problem.candidates.assign(record.candidates().begin(), record.candidates().end());
  // A record was parsed or made from such a report, so that this does not fail.
  if (auto report = parse_report(llvm::json::Object(record.verification())))
    problem.verification = std::move(*report);
  else
    llvm::consumeError(report.takeError());
  return problem;
}

std::string report_html(llvm::ArrayRef<ReportProblem> problems, llvm::ArrayRef<std::string> notes) {
  std::vector<ReportView> views;
  for (const ReportProblem& problem : problems) views.push_back(view_of(problem));
  const std::string title =
      problems.size() == 1 ? "Tuning of " + problems.front().problem.name : fmt::format("Tuning of {} problems", problems.size());
  // The policy forbids what the page has no need of: should a text slip through unescaped, it still can neither run nor load anything.
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
      escape_markup(title), report_style());
  for (const std::string& note : notes) out += fmt::format("<p class=\"note\">{}</p>\n", escape_markup(note));
  if (problems.empty()) out += "<p>There is no record to tell of.</p>\n";
  if (views.size() > 1) out += overview(views) + "\n";
  for (auto [index, view] : llvm::enumerate(views)) out += problem_section(view, index + 1);
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace tilewright
