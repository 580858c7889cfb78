#include "autotune/report.h"

#include <cmath>

#include "autotune/report_view.h"
#include "autotune/svg.h"
#include "runtime/error.h"
#include "tests/autotune/report_cases.h"
#include "tests/catch.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Faults of nesting: every element but the empty ones is closed, in order. Text between tags must hold no '<' of its own.
std::string nesting_fault(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "unfinished tag";
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '!' || name == "meta" || name == "link" || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return "at " + std::to_string(at) + ": <" + tag + "> while <" + (open.empty() ? "nothing" : open.back()) + "> is open";
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

std::vector<ReportProblem> every_case() {
  return {many_candidates(60), one_candidate(), all_failed(), nothing_tried(), hostile(), crowded_labels()};
}

}  // namespace

TEST_CASE("report: a page is well nested, says nothing that is no number, and causes no request", "[autotune]") {
  for (const ReportProblem& problem : every_case()) {
    const std::string page = report_html(problem);
    INFO(problem.problem.name);
    CHECK(nesting_fault(page) == "");
    for (const char* word : {"\"nan", "\"inf", "\"-nan", "\"-inf", " nan", " inf ", ">nan", ">inf<", "e+308"}) {
      INFO(word);
      CHECK_FALSE(contains(page, word));
    }
    for (const char* cause : {"src=\"", "src='", "http:", "https:", "//", "url(", "@import", "<script", "<iframe", "<img", "<object",
                              "<image", "xlink", "<base", "<use"}) {
      INFO(cause);
      CHECK_FALSE(contains(page, cause));
    }
    CHECK(contains(page, "default-src 'none'"));
    CHECK(contains(page, "prefers-color-scheme: dark"));
    for (std::size_t at = page.find("href=\""); at != std::string::npos; at = page.find("href=\"", at + 1)) {
      const std::string target = page.substr(at + 6, 6);
      CHECK((target[0] == '#' || target == "data:,"));
    }
  }
}

TEST_CASE("report: every text is escaped", "[autotune]") {
  const std::string page = report_html(hostile(), {"<script>alert(4)</script>"});
  CHECK_FALSE(contains(page, "<script"));
  CHECK_FALSE(contains(page, "<img"));
  CHECK_FALSE(contains(page, "onload='"));
  CHECK(count_of(page, "</style>") == 1);
  CHECK(contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&#39;x&#39; &amp;amp; ]]&gt;"));
  CHECK(contains(page, "&lt;script&gt;alert(2)"));
  CHECK(contains(page, "&lt;img src=x onerror=alert(3)&gt; 2"));
  CHECK(contains(page, "&lt;script&gt;alert(4)"));
  CHECK(contains(page, "&lt;b&gt;&quot;key&quot;&lt;/b&gt;.&lt;i&gt;"));
  CHECK(page.find('\x01') == std::string::npos);
  CHECK(llvm::json::isUTF8(page));
}

TEST_CASE("report: times that are no positive numbers are left out", "[autotune]") {
  const ReportProblem problem = hostile();
  const ReportView view = view_of(problem);
  REQUIRE(view.timed.size() == 2);
  CHECK(view.timed[0].samples == std::vector<double>{3, 1e12, 1e-9});
  CHECK(view.timed[0].time.median == 3);
  CHECK(view.timed[1].winner);
  CHECK(view.untimed.size() == 2);
}

TEST_CASE("report: the same problems give the same bytes", "[autotune]") {
  CHECK(report_html(every_case(), {"note"}) == report_html(every_case(), {"note"}));
  // The order in which a search tried its candidates is not the page's.
  ReportProblem other = many_candidates(60);
  std::reverse(other.candidates.begin(), other.candidates.end());
  CHECK(report_html(other) == report_html(many_candidates(60)));
}

TEST_CASE("report: three hundred candidates make a page below a megabyte, all of them in it", "[autotune]") {
  const ReportProblem problem = many_candidates(300);
  const std::string page = report_html(problem);
  CHECK(page.size() < 1000000);
  const ReportView view = view_of(problem);
  CHECK(view.timed.size() + view.untimed.size() == 300);
  CHECK(count_of(page, "class=\"panel\"") == 11);
  // A column for each timed candidate in both widths of the picture, and a row for each of the finalists.
  CHECK(count_of(page, "<g class=\"c\">") >= 2 * view.timed.size() + 2 * 12);
  for (const Candidate* candidate : view.untimed) CHECK(contains(page, "<li>" + config_line(candidate->config) + "</li>"));
  for (const char* reason : {"96 of 98304 elements", "illegal memory access", "longer than 20 s"}) CHECK(contains(page, reason));
}

TEST_CASE("report: winner, default and floor are named with their times", "[autotune]") {
  const std::string page = report_html(crowded_labels());
  CHECK(count_of(page, ">winner 20.02 us</text>") == 2);
  CHECK(count_of(page, ">default 20.02 us</text>") == 2);
  CHECK(count_of(page, ">floor 20.00 us</text>") == 2);
  CHECK(contains(page, "cannot be told apart"));
  CHECK(contains(page, "Roofline"));
  CHECK(contains(page, "memory 4.80 TB/s, f32 67.0 TFLOP/s"));
  CHECK(contains(page, "96.0 MB in and out"));
}

TEST_CASE("report: what speaks against a tuning is said", "[autotune]") {
  CHECK(contains(report_html(one_candidate()), "The default is the winner"));
  CHECK(contains(report_html(one_candidate()), "The winner has 1 sample;"));
  const std::string failed = report_html(all_failed());
  CHECK(contains(failed, "There is no winner and no record"));
  CHECK(contains(failed, "None of 3 candidates was verified and timed"));
  CHECK(contains(failed, "killed by signal 9"));
  CHECK(contains(failed, "not looked at before the search ended"));
  CHECK(contains(report_html(many_candidates(60)), "Left out of the verification: real"));
  ReportProblem slower = crowded_labels();
  slower.candidates[0].samples_us = {15, 15, 15};
  slower.environment["ended"] = "budget";
  slower.environment["conditions"] =
      llvm::json::Object{{"repeated", llvm::json::Object{{"busy", 3}}}, {"kept", llvm::json::Object{{"throttled", 2}, {"busy", 1}}}};
  slower.problem.policy = "simulated";
  const std::string page = report_html(slower);
  CHECK(contains(page, "The default is faster than the winner"));
  CHECK(contains(page, "slower than the fastest candidate"));
  CHECK(contains(page, "ended by: budget"));
  CHECK(contains(page, "Times are simulated"));
  CHECK(contains(page, "repeated in vain and kept: 1 busy, 2 throttled."));
  CHECK(contains(page, "thrown away and taken again: 3 busy."));
  ReportProblem fast = crowded_labels();
  fast.candidates[1].samples_us = {10, 10, 10};
  CHECK(contains(report_html(fast), "faster than the floor"));
}

TEST_CASE("report: an empty report and one without a floor say so", "[autotune]") {
  CHECK(contains(report_html({}), "There is no record"));
  CHECK(nesting_fault(report_html({})) == "");
  ReportProblem problem = crowded_labels();
  problem.environment = {};
  const std::string page = report_html(problem);
  CHECK(contains(page, "no floor is drawn"));
  CHECK_FALSE(contains(page, "class=\"roof\""));
  CHECK(contains(page, "crowded [128]"));
}

TEST_CASE("report: several problems get an overview with links", "[autotune]") {
  const std::string page = report_html(every_case());
  CHECK(contains(page, "Tuning of 6 problems"));
  CHECK(contains(page, "<a href=\"#p6\">crowded</a><br><small>N=128</small>"));
  CHECK(contains(page, "<section id=\"p6\">"));
  CHECK(count_of(page, "<h3>Can it be trusted?</h3>") == 6);
}

TEST_CASE("svg: ticks lie at round numbers inside the scale", "[autotune]") {
  CHECK(Scale{0, 10, 0, 100, false}.ticks(6) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(Scale{11.9, 13.2, 0, 100, false}.ticks(5) == std::vector<double>{12, 12.5, 13});
  CHECK(Scale{30, 125, 0, 100, true}.ticks(5) == std::vector<double>{30, 50, 70, 100});
  CHECK(Scale{31, 49, 0, 100, true}.ticks(5) == std::vector<double>{35, 40, 45});
  CHECK(Scale{1, 100, 0, 100, true}.ticks(8) == std::vector<double>{1, 2, 5, 10, 20, 50, 100});
  CHECK(Scale{1, 100, 0, 100, true}.ticks(3) == std::vector<double>{1, 10, 100});
  for (const auto& [low, high] : {std::pair{3.0, 3.5}, {0.001, 90000.0}, {31.0, 260.0}, {1.1, 1.9}, {-5.0, 5.0}, {7.0, 7.0}}) {
    for (unsigned most : {3u, 5u, 9u}) {
      for (double ratio : {1.0, 4.0, 1e9}) {
        const Scale scale = scale_for(low, high, 0, 100, ratio);
        const std::vector<double> ticks = scale.ticks(most);
        INFO(low << " " << high << " " << most << " " << ratio);
        CHECK(!ticks.empty());
        CHECK(ticks.size() <= most);
        for (double tick : ticks) CHECK((tick >= scale.low - 1e-9 && tick <= scale.high + 1e-9));
      }
    }
  }
}

TEST_CASE("svg: scales keep to their ends, whatever the value", "[autotune]") {
  const Scale scale{1, 100, 200, 0, true};
  CHECK(scale.at(10) == Approx(100));
  CHECK(scale.at(0) == 200);
  CHECK(scale.at(1e9) == 0);
  CHECK(scale.at(std::nan("")) == 200);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Scale& odd : {scale_for(std::nan(""), infinity, 0, 100, 4), scale_for(5, 5, 0, 100, 4), scale_for(9, 3, 0, 100, 4),
                           scale_for(0, 1e300, 0, 100, 4), scale_for(0, 0, 0, 100, 4)}) {
    CHECK(odd.low < odd.high);
    CHECK(std::isfinite(odd.at(4)));
    CHECK(!odd.ticks(5).empty());
  }
}

TEST_CASE("svg: labels are moved apart and stay inside", "[autotune]") {
  CHECK(spread_labels({10, 50, 90}, 10, 0, 100) == std::vector<double>{10, 50, 90});
  CHECK(spread_labels({50, 50, 50}, 10, 0, 100) == std::vector<double>{50, 60, 70});
  CHECK(spread_labels({100, 99}, 10, 0, 100) == std::vector<double>{100, 90});
  CHECK(spread_labels({0, 0, 0}, 80, 0, 100) == std::vector<double>{0, 50, 100});
  CHECK(spread_labels({}, 10, 0, 100).empty());
}

TEST_CASE("svg: numbers are written without noise", "[autotune]") {
  CHECK(number_text(12.345) == "12.3");
  CHECK(number_text(0.012345) == "0.0123");
  CHECK(number_text(12345) == "12345");
  CHECK(number_text(1.5e9) == "1.5e+09");
  CHECK(number_text(12.345, 4) == "12.35");
  CHECK(number_text(std::nan("")) == "-");
  CHECK(tick_text(0.30000000000000004) == "0.3");
  CHECK(tick_text(20) == "20");
  CHECK(tick_text(0) == "0");
  CHECK(tick_text(1e9) == "1e+09");
  CHECK(wrap_words({"aa", "bb", "cccccc", "d"}, 5) == std::vector<std::string>{"aa bb", "cccccc", "d"});
}
