#include "autotune/report_charts.h"

#include <algorithm>
#include <cmath>

#include "autotune/svg.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr double kMonospaceWidth = 6.7;  // of a character of the labels' font at 11 px, rounded up
constexpr double kLogRatio = 4;          // a range of times wider than this is drawn on a logarithmic axis
constexpr std::size_t kFinalists = 12;

struct Frame {
  double left, top, right, bottom;  // edges of the plot
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

std::string time_title(const TimedCandidate& c, const TimedCandidate* base) {
  const ConfigOverrides* other = base != nullptr && base != &c ? &base->candidate->config : nullptr;
  return fmt::format("#{}{}{}: {}, {} samples\n{}{}", c.rank, c.winner ? ", winner" : "", c.fallback ? ", default" : "",
                     interval_text(c.time), c.samples.size(), other != nullptr ? "differs from the winner in: " : "",
                     config_line(c.candidate->config, other));
}

Scale in_units(const Scale& scale, const TimeUnit& unit) {
  return {scale.low / unit.us, scale.high / unit.us, scale.from, scale.to, scale.log};
}

// Room for the ticks of a vertical axis.
double tick_room(const Scale& in_unit, unsigned most) {
  std::size_t longest = 1;
  for (double tick : in_unit.ticks(most)) longest = std::max(longest, tick_text(tick).size());
  return 12 + kMonospaceWidth * static_cast<double>(longest);
}

void horizontal_grid(Svg& svg, const Frame& frame, const Scale& in_unit, unsigned most) {
  for (double tick : in_unit.ticks(most)) {
    const double at = in_unit.at(tick);
    svg.line("grid", frame.left, at, frame.right, at);
    svg.text("tick", frame.left - 6, at + 4, Anchor::kEnd, tick_text(tick));
  }
}

// A mark of the shape that its candidate has in every picture.
void mark(Svg& svg, const TimedCandidate& c, double x, double y, double radius, llvm::StringRef title = "") {
  if (c.winner) {
    svg.diamond("win", x, y, std::max(5.5, radius * 1.6), title);
  } else if (c.fallback) {
    svg.square("def", x, y, std::max(4.0, radius * 1.2), title);
  } else {
    svg.dot("med", x, y, radius, title);
  }
}

struct Level {
  std::string style, text;
  double us;
};

std::vector<Level> levels_of(const ReportView& view) {
  std::vector<Level> levels;
  const TimedCandidate* winner = view.winner();
  const TimedCandidate* fallback = view.fallback();
  if (winner != nullptr) levels.push_back({"win", fmt::format("winner {}", duration_text(winner->time.median)), winner->time.median});
  if (fallback != nullptr && fallback != winner)
    levels.push_back({"def", fmt::format("default {}", duration_text(fallback->time.median)), fallback->time.median});
  if (view.floor.us() > 0) levels.push_back({"floor", fmt::format("floor {}", duration_text(view.floor.us())), view.floor.us()});
  return levels;
}

// Lines across the plot with their names in the margin to the right.
void draw_levels(Svg& svg, const Frame& frame, const Scale& y, llvm::ArrayRef<Level> levels) {
  std::vector<double> wanted;
  for (const Level& level : levels) wanted.push_back(y.at(level.us));
  const std::vector<double> places = spread_labels(wanted, 17, frame.top, frame.bottom);
  for (auto [level, at, place] : llvm::zip_equal(levels, wanted, places)) {
    svg.line("level " + level.style, frame.left, at, frame.right, at);
    svg.path("lead", {{frame.right, at}, {frame.right + 8, place}});
    svg.text("name " + level.style, frame.right + 11, place + 4, Anchor::kStart, level.text);
  }
}

void rank_axis(Svg& svg, const Frame& frame, std::size_t count) {
  const Scale ranks{0.5, static_cast<double>(count) + 0.5, frame.left, frame.right, false};
  for (double tick : ranks.ticks(frame.width() > 400 ? 11 : 6)) {
    if (tick < 1 || tick != std::floor(tick)) continue;
    const double at = ranks.at(tick);
    svg.line("axis", at, frame.bottom, at, frame.bottom + 4);
    svg.text("tick", at, frame.bottom + 17, Anchor::kMiddle, tick_text(tick));
  }
  svg.text("unit", (frame.left + frame.right) / 2, frame.bottom + 35, Anchor::kMiddle, "rank by median time");
}

}  // namespace

std::string times_chart(const ReportView& view, double width) {
  if (view.timed.empty()) return "";
  constexpr double kTop = 28, kBottom = 296;
  constexpr unsigned kTicks = 8;
  double low = view.timed.front().time.low, high = 0;
  for (const TimedCandidate& c : view.timed) low = std::min(low, c.time.low), high = std::max(high, c.time.high);
  if (view.floor.us() > 0) low = std::min(low, view.floor.us()), high = std::max(high, view.floor.us());
  const Scale y = scale_for(low, high, kBottom, kTop, kLogRatio);
  const TimeUnit unit = time_unit(view.timed.front().time.median);
  const Scale in_unit = in_units(y, unit);
  const Frame frame{tick_room(in_unit, kTicks), kTop, width - 136, kBottom};
  Svg svg(width, 340, "chart", "Times of all timed candidates, the fastest first");
  horizontal_grid(svg, frame, in_unit, kTicks);
  svg.text("unit", 4, 14, Anchor::kStart, fmt::format("time [{}]{}", unit.name, y.log ? ", logarithmic" : ""));
  rank_axis(svg, frame, view.timed.size());
  draw_levels(svg, frame, y, levels_of(view));
  const double step = frame.width() / static_cast<double>(view.timed.size());
  const llvm::StringRef size = step >= 8 ? "ci wide" : step >= 3 ? "ci" : "ci thin";
  const double radius = std::clamp(step * 0.3, 1.2, 3.5);
  for (const TimedCandidate& c : view.timed) {
    const double x = frame.left + (static_cast<double>(c.rank) - 0.5) * step;
    const auto [least, most] = std::minmax_element(c.samples.begin(), c.samples.end());
    svg.open("c", time_title(c, view.winner()));
    svg.rect("hit", x - step / 2, frame.top, step, frame.height());
    svg.line("range", x, y.at(*least), x, y.at(*most));
    svg.line(size, x, y.at(c.time.low), x, y.at(c.time.high));
    if (!c.winner && !c.fallback) mark(svg, c, x, y.at(c.time.median), radius);
    svg.close();
  }
  for (const TimedCandidate& c : view.timed) {
    if (c.winner || c.fallback)
      mark(svg, c, frame.left + (static_cast<double>(c.rank) - 0.5) * step, y.at(c.time.median), radius, time_title(c, view.winner()));
  }
  svg.line("axis", frame.left, frame.bottom, frame.right, frame.bottom);
  return svg.take();
}

namespace {

// A row of the finalists' picture: its labels above its strip.
struct FinalistRow {
  const TimedCandidate* candidate;
  std::vector<std::string> label;
  double top, strip;  // of the first label line, middle of the strip
};

std::vector<FinalistRow> finalist_rows(const ReportView& view, double width, double top) {
  std::vector<const TimedCandidate*> chosen;
  for (const TimedCandidate& c : llvm::ArrayRef(view.timed).take_front(kFinalists)) chosen.push_back(&c);
  for (const TimedCandidate* c : {view.winner(), view.fallback()}) {
    if (c != nullptr && !llvm::is_contained(chosen, c)) chosen.push_back(c);
  }
  const TimedCandidate* base = view.winner() != nullptr ? view.winner() : chosen.front();
  std::vector<FinalistRow> rows;
  for (const TimedCandidate* c : chosen) {
    std::vector<std::string> words{fmt::format("#{}", c->rank)};
    if (c->winner) words.emplace_back("winner");
    if (c->fallback) words.emplace_back("default");
    const ConfigOverrides* other = c == base ? nullptr : &base->candidate->config;
    for (std::string& word : config_words(c->candidate->config, other)) words.push_back(word + ",");
    if (words.back().back() == ',') words.back().pop_back();
    FinalistRow row{c, wrap_words(words, static_cast<std::size_t>((width - 8) / kMonospaceWidth)), top, 0};
    row.strip = top + 14.0 * static_cast<double>(row.label.size()) + 9;
    top = row.strip + 16;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Samples on the axis, and how many lie beyond it.
void draw_strip(Svg& svg, const FinalistRow& row, const Scale& x, double winner_us) {
  const TimedCandidate& c = *row.candidate;
  std::size_t beyond = 0;
  if (x.holds(c.time.low)) svg.line("ci wide", x.at(c.time.low), row.strip, x.at(c.time.high), row.strip);
  for (double us : c.samples) {
    if (x.holds(us)) {
      svg.dot("smp", x.at(us), row.strip, 2.5, duration_text(us));
    } else {
      ++beyond;
    }
  }
  if (x.holds(c.time.median)) {
    svg.line("medline", x.at(c.time.median), row.strip - 8, x.at(c.time.median), row.strip + 8);
    if (c.winner || c.fallback) mark(svg, c, x.at(c.time.median), row.strip, 4);
  }
  if (beyond == c.samples.size())
    svg.text("tick", x.to + 6, row.strip + 4, Anchor::kEnd, "beyond \xe2\x86\x92");
  else if (beyond > 0)
    svg.text("tick", x.to + 6, row.strip + 4, Anchor::kEnd, "\xe2\x86\x92");
  svg.text(c.winner ? "name win" : "name", x.to + 10, row.strip + 4, Anchor::kStart, duration_text(c.time.median));
  const std::string percent = fmt::format("{:+.1f} %", (c.time.median / winner_us - 1) * 100);
  if (!c.winner) svg.text("tick", x.to + 80, row.strip + 4, Anchor::kStart, percent == "-0.0 %" ? "+0.0 %" : percent);
}

}  // namespace

std::string finalists_chart(const ReportView& view, double width) {
  if (view.timed.empty()) return "";
  const std::vector<FinalistRow> rows = finalist_rows(view, width, 46);
  const double bottom = rows.back().strip + 14;
  Svg svg(width, bottom + 24, "chart", "The fastest candidates and the default, magnified");
  const TimedCandidate* base = view.winner() != nullptr ? view.winner() : rows.front().candidate;
  constexpr double kMostShown = 1.2;  // times the winner's time
  double low = base->time.low, high = base->time.median * 1.02;
  for (const FinalistRow& row : llvm::ArrayRef(rows).take_front(kFinalists)) {
    const auto [least, most] = std::minmax_element(row.candidate->samples.begin(), row.candidate->samples.end());
    low = std::min(low, *least);
    high = std::max(high, std::min(*most, base->time.median * kMostShown));
  }
  const Scale x = scale_for(low, high, 10, width - 140, 1e9);
  const TimeUnit unit = time_unit(base->time.median);
  const Scale in_unit = in_units(x, unit);
  const double fastest = view.timed.front().time.median;
  svg.rect("tie", x.at(fastest), 32, x.at(fastest * (1 + kTieBand)) - x.at(fastest), bottom - 32);
  svg.text("unit", 4, 12, Anchor::kStart, fmt::format("time [{}]", unit.name));
  for (double tick : in_unit.ticks(width > 500 ? 9 : 5)) {
    svg.line("grid", in_unit.at(tick), 32, in_unit.at(tick), bottom);
    svg.text("tick", in_unit.at(tick), 27, Anchor::kMiddle, tick_text(tick));
    svg.text("tick", in_unit.at(tick), bottom + 16, Anchor::kMiddle, tick_text(tick));
  }
  for (const FinalistRow& row : rows) {
    svg.open("c", time_title(*row.candidate, base));
    svg.rect("hit", 0, row.top - 2, width, row.strip + 12 - row.top);
    for (auto [index, line] : llvm::enumerate(row.label))
      svg.text(row.candidate->winner     ? "mono win"
               : row.candidate->fallback ? "mono def"
                                         : "mono",
               4, row.top + 10 + 14 * static_cast<double>(index), Anchor::kStart, line);
    draw_strip(svg, row, x, base->time.median);
    svg.close();
  }
  return svg.take();
}

namespace {

struct ValueColumn {
  std::int64_t value;
  std::vector<const TimedCandidate*> timed;  // the fastest first
  std::size_t tried = 0;
};

std::vector<ValueColumn> value_columns(const ReportView& view, const std::string& name) {
  std::map<std::int64_t, ValueColumn> columns;
  for (const Candidate& candidate : view.source->candidates) {
    const auto found = candidate.config.find(name);
    if (found == candidate.config.end()) continue;
    ++columns[found->second].tried;
  }
  for (const TimedCandidate& c : view.timed) {
    const auto found = c.candidate->config.find(name);
    if (found != c.candidate->config.end()) columns[found->second].timed.push_back(&c);
  }
  std::vector<ValueColumn> list;
  for (auto& [value, column] : columns) {
    column.value = value;
    list.push_back(std::move(column));
  }
  return list;
}

// How the values of a parameter are written below its axis: in as many rows as they need to stand apart, and with three rows full, only
// each `stride`th.
struct ValueLabels {
  std::size_t rows = 1, stride = 1;
};

ValueLabels labels_of(llvm::ArrayRef<ValueColumn> columns, double width) {
  const double step = width / static_cast<double>(columns.size());
  std::size_t widest = 1;
  for (const ValueColumn& column : columns) widest = std::max(widest, std::to_string(column.value).size());
  const double needed = static_cast<double>(widest) * kMonospaceWidth + 4;
  ValueLabels labels;
  labels.rows = static_cast<std::size_t>(std::clamp(std::ceil(needed / step), 1.0, 3.0));
  labels.stride = static_cast<std::size_t>(std::max(1.0, std::ceil(needed / (step * static_cast<double>(labels.rows)))));
  return labels;
}

void value_labels(Svg& svg, const Frame& frame, llvm::ArrayRef<ValueColumn> columns, const ValueLabels& labels) {
  const double step = frame.width() / static_cast<double>(columns.size());
  for (auto [index, column] : llvm::enumerate(columns)) {
    const double x = frame.left + (static_cast<double>(index) + 0.5) * step;
    svg.open("v", fmt::format("{}: {} tried, {} timed{}", column.value, column.tried, column.timed.size(),
                              column.timed.empty() ? "" : ", at best " + duration_text(column.timed.front()->time.median)));
    const auto row = static_cast<double>(index % labels.rows);
    svg.line("axis", x, frame.bottom, x, frame.bottom + 3 + 12 * row);
    if (index / labels.rows % labels.stride == 0)
      svg.text("tick", x, frame.bottom + 15 + 12 * row, Anchor::kMiddle, std::to_string(column.value));
    if (column.timed.empty()) svg.text("none", x, frame.bottom - 4, Anchor::kMiddle, "\xc3\x97");
    svg.close();
  }
}

constexpr unsigned kPanelTicks = 5;

std::string parameter_panel(const ReportView& view, const std::string& name, const Scale& y, const Scale& in_unit, const Frame& frame) {
  const std::vector<ValueColumn> columns = value_columns(view, name);
  const ValueLabels labels = labels_of(columns, frame.width());
  Svg svg(frame.right + 6, frame.bottom + 8 + 12 * static_cast<double>(labels.rows), "panel", fmt::format("Time against {}", name));
  svg.text("head", frame.left, 14, Anchor::kStart, name);
  horizontal_grid(svg, frame, in_unit, kPanelTicks);
  const double step = frame.width() / static_cast<double>(columns.size());
  std::vector<std::pair<double, double>> best;
  std::vector<std::pair<const TimedCandidate*, double>> special;
  svg.open("pts");
  for (auto [index, column] : llvm::enumerate(columns)) {
    const double x = frame.left + (static_cast<double>(index) + 0.5) * step;
    if (!column.timed.empty()) best.emplace_back(x, y.at(column.timed.front()->time.median));
    for (auto [number, c] : llvm::enumerate(column.timed)) {
      // Multiples of the golden ratio spread any number of points evenly; the fastest stands in the middle.
      const double turn = 0.5 + static_cast<double>(number) * 0.6180339887498949;
      const double at = x + (turn - std::floor(turn) - 0.5) * std::min(step * 0.7, 30.0);
      if (c->winner || c->fallback) {
        special.emplace_back(c, at);
      } else {
        svg.dot(at, y.at(c->time.median), fmt::format("#{} {}", c->rank, duration_text(c->time.median)));
      }
    }
  }
  svg.close();
  if (best.size() > 1) svg.path("best", best);
  for (const auto& [c, at] : special)
    mark(svg, *c, at, y.at(c->time.median), 3,
         fmt::format("#{} {} {}", c->rank, c->winner ? "winner" : "default", duration_text(c->time.median)));
  svg.line("axis", frame.left, frame.bottom, frame.right, frame.bottom);
  value_labels(svg, frame, columns, labels);
  return svg.take();
}

}  // namespace

std::string parameter_panels(const ReportView& view) {
  if (view.timed.empty()) return "";
  constexpr double kTop = 24, kBottom = 150;
  const Scale y = scale_for(view.timed.front().time.median, view.timed.back().time.median, kBottom - 4, kTop, kLogRatio);
  const Scale in_unit = in_units(y, time_unit(view.timed.front().time.median));
  const Frame frame{tick_room(in_unit, kPanelTicks), kTop, 258, kBottom};
  std::string out;
  for (const std::string& name : view.varying) out += parameter_panel(view, name, y, in_unit, frame);
  return out;
}

}  // namespace tilewright
