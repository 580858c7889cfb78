#include <algorithm>
#include <cmath>

#include "autotune/report_charts.h"
#include "autotune/svg.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

struct Plot {
  Scale x, y;
  double unit;  // operations a second in one of the axis
};

// Decades alone, which every reader of a roofline expects.
void decade_axes(Svg& svg, const Plot& plot, llvm::StringRef prefix) {
  for (double tick : plot.x.ticks(6)) {
    const double at = plot.x.at(tick);
    svg.line("grid", at, plot.y.to, at, plot.y.from);
    svg.text("tick", at, plot.y.from + 17, Anchor::kMiddle, tick_text(tick));
  }
  const Scale in_unit{plot.y.low / plot.unit, plot.y.high / plot.unit, plot.y.from, plot.y.to, true};
  for (double tick : in_unit.ticks(6)) {
    const double at = in_unit.at(tick);
    svg.line("grid", plot.x.from, at, plot.x.to, at);
    svg.text("tick", plot.x.from - 6, at + 4, Anchor::kEnd, tick_text(tick));
  }
  svg.text("unit", 4, 14, Anchor::kStart, fmt::format("{}FLOP/s, logarithmic", prefix));
  svg.text("unit", (plot.x.from + plot.x.to) / 2, plot.y.from + 35, Anchor::kMiddle, "operations a byte [FLOP/B], logarithmic");
}

void draw_roof(Svg& svg, const Plot& plot, const Floor& floor) {
  const double ridge = floor.flops_per_s / floor.bytes_per_s;
  // Where the slope enters the plot: at its left or at its lower edge.
  const double start = std::max(plot.x.low, plot.y.low / floor.bytes_per_s);
  svg.path("roof", {{plot.x.at(start), plot.y.at(start * floor.bytes_per_s)},
                    {plot.x.at(ridge), plot.y.at(floor.flops_per_s)},
                    {plot.x.to, plot.y.at(floor.flops_per_s)}});
  // Both names stand where neither the points nor the slope can be.
  svg.text("name", plot.x.to, plot.y.at(floor.flops_per_s) - 7, Anchor::kEnd,
           fmt::format("memory {}, f32 {}", rate_text(floor.bytes_per_s, "B"), rate_text(floor.flops_per_s, "FLOP")));
}

}  // namespace

std::string roofline_chart(const ReportView& view, double width) {
  const Floor& floor = view.floor;
  if (view.timed.empty() || floor.us() == 0 || floor.flops == 0 || floor.flops_per_s == 0) return "";
  const double intensity = floor.flops / floor.bytes, ridge = floor.flops_per_s / floor.bytes_per_s;
  auto rate_of = [&](const TimedCandidate& c) { return floor.flops / c.time.median * 1e6; };
  const double bound = std::min(floor.flops_per_s, intensity * floor.bytes_per_s);
  const double slowest = rate_of(view.timed.back()), fastest = rate_of(view.timed.front());
  constexpr double kHeight = 330;
  const double unit = floor.flops_per_s >= 1e12 ? 1e12 : floor.flops_per_s >= 1e9 ? 1e9 : 1;
  const Plot plot{scale_for(std::min(intensity, ridge) / 6, std::max(intensity, ridge) * 6, 56, width - 10, 1),
                  scale_for(std::min({slowest, bound}) / 3, std::max(floor.flops_per_s, fastest) * 2, kHeight - 44, 28, 1), unit};
  Svg svg(width, kHeight, "chart roofline", "Roofline");
  decade_axes(svg, plot, unit == 1e12 ? "T" : unit == 1e9 ? "G" : "");
  draw_roof(svg, plot, floor);
  const double x = plot.x.at(intensity);
  svg.line("level floor", x, plot.y.from, x, plot.y.at(bound));
  svg.open("pts");
  for (const TimedCandidate& c : view.timed) {
    if (c.winner || c.fallback) continue;
    svg.dot(x, plot.y.at(rate_of(c)), fmt::format("#{} {}, {}", c.rank, rate_text(rate_of(c), "FLOP"), duration_text(c.time.median)));
  }
  svg.close();
  std::vector<std::pair<const TimedCandidate*, double>> named;
  for (const TimedCandidate* c : {view.winner(), view.fallback()}) {
    if (c != nullptr && (named.empty() || named.front().first != c)) named.emplace_back(c, plot.y.at(rate_of(*c)));
  }
  std::vector<double> wanted;
  for (const auto& [c, y] : named) wanted.push_back(y);
  const std::vector<double> places = spread_labels(wanted, 17, plot.y.at(floor.flops_per_s) + 10, kHeight - 54);
  // Under the roof there is room to the right of the points; far to the right, only to their left.
  const bool right = x < width * 0.55;
  for (auto [entry, place] : llvm::zip_equal(named, places)) {
    const TimedCandidate& c = *entry.first;
    if (c.winner) {
      svg.diamond("win", x, entry.second, 6);
    } else {
      svg.square("def", x, entry.second, 4);
    }
    svg.path("lead", {{x + (right ? 7 : -7), entry.second}, {x + (right ? 15 : -15), place}});
    svg.text(c.winner ? "name win" : "name def", x + (right ? 18 : -18), place + 4, right ? Anchor::kStart : Anchor::kEnd,
             fmt::format("{} {}", c.winner ? "winner" : "default", rate_text(rate_of(c), "FLOP")));
  }
  return svg.take();
}

}  // namespace tilewright
