#include "tools/tune_display.h"

#include <algorithm>
#include <cmath>

#include "runtime/error.h"

namespace tilewright::cli {

std::string progress_text(const TuneProgress& progress, double floor_us, bool timed) {
  std::string text = fmt::format("{} tried", progress.tried);
  if (progress.in_flight > 0) text += fmt::format(", {} compiling", progress.in_flight);
  if (progress.best_us > 0) {
    text += fmt::format(", best {:.2f} us", progress.best_us);
    std::string beside;
    if (floor_us >= 0.005) beside = fmt::format("floor {:.2f}", floor_us);
    if (progress.default_us > 0) beside += fmt::format("{}default {:.2f}", beside.empty() ? "" : ", ", progress.default_us);
    if (!beside.empty()) text += fmt::format(" ({})", beside);
  }
  if (progress.phase == "final") text += ", settling";
  if (timed) text += fmt::format(", {:.0f} s left", std::max(0.0, progress.budget_s - progress.seconds));
  return text;
}

TuneDisplay::TuneDisplay(std::size_t places, std::size_t problems, Budget budget) : budget_(budget), lines_(places) {
  if (places > 1) bar_ = std::make_unique<Progress>("tune", problems);
}

void TuneDisplay::begin(std::size_t place, const std::string& what, double floor_us, double seconds) {
  const std::lock_guard lock(mutex_);
  lines_[place] = {what, "", floor_us};
  if (lines_.size() > 1) return;
  const double steps = budget_.candidates != 0 ? static_cast<double>(budget_.candidates) : std::ceil(seconds);
  bar_.reset();  // wipes the one before
  bar_ = std::make_unique<Progress>("tune " + what, static_cast<std::size_t>(steps));
}

void TuneDisplay::show(std::size_t place, const TuneProgress& progress) {
  const std::lock_guard lock(mutex_);
  const bool timed = budget_.candidates == 0;
  lines_[place].text = progress_text(progress, lines_[place].floor_us, timed);
  if (lines_.size() == 1) {
    bar_->step(lines_[place].text);
    bar_->reach(timed ? static_cast<std::size_t>(progress.seconds) : progress.tried);
    return;
  }
  std::string all;
  for (const Line& line : lines_) {
    if (!line.text.empty()) all += fmt::format("{}{}: {}", all.empty() ? "" : " | ", line.what, line.text);
  }
  bar_->step(all);
}

void TuneDisplay::finish(std::size_t place) {
  const std::lock_guard lock(mutex_);
  lines_[place] = {};
  if (lines_.size() > 1) {
    bar_->advance();
  } else {
    bar_.reset();
  }
}

}  // namespace tilewright::cli
