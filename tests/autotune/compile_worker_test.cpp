#include "autotune/compile_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "autotune/proc_facts.h"
#include "tests/catch.h"
#include "tests/scratch.h"

using namespace tilewright;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A worker in shell: by the config's "mode" it 0 answers, 1 crashes, 2 takes 30 s, 3 talks nonsense.
const char* const kScript = R"sh(echo '{"ready":true}'; while read -r line; do case "$line" in
  *'"mode":0'*) echo '{"config":{"mode":0},"fate":"waiting","reason":"","keys":["k"],"resources":{},"samples_us":[],"compile_ms":3,"bytes":200000}';;
  *'"mode":1'*) kill -SEGV $$;;
  *'"mode":2'*) sleep 30;;
  *) echo nonsense;;
esac; done)sh";

WorkerOptions shell() {
  WorkerOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", kScript};
  options.time_limit_s = 0.5;
  return options;
}

bool exists(int process) { return ::kill(process, 0) == 0 || errno != ESRCH; }

}  // namespace

TEST_CASE("compile worker: one that takes 30 s is given up and gone, the others go on", "[autotune]") {
  WorkerCompiler compiler(shell());
  const auto start = Clock::now();
  int hung = 0;
  {
    CompilePool pool(compiler, {1, std::uint64_t{1} << 40});
    for (std::int64_t mode : {0, 2, 0}) pool.submit({{"mode", mode}});
    CHECK(pool.take().keys == std::vector<std::string>{"k"});
    REQUIRE(compiler.processes().size() == 1);
    hung = compiler.processes()[0];
    const Candidate late = pool.take();
    CHECK(late.fate == Fate::kCompileFailed);
    CHECK(late.reason == "not compiled within 0.5 s");
    CHECK_FALSE(exists(hung));
    CHECK(pool.take().fate == Fate::kWaiting);
  }
  CHECK(seconds_since(start) < 1.5);
}

TEST_CASE("compile worker: a pool that is let go ends what is being compiled", "[autotune]") {
  WorkerOptions options = shell();
  options.time_limit_s = 20;
  WorkerCompiler compiler(options);
  const auto start = Clock::now();
  std::vector<int> workers;
  {
    CompilePool pool(compiler, {2, std::uint64_t{1} << 40});
    pool.submit({{"mode", 0}});
    CHECK(pool.take().fate == Fate::kWaiting);
    for (int i = 0; i < 3; ++i) pool.submit({{"mode", 2}});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    workers = compiler.processes();
    CHECK(workers.size() == 2);
  }
  CHECK(seconds_since(start) < 1.5);
  for (int worker : workers) CHECK_FALSE(exists(worker));
  CHECK(compiler.compile({{"mode", 0}}).fate == Fate::kCompileFailed);
}

TEST_CASE("compile worker: crashes, nonsense and a kill from outside cost one candidate each", "[autotune]") {
  WorkerCompiler compiler(shell());
  auto reason_of = [&](std::int64_t mode) {
    const Candidate candidate = compiler.compile({{"mode", mode}});
    CHECK(candidate.config.at("mode") == mode);
    CHECK(candidate.fate == (candidate.reason.empty() ? Fate::kWaiting : Fate::kCompileFailed));
    return candidate.reason;
  };
  CHECK(reason_of(0).empty());
  const int first = compiler.processes().at(0);
  CHECK(reason_of(0).empty());
  CHECK(compiler.processes() == std::vector<int>{first});  // kept
  CHECK(reason_of(1).find("the compiler ended: signal 11") == 0);
  CHECK(reason_of(0).empty());
  ::kill(compiler.processes().at(0), SIGKILL);
  CHECK(reason_of(0).find("signal 9") != std::string::npos);
  CHECK(reason_of(0).empty());
  CHECK(reason_of(3).find("cannot be read") != std::string::npos);
  CHECK(reason_of(0).empty());
}

TEST_CASE("compile worker: one that cannot begin says why", "[autotune]") {
  WorkerOptions options = shell();
  options.arguments = {"-c", R"sh(echo '{"error":"no such file"}')sh"};
  WorkerCompiler refused(options);
  CHECK(refused.compile({}).reason == "no compiler: no such file");
  CHECK(refused.processes().empty());
  options.program = "/nonexistent/worker";
  WorkerCompiler missing(options);
  CHECK(missing.compile({}).reason.find("/nonexistent/worker") != std::string::npos);
}

TEST_CASE("compile worker: the memory a worker used bounds how many compile at a time", "[autotune]") {
  WorkerCompiler compiler(shell());
  CHECK(compiler.bytes_per_compile() == 0);
  CompilePool pool(compiler, {4, 1});
  pool.submit({{"mode", 0}});
  pool.take();
  CHECK(compiler.bytes_per_compile() > 100'000);
  CHECK(pool.width() == 1);
  CompilePool broad(compiler, {4, std::uint64_t{1} << 40});
  broad.submit({{"mode", 0}});
  broad.take();
  CHECK(broad.width() == 4);
}

TEST_CASE("compile worker: what one serves is what the other reads", "[autotune]") {
  class Fixed : public CandidateCompiler {
    Candidate compile(const ConfigOverrides& config) override {
      Candidate candidate;
      candidate.config = config;
      candidate.fate = Fate::kPruned;
      candidate.reason = "two\nlines";
      candidate.keys = {"a", "b"};
      candidate.resources = {1, 2, 3, 4, 5};
      candidate.predicted_us = 6.5;
      candidate.compile_ms = 7.5;
      return candidate;
    }
  } inner;
  const tests::ScratchDirectory scratch;
  const std::string requests = scratch.write("in", R"j({"config": {"x": 9}})j"
                                                   "\n");
  const int in = ::open(requests.c_str(), O_RDONLY), out = ::open(scratch.path("out").c_str(), O_WRONLY | O_CREAT, 0600);
  CHECK_FALSE(static_cast<bool>(serve_compiler(inner, in, out)));
  ::close(in);
  ::close(out);
  WorkerOptions options;
  options.program = "/bin/cat";
  options.arguments = {scratch.path("out"), "-"};
  WorkerCompiler compiler(options);
  const Candidate candidate = compiler.compile({{"x", 9}});
  CHECK(candidate.fate == Fate::kPruned);
  CHECK(candidate.reason == "two\nlines");
  CHECK(candidate.keys == std::vector<std::string>{"a", "b"});
  CHECK(candidate.resources.blocks_per_sm == 5);
  CHECK(candidate.predicted_us == 6.5);
  CHECK(candidate.compile_ms == 7.5);
}

TEST_CASE("memory is read from the system", "[autotune]") {
  CHECK(peak_memory(::getpid()) > 1'000'000);
  CHECK(peak_memory(-1) == 0);
  CHECK(available_memory() > 0);
}

TEST_CASE("compile worker: one that ends while it has nothing to do costs no candidate", "[autotune]") {
  WorkerCompiler compiler(shell());
  CHECK(compiler.compile({{"mode", 0}}).fate == Fate::kWaiting);
  REQUIRE(compiler.processes().size() == 1);
  const int first = compiler.processes()[0];
  ::kill(first, SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(compiler.compile({{"mode", 0}}).fate == Fate::kWaiting);
  CHECK(compiler.processes() != std::vector<int>{first});
}
