#include "tools/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "fmt/format.h"

namespace tilewright::cli {
namespace {

constexpr std::chrono::milliseconds kQuiet{1000};  // nothing is said about a task shorter than this
constexpr std::chrono::milliseconds kRedraw{200};
constexpr std::size_t kBarWidth = 24;

// Columns a line may take; a full one would wrap.
std::size_t line_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return (known ? size.ws_col : 80) - 1;
}

}  // namespace

Progress::Progress(std::string task, std::size_t total)
    : task_(std::move(task)),
      total_(std::max<std::size_t>(total, 1)),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      watcher_([this] { watch(); }) {}

Progress::~Progress() {
  {
    std::lock_guard lock(mutex_);
    finished_ = true;
  }
  wake_.notify_all();
  watcher_.join();
  if (drawn_ && terminal_) std::fputs("\r\x1b[K", stderr);
}

void Progress::step(std::string label) {
  std::lock_guard lock(mutex_);
  label_ = std::move(label);
}

void Progress::advance() {
  std::lock_guard lock(mutex_);
  done_ = std::min(done_ + 1, total_);
}

void Progress::reach(std::size_t done) {
  std::lock_guard lock(mutex_);
  done_ = std::clamp(done, done_, total_);
}

void Progress::watch() {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, kQuiet, [&] { return finished_; });
  while (!finished_) {
    if (terminal_) {
      draw_bar();
    } else if (std::string line = fmt::format("{}: {}/{} {}\n", task_, done_, total_, label_); line != printed_) {
      std::fputs(line.c_str(), stderr);
      printed_ = std::move(line);
    }
    wake_.wait_for(lock, kRedraw, [&] { return finished_; });
  }
}

void Progress::draw_bar() {
  const std::size_t filled = kBarWidth * done_ / total_;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  std::string line = fmt::format("{} [{}{}] {}/{} {:.0f} s {}", task_, std::string(filled, '#'), std::string(kBarWidth - filled, ' '),
                                 done_, total_, seconds, label_);
  if (line.size() > line_width()) line.resize(line_width());
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace tilewright::cli
