#include <map>

#include "autotune/report_page.h"
#include "autotune/svg.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

std::string cell(llvm::StringRef text, llvm::StringRef style = "") {
  return style.empty() ? fmt::format("<td>{}</td>", escape_markup(text))
                       : fmt::format("<td class=\"{}\">{}</td>", style, escape_markup(text));
}

std::string number_cell(llvm::StringRef text) { return cell(text, "n"); }

std::string count_cell(std::int64_t count) { return number_cell(std::to_string(count)); }

std::string json_line(const llvm::json::Value& value) {
  if (const auto text = value.getAsString()) return text->str();
  std::string out;
  llvm::raw_string_ostream os(out);
  os << value;
  return os.str();
}

using Facts = std::map<std::string, std::string>;

// {"floor": {"bytes": 1}} becomes "floor.bytes" = "1".
void flatten(const llvm::json::Object& object, const std::string& prefix, Facts& facts) {
  for (const auto& [key, value] : object) {
    const std::string name = prefix + key.str();
    if (const llvm::json::Object* inner = value.getAsObject()) {
      flatten(*inner, name + ".", facts);
    } else {
      facts[name] = json_line(value);
    }
  }
}

llvm::StringRef fate_meaning(Fate fate) {
  switch (fate) {
    case Fate::kWaiting:
      return "not looked at before the search ended";
    case Fate::kRefused:
      return "the lowering does not take it";
    case Fate::kCompileFailed:
      return "the compiler does not take it, or took too long";
    case Fate::kPruned:
      return "what the compiler made cannot run well";
    case Fate::kDuplicate:
      return "the same kernels as another candidate";
    case Fate::kWrong:
      return "differs from the reference, writes outside its outputs, or gives other bits on a second run";
    case Fate::kCrashed:
      return "ended the helper, or a launch failed";
    case Fate::kTimedOut:
      return "did not end";
    case Fate::kMeasured:
      return "verified and timed";
  }
  return "";
}

// Fates of candidates that did harm, or would have.
llvm::StringRef fate_style(Fate fate) {
  return fate == Fate::kWrong || fate == Fate::kCrashed || fate == Fate::kTimedOut || fate == Fate::kCompileFailed ? "fate bad" : "fate";
}

std::string rate_row(const ReportView& view, llvm::StringRef name, double us) {
  const Floor& floor = view.floor;
  std::string row = fmt::format("<tr><th scope=\"row\">{}</th>", escape_markup(name)) + number_cell(duration_text(us));
  row += number_cell(floor.us() > 0 ? fmt::format("{} x", number_text(us / floor.us())) : "-");
  row += number_cell(floor.bytes > 0 ? rate_text(floor.bytes / us * 1e6, "B") : "-");
  row += number_cell(floor.flops > 0 ? rate_text(floor.flops / us * 1e6, "FLOP") : "-");
  return row + "</tr>";
}

}  // namespace

std::string table_heads(llvm::ArrayRef<llvm::StringRef> names) {
  // Columns of words; all others hold numbers and are aligned at their right.
  static constexpr llvm::StringLiteral kWords[] = {"",       "problem", "device", "policy", "fate",
                                                   "reason", "which",   "case",   "result", "details"};
  std::string out = "<thead><tr>";
  for (llvm::StringRef name : names)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", llvm::is_contained(kWords, name) ? "" : " class=\"n\"", escape_markup(name));
  return out + "</tr></thead>";
}

std::string rates_table(const ReportView& view) {
  std::string out = "<table>" + table_heads({"", "time", "time / floor", "bytes", "operations"}) + "<tbody>";
  const TimedCandidate* winner = view.winner();
  const TimedCandidate* fallback = view.fallback();
  if (winner != nullptr) out += rate_row(view, "winner", winner->time.median);
  if (fallback != nullptr) out += rate_row(view, "default", fallback->time.median);
  if (view.floor.us() > 0) out += rate_row(view, "floor", view.floor.us());
  if (view.floor.flops > 0 && view.floor.flops_per_s > 0)
    out += rate_row(view, "f32 arithmetic alone", view.floor.flops / view.floor.flops_per_s * 1e6);
  out += "</tbody></table>";
  if (view.floor.us() > 0) {
    out += fmt::format("<p class=\"note\">{} in and out, each crossing memory once at {}: {}.",
                       escape_markup(llvm::StringRef(rate_text(view.floor.bytes, "B")).drop_back(2)),
                       rate_text(view.floor.bytes_per_s, "B"), duration_text(view.floor.us()));
    out += " Operations are those of the description; the f32 roof is that of the vector units, which tensor cores may pass.</p>";
  } else {
    out += "<p class=\"note\">The record does not say the bytes of the problem or the bandwidth of the device, so no floor is drawn.</p>";
  }
  return out;
}

std::string fates_table(const ReportView& view) {
  std::map<std::pair<Fate, std::string>, std::vector<const Candidate*>> groups;
  for (const Candidate* candidate : view.untimed) groups[{candidate->fate, candidate->reason}].push_back(candidate);
  std::string out = "<div class=\"scroll\"><table>" + table_heads({"fate", "candidates", "reason", "which"}) + "<tbody>";
  out += "<tr>" + cell(fate_name(Fate::kMeasured), "fate") + count_cell(static_cast<std::int64_t>(view.timed.size())) +
         cell(fate_meaning(Fate::kMeasured)) + cell("below") + "</tr>";
  for (const auto& [key, candidates] : groups) {
    out += "<tr>" +
           fmt::format("<td class=\"{}\" title=\"{}\">{}</td>", fate_style(key.first), escape_markup(fate_meaning(key.first)),
                       fate_name(key.first)) +
           count_cell(static_cast<std::int64_t>(candidates.size()));
    out += cell(key.second.empty() ? fate_meaning(key.first) : llvm::StringRef(key.second), "reason");
    std::string names;
    for (const Candidate* candidate : candidates) names += fmt::format("<li>{}</li>", escape_markup(config_line(candidate->config)));
    constexpr std::size_t kShown = 3;
    if (candidates.size() > kShown)
      names = fmt::format("<details><summary>{} configs</summary><ul>{}</ul></details>", candidates.size(), names);
    else
      names = "<ul>" + names + "</ul>";
    out += fmt::format("<td class=\"mono\">{}</td></tr>", names);
  }
  return out + "</tbody></table></div>";
}

namespace {

std::string resource_cells(const Candidate& c) {
  const Resources& r = c.resources;
  std::string out;
  for (std::int64_t count : {r.registers, r.local_bytes, r.shared_bytes, r.block_threads, r.blocks_per_sm})
    out += number_cell(r.block_threads > 0 ? std::to_string(count) : "");
  return out + number_cell(c.compile_ms > 0 ? number_text(c.compile_ms) : "") +
         number_cell(c.predicted_us > 0 ? number_text(c.predicted_us, 4) : "");
}

std::string parameter_cells(const ReportView& view, const Candidate& candidate) {
  std::string out;
  for (const std::string& name : view.varying) {
    const auto found = candidate.config.find(name);
    out += number_cell(found != candidate.config.end() ? std::to_string(found->second) : "");
  }
  return out;
}

}  // namespace

std::string candidates_table(const ReportView& view) {
  std::vector<llvm::StringRef> names{"rank"};
  names.insert(names.end(), view.varying.begin(), view.varying.end());
  llvm::append_range(
      names, llvm::ArrayRef<llvm::StringRef>{"fate", "median [us]", "95 % interval [us]", "samples", "normwise error", "registers",
                                             "local [B]", "shared [B]", "threads", "blocks per SM", "compile [ms]", "predicted [us]"});
  std::string out = "<div class=\"scroll tall\"><table>" + table_heads(names) + "<tbody>";
  for (const TimedCandidate& c : view.timed) {
    out += c.winner ? "<tr class=\"winner\">" : c.fallback ? "<tr class=\"default\">" : "<tr>";
    out += count_cell(static_cast<std::int64_t>(c.rank)) + parameter_cells(view, *c.candidate);
    out += cell(c.winner ? "winner" : c.fallback ? "default" : "measured") + number_cell(number_text(c.time.median, 4));
    out += number_cell(fmt::format("{} - {}", number_text(c.time.low, 4), number_text(c.time.high, 4)));
    out += count_cell(static_cast<std::int64_t>(c.samples.size())) + number_cell(error_text(c.candidate->normwise_error));
    out += resource_cells(*c.candidate) + "</tr>";
  }
  for (const Candidate* c : view.untimed) {
    out += "<tr>" + cell("") + parameter_cells(view, *c) + cell(fate_name(c->fate), fate_style(c->fate));
    out += cell("") + cell("") + cell("") + cell("") + resource_cells(*c) + "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string verification_table(const ReportView& view) {
  const auto& report = view.source->verification;
  if (!report) return "<p class=\"note\">No verification is recorded.</p>";
  std::string out = "<div class=\"scroll\"><table>" + table_heads({"case", "result", "normwise error", "details"}) + "<tbody>";
  for (const CaseReport& c : report->cases)
    out += "<tr>" + cell(c.name) + cell(c.passed ? "agrees" : "differs", c.passed ? "fate" : "fate bad") +
           number_cell(error_text(c.normwise)) + cell(c.text, "reason") + "</tr>";
  for (const std::string& skipped : report->skipped)
    out += "<tr>" + cell(llvm::StringRef(skipped).split(':').first) + cell("left out", "fate bad") + cell("") + cell(skipped, "reason") +
           "</tr>";
  return out + "</tbody></table></div>";
}

std::string environment_table(const ReportView& view) {
  const ReportProblem& source = *view.source;
  Facts facts;
  flatten(source.environment, "", facts);
  std::string out = "<div class=\"scroll\"><table><tbody>";
  auto row = [&](llvm::StringRef name, llvm::StringRef value) {
    out += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"mono\">{}</td></tr>", escape_markup(name), escape_markup(value));
  };
  row("device", source.problem.device);
  row("target", source.problem.target);
  row("timing policy", source.problem.policy);
  row("signature", source.problem.signature);
  row("fused", source.problem.fuse ? "yes" : "no");
  row("space", source.space);
  row("library build", source.build);
  for (const auto& [name, value] : facts) row(name, value);
  return out + "</tbody></table></div>";
}

}  // namespace tilewright
