// The tuning report as a browser sees it.
#include <string>

#include "autotune/report.h"
#include "tests/autotune/report_cases.h"
#include "tests/browser/browser.h"
#include "tests/catch.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

// Returns the faults of the page, a line each, "good" for none.
const char* const kLook = R"js(
  const faults = [];
  const say = text => { if (faults.length < 20) faults.push(text); };
  const short = element => (element.textContent || '').trim().slice(0, 50) + ' (' + (element.getAttribute('class') || element.tagName) + ')';
  for (const entry of performance.getEntriesByType('resource')) say('a request: ' + entry.name);
  // Files that are missing leave no entry above.
  for (const element of document.querySelectorAll('[src], [href], [srcset], [data], [poster]')) {
    const target = element.getAttribute('src') || element.getAttribute('href') || 'a source';
    if (!target.startsWith('#') && target !== 'data:,') say('names another file: ' + target);
  }
  if (document.documentElement.scrollWidth > innerWidth) say('wider than the window: ' + document.documentElement.scrollWidth + ' of ' + innerWidth);
  for (const details of document.querySelectorAll('details')) details.open = true;

  // Text of pictures and tables can be selected.
  getSelection().selectAllChildren(document.body);
  const selected = getSelection().toString();
  for (const element of document.querySelectorAll('h2, th, th a, th small, svg text')) {
    if (element.getClientRects().length === 0 ) continue;
    const text = element.tagName === 'text' ? element.textContent.trim() : element.innerText.trim();
    if (text && !selected.replace(/\s+/g, ' ').includes(text.replace(/\s+/g, ' '))) say('cannot be selected: ' + short(element));
  }
  getSelection().removeAllRanges();

  // Labels lie inside their picture, do not overlap, and are large enough.
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) continue;
    const texts = [...svg.querySelectorAll('text')].map(element => [element, element.getBoundingClientRect()]);
    for (const [index, [element, box]] of texts.entries()) {
      if (box.height < 9) say('small: ' + short(element) + ' ' + box.height);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 3 || box.bottom > frame.bottom + 3)
        say('outside of its picture: ' + short(element) + ' in ' + svg.getAttribute('aria-label'));
      for (const [other, place] of texts.slice(index + 1)) {
        const across = Math.min(box.right, place.right) - Math.max(box.left, place.left);
        const down = Math.min(box.bottom, place.bottom) - Math.max(box.top, place.top);
        if (across > 0.5 && down > 3) say('overlap: ' + short(element) + ' and ' + short(other) + ' in ' + svg.getAttribute('aria-label'));
      }
    }
  }

  // Contrast of all text with what is behind it (WCAG 2, 4.5 to 1).
  const channels = colour => colour.match(/[\d.]+/g).map(Number);
  const light = colour => { const [r, g, b] = channels(colour).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = element => { for (let at = element; at; at = at.parentElement) { const colour = getComputedStyle(at).backgroundColor;
    const parts = channels(colour); if (parts.length < 4 || parts[3] === 1) return colour; } return 'rgb(255, 255, 255)'; };
  for (const element of document.querySelectorAll('h1, h2, h3, p, li, dt, dd, small, th, td, a, summary, span, figcaption, svg text')) {
    if (element.getClientRects().length === 0 || !element.textContent.trim()) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(element.tagName === 'text' ? style.fill : style.color), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) say('contrast ' + contrast.toFixed(2) + ': ' + short(element));
  }
  return faults.length ? faults.join('\n') : 'good';
)js";

std::string look(const std::string& page, int width, Scheme scheme) { return run_in_page(page, kLook, width, scheme); }

}  // namespace

TEST_CASE("report in a browser: the look sees what is wrong with a page", "[browser]") {
  const std::string bad =
      "<!DOCTYPE html><body style='background:#fff'><style>svg text{font-size:12px}</style><p style='color:#ccc'>pale</p><p "
      "style='width:2000px'>wide</p>"
      "<h2 style='user-select:none'>fixed</h2><img src=http://127.0.0.1:9/a.png><img src=missing.png>"
      "<svg width=200 height=40 aria-label=bad><text x=10 y=20>one</text><text x=14 y=20>two</text><text x=190 "
      "y=20>three</text></svg></body>";
  const std::string verdict = look(bad, 1280, Scheme::kLight);
  for (const char* fault : {"contrast 1.6", "wider than the window", "cannot be selected: fixed", "a request: http://127.0.0.1:9/a.png",
                            "names another file: missing.png", "overlap: one", "outside of its picture: three"}) {
    INFO(verdict << "\nwanted: " << fault);
    CHECK(verdict.find(fault) != std::string::npos);
  }
}

TEST_CASE("report in a browser: loads alone, can be selected, no label overlaps, readable in dark and light, broad and slim", "[browser]") {
  std::vector<ReportProblem> problems{many_candidates(60), one_candidate(), all_failed(), nothing_tried(), crowded_labels()};
  for (double flops_per_byte : {1e-4, 0.1, 1.0, 5.0, 14.0, 60.0, 3e4}) problems.push_back(with_intensity(flops_per_byte));
  for (const std::string& page : {report_html(problems, {"a note"}), report_html(many_candidates(300)), report_html(hostile())}) {
    for (int width : {1280, 390}) {
      for (Scheme scheme : {Scheme::kLight, Scheme::kDark}) {
        INFO("width " << width << (scheme == Scheme::kDark ? ", dark" : ", light"));
        CHECK(look(page, width, scheme) == "good");
      }
    }
  }
}

TEST_CASE("report in a browser: it is dark where the surroundings are", "[browser]") {
  const std::string page = report_html(one_candidate()), script = "return getComputedStyle(document.body).backgroundColor;";
  const std::string light = run_in_page(page, script, 1280, Scheme::kLight), dark = run_in_page(page, script, 1280, Scheme::kDark);
  CHECK(light == "rgb(246, 247, 249)");
  CHECK(dark == "rgb(15, 19, 23)");
}

TEST_CASE("report in a browser: no text of a record becomes markup", "[browser]") {
  const std::string script =
      "return String(document.querySelectorAll('img, b, i, u, main script').length) + ' ' + document.title.slice(0, 23);";
  CHECK(run_in_page(report_html(hostile()), script, 1280, Scheme::kLight) == "0 Tuning of &lt;script&gt;alert");
}
