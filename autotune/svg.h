// Drawing for reports: scales with round ticks, and SVG written element by element. Lengths are CSS pixels.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tilewright {

// Text for HTML and XML, in content and in quoted attributes. Bytes that are no UTF-8 and control characters become U+FFFD.
std::string escape_markup(llvm::StringRef text);

// That many significant digits, without an exponent where that is short: "0.0123", "1.23", "12.3", "123", "12300"; "1.2e+09" outside of
// [1e-4, 1e7); "-" for what is not finite.
std::string number_text(double value, int digits = 3);
// The same without trailing zeros, for ticks: "0.5", "2", "10".
std::string tick_text(double value);

// Maps values to positions. `low` < `high`; both above zero when `log`.
struct Scale {
  double low = 0, high = 1;
  double from = 0, to = 1;  // positions of low and high; from > to for an axis that points up
  bool log = false;
  double at(double value) const;                   // values outside land on the nearer end; so do those that are not finite
  bool holds(double value) const;                  // low <= value <= high
  std::vector<double> ticks(unsigned most) const;  // at most that many (three or more), at 1, 2, 5 (log: 3, 7 too) times a power of ten
};
// Of values around [low, high] with some room at both ends; logarithmic where the values are above zero and high is more than `log_ratio`
// times low. Takes anything: equal, swapped and non-finite ends too.
Scale scale_for(double low, double high, double from, double to, double log_ratio);

// Positions near the wanted ones, in the same order, at least `gap` apart within [low, high] (closer where they do not all fit).
std::vector<double> spread_labels(llvm::ArrayRef<double> wanted, double gap, double low, double high);

// Words joined by single spaces to lines of at most `columns` characters; a longer word gets a line of its own.
std::vector<std::string> wrap_words(llvm::ArrayRef<std::string> words, std::size_t columns);

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

// One picture. `style` is a class of the page's style sheet; a title is what the pointer shows over an element, "" for none.
class Svg {
 public:
  // `label` says in words what the picture shows.
  Svg(double width, double height, llvm::StringRef style, llvm::StringRef label);
  void line(llvm::StringRef style, double x1, double y1, double x2, double y2);
  void path(llvm::StringRef style, llvm::ArrayRef<std::pair<double, double>> points);
  void rect(llvm::StringRef style, double x, double y, double width, double height);
  void dot(llvm::StringRef style, double x, double y, double radius, llvm::StringRef title = "");
  void dot(double x, double y, llvm::StringRef title);  // drawn by the style of the group it is in, radius and all
  void diamond(llvm::StringRef style, double x, double y, double radius, llvm::StringRef title = "");
  void square(llvm::StringRef style, double x, double y, double radius, llvm::StringRef title = "");
  void text(llvm::StringRef style, double x, double y, Anchor anchor, llvm::StringRef text);
  // What follows, up to close(), shares the title.
  void open(llvm::StringRef style, llvm::StringRef title = "");
  void close();
  std::string take();

 private:
  void marker(llvm::StringRef element, llvm::StringRef title);
  std::string out_;
};

}  // namespace tilewright
