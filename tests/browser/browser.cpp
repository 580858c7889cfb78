#include "tests/browser/browser.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

namespace tilewright_tests {
namespace {

struct Scratch {
  Scratch() {
    llvm::SmallString<128> made;
    if (!llvm::sys::fs::createUniqueDirectory("tilewright-browser", made)) path = std::string(made);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

std::string without(std::string text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return text;
  return text.erase(at, text.find(end, at) + end.size() - at);
}

}  // namespace

std::string find_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}) {
    if (auto path = llvm::sys::findProgramByName(name)) return *path;
  }
  return "";
}

std::string run_in_page(const std::string& page, const std::string& script, int width, Scheme scheme) {
  const Scratch scratch;
  const std::string file = scratch.path + "/page.html", frame = scratch.path + "/frame.html", out = scratch.path + "/out";
  std::string open = without(page, "<meta http-equiv=\"Content-Security-Policy\"", ">");
  const std::size_t end = open.rfind("</body>");
  // Windows have a least width, frames have none: the page stands in one, and hands its verdict to the page around it.
  open.insert(end == std::string::npos ? open.size() : end,
              "<script>addEventListener('load', () => { let verdict; try { verdict = (() => {" + script +
                  "})(); } catch (error) { verdict = 'error: ' + error; }"
                  " parent.postMessage(verdict, '*'); });</script>");
  std::ofstream(file, std::ios::binary) << open;
  std::ofstream(frame, std::ios::binary)
      << "<!DOCTYPE html><meta charset=\"utf-8\"><script>addEventListener('message', event => {"
         "document.getElementById('verdict').textContent = event.data; });</script><p id=\"verdict\">no verdict</p>"
         "<iframe src=\"page.html\" style=\"border:0\" width=\""
      << width << "\" height=\"900\"></iframe>";
  const std::string profile = "--user-data-dir=" + scratch.path + "/profile", url = "file://" + frame;
  const std::string colours = scheme == Scheme::kDark ? "preferredColorScheme=0" : "preferredColorScheme=1";
  const std::string settings = "--blink-settings=" + colours;
  const std::string browser = find_browser();
  // Without its sandbox, which the containers of continuous integration do not allow; it opens nothing but our own page.
  const llvm::StringRef arguments[] = {browser,
                                       "--headless",
                                       "--no-sandbox",
                                       "--disable-gpu",
                                       "--no-first-run",
                                       "--disable-dev-shm-usage",
                                       "--disable-background-networking",
                                       "--disable-component-update",
                                       "--host-resolver-rules=MAP * ~NOTFOUND",
                                       "--window-size=1400,1000",
                                       "--virtual-time-budget=10000",
                                       profile,
                                       settings,
                                       "--dump-dom",
                                       url};
  const std::string errors = scratch.path + "/errors";
  llvm::sys::ExecuteAndWait(browser, arguments, std::nullopt, {llvm::StringRef("/dev/null"), llvm::StringRef(out), llvm::StringRef(errors)},
                            120);
  std::ostringstream text;
  text << std::ifstream(out, std::ios::binary).rdbuf();
  const std::string dom = text.str(), begin = "<p id=\"verdict\">";
  const std::size_t at = dom.find(begin);
  if (at == std::string::npos) return "the browser gave no page";
  return dom.substr(at + begin.size(), dom.find("</p>", at) - at - begin.size());
}

}  // namespace tilewright_tests
