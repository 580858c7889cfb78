// What is seen of tunings while they run: best so far, floor, candidates, time left.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "autotune/search.h"
#include "tools/progress.h"
#include "tools/tune_options.h"

namespace tilewright::cli {

// "12 tried, 3 compiling, best 10.20 us (floor 8.10, default 11.00), 23 s left"; what is not known is left out.
std::string progress_text(const TuneProgress& progress, double floor_us, bool timed);

// Thread-safe. With one place the bar is that of the search in hand; with several that of all problems, and the text says what each does.
class TuneDisplay {
 public:
  TuneDisplay(std::size_t places, std::size_t problems, Budget budget);
  // A search on a place begins: "softmax N=128", with that much time.
  void begin(std::size_t place, const std::string& what, double floor_us, double seconds);
  void show(std::size_t place, const TuneProgress& progress);
  // A problem is finished.
  void finish(std::size_t place);

 private:
  struct Line {
    std::string what, text;
    double floor_us = 0;
  };
  const Budget budget_;
  std::mutex mutex_;
  std::vector<Line> lines_;
  std::unique_ptr<Progress> bar_;
};

}  // namespace tilewright::cli
