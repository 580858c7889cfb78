#include "autotune/compile_pool.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/catch.h"

using namespace tilewright;

namespace {

// Takes as many milliseconds as the config says.
class SlowCompiler : public CandidateCompiler {
 public:
  Candidate compile(const ConfigOverrides& config) override {
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(config.at("ms")));
    --running;
    Candidate candidate;
    candidate.config = config;
    candidate.compile_ms = static_cast<double>(config.at("ms"));
    return candidate;
  }
  std::atomic<int> running{0}, most{0};
};

}  // namespace

TEST_CASE("compile pool: results come in the order of submission, several compiled at a time", "[autotune]") {
  SlowCompiler compiler;
  CompilePool pool(compiler, {3, std::uint64_t{1} << 40});
  const std::vector<std::int64_t> times{5, 60, 10, 5, 40, 5};
  for (std::int64_t ms : times) pool.submit({{"ms", ms}});
  CHECK(pool.pending() == times.size());
  for (std::int64_t ms : times) CHECK(pool.take().config.at("ms") == ms);
  CHECK(pool.pending() == 0);
  CHECK(pool.width() == 3);
  CHECK(compiler.most > 1);
  CHECK(compiler.most <= 3);
}
