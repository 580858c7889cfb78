// Progress on stderr for whatever takes over a second: a bar on a terminal, lines elsewhere, nothing for what is quick.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace tilewright::cli {

// One task of `total` steps. Thread-safe. Destruction wipes the bar.
class Progress {
 public:
  Progress(std::string task, std::size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done now.
  void step(std::string label);
  // One step more is finished.
  void advance();
  // So many steps are finished; never fewer than before.
  void reach(std::size_t done);

 private:
  void watch();
  void draw_bar();

  using Clock = std::chrono::steady_clock;
  const std::string task_;
  const std::size_t total_;
  const bool terminal_;
  const Clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string label_;
  std::string printed_;
  std::size_t done_ = 0;
  bool drawn_ = false;
  bool finished_ = false;
  std::thread watcher_;  // last: it uses all of the above
};

}  // namespace tilewright::cli
