#include "autotune/svg.h"

#include <algorithm>
#include <cmath>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// Tenths of a pixel, without a trailing ".0".
std::string place(double value) {
  if (!std::isfinite(value)) value = 0;
  std::string text = fmt::format("{:.1f}", value);
  if (llvm::StringRef(text).ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::vector<double> multiples(double step, double low, double high) {
  std::vector<double> ticks;
  for (double index = std::ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) ticks.push_back(index * step);
  return ticks;
}

// The finest steps that give no more than `most`.
std::vector<double> linear_ticks(double low, double high, unsigned most) {
  double power = std::pow(10.0, std::floor(std::log10((high - low) / (most + 1))));
  for (;; power *= 10) {
    for (double factor : {1.0, 2.0, 5.0}) {
      if ((high - low) / (factor * power) > most + 1) continue;
      std::vector<double> ticks = multiples(factor * power, low, high);
      if (ticks.size() <= most) return ticks;
    }
  }
}

std::vector<double> log_ticks(double low, double high, unsigned most) {
  auto collect = [&](std::initializer_list<double> factors, int stride) {
    std::vector<double> ticks;
    const int last = static_cast<int>(std::ceil(std::log10(high)));
    for (int decade = static_cast<int>(std::floor(std::log10(low))); decade <= last; ++decade) {
      if (decade % stride != 0) continue;
      for (double factor : factors) {
        const double value = factor * std::pow(10.0, decade);
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.push_back(value);
      }
    }
    return ticks;
  };
  std::vector<double> ticks = collect({1, 2, 3, 5, 7}, 1);
  if (ticks.size() > most) ticks = collect({1, 2, 5}, 1);
  if (ticks.size() > most) ticks = collect({1, 3}, 1);
  for (int stride = 1; ticks.size() > most; ++stride) ticks = collect({1}, stride);
  // Within a decade equal steps are as round, and there are more of them.
  return ticks.size() < 2 || (ticks.size() < 4 && high < 10 * low) ? linear_ticks(low, high, most) : ticks;
}

}  // namespace

std::string escape_markup(llvm::StringRef text) {
  std::string out;
  for (char c : llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      out += "\xef\xbf\xbd";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  const double size = std::fabs(value);
  if (size < 1e-4 || size >= 1e7) return fmt::format("{:.1e}", value);
  const int magnitude = static_cast<int>(std::floor(std::log10(size)));
  return fmt::format("{:.{}f}", value, std::clamp(digits - 1 - magnitude, 0, 8));
}

std::string tick_text(double value) {
  std::string text = number_text(value, 6);
  if (text.find('e') != std::string::npos) return fmt::format("{:g}", value);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

double Scale::at(double value) const {
  if (!(value > low)) return from;
  if (!(value < high)) return to;
  const double share = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + share * (to - from);
}

bool Scale::holds(double value) const { return value >= low && value <= high; }

std::vector<double> Scale::ticks(unsigned most) const { return log ? log_ticks(low, high, most) : linear_ticks(low, high, most); }

Scale scale_for(double low, double high, double from, double to, double log_ratio) {
  constexpr double kMost = 1e15;
  if (!std::isfinite(low)) low = 0;
  if (!std::isfinite(high)) high = low;
  low = std::clamp(low, -kMost, kMost);
  high = std::clamp(high, -kMost, kMost);
  if (low > high) std::swap(low, high);
  if (low > 1e-12 && high > low * log_ratio) {
    const double room = std::pow(high / low, 0.04);
    return {low / room, high * room, from, to, true};
  }
  if (high - low < 1e-6 * std::max(std::fabs(high), 1e-6)) {
    const double room = std::max(std::fabs(high) * 0.05, 1e-6);
    return {low - room, high + room, from, to, false};
  }
  const double room = (high - low) * 0.05;
  return {low - room, high + room, from, to, false};
}

std::vector<double> spread_labels(llvm::ArrayRef<double> wanted, double gap, double low, double high) {
  std::vector<std::size_t> order(wanted.size());
  for (auto [index, value] : llvm::enumerate(order)) value = index;
  llvm::stable_sort(order, [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  if (wanted.size() > 1) gap = std::min(gap, (high - low) / static_cast<double>(wanted.size() - 1));
  std::vector<double> places(wanted.begin(), wanted.end());
  double least = low;
  for (std::size_t index : order) {
    places[index] = std::max(places[index], least);
    least = places[index] + gap;
  }
  double most = high;
  for (std::size_t index : llvm::reverse(order)) {
    places[index] = std::min(places[index], most);
    most = places[index] - gap;
  }
  return places;
}

std::vector<std::string> wrap_words(llvm::ArrayRef<std::string> words, std::size_t columns) {
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > columns) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

Svg::Svg(double width, double height, llvm::StringRef style, llvm::StringRef label) {
  out_ = fmt::format("<svg class=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"{}\">", style,
                     place(width), place(height), place(width), place(height), escape_markup(label));
}

void Svg::line(llvm::StringRef style, double x1, double y1, double x2, double y2) { path(style, {{x1, y1}, {x2, y2}}); }

void Svg::path(llvm::StringRef style, llvm::ArrayRef<std::pair<double, double>> points) {
  std::string d;
  for (const auto& [x, y] : points) d += fmt::format("{}{} {}", d.empty() ? "M" : "L", place(x), place(y));
  out_ += fmt::format("<path class=\"{}\" d=\"{}\"/>", style, d);
}

void Svg::rect(llvm::StringRef style, double x, double y, double width, double height) {
  out_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", style, place(x), place(y),
                      place(std::max(0.0, width)), place(std::max(0.0, height)));
}

void Svg::marker(llvm::StringRef element, llvm::StringRef title) {
  out_ += element;
  const llvm::StringRef name = element.drop_front().take_until([](char c) { return c == ' '; });
  out_ += title.empty() ? std::string("/>") : fmt::format("><title>{}</title></{}>", escape_markup(title), name);
}

void Svg::dot(llvm::StringRef style, double x, double y, double radius, llvm::StringRef title) {
  marker(fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"", style, place(x), place(y), place(radius)), title);
}

void Svg::dot(double x, double y, llvm::StringRef title) { marker(fmt::format("<circle cx=\"{}\" cy=\"{}\"", place(x), place(y)), title); }

void Svg::diamond(llvm::StringRef style, double x, double y, double radius, llvm::StringRef title) {
  marker(fmt::format("<path class=\"{}\" d=\"M{} {}L{} {}L{} {}L{} {}Z\"", style, place(x), place(y - radius), place(x + radius), place(y),
                     place(x), place(y + radius), place(x - radius), place(y)),
         title);
}

void Svg::square(llvm::StringRef style, double x, double y, double radius, llvm::StringRef title) {
  marker(fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", style, place(x - radius), place(y - radius),
                     place(2 * radius), place(2 * radius)),
         title);
}

void Svg::text(llvm::StringRef style, double x, double y, Anchor anchor, llvm::StringRef text) {
  const llvm::StringRef where = anchor == Anchor::kStart    ? ""
                                : anchor == Anchor::kMiddle ? " text-anchor=\"middle\""
                                                            : " text-anchor=\"end\"";
  out_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\"{}>{}</text>", style, place(x), place(y), where, escape_markup(text));
}

void Svg::open(llvm::StringRef style, llvm::StringRef title) {
  out_ += fmt::format("<g class=\"{}\">", style);
  if (!title.empty()) out_ += fmt::format("<title>{}</title>", escape_markup(title));
}

void Svg::close() { out_ += "</g>"; }

std::string Svg::take() { return std::move(out_) + "</svg>"; }

}  // namespace tilewright
