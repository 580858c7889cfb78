#include "runtime/artifact.h"

#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "llvm/Support/JSON.h"
#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

constexpr Target kTarget{9, 0, true, false};

KernelSource kernel(int factor) {
  return {"tw_scale", fmt::format("extern \"C\" __global__ void tw_scale(float* x) {{ x[threadIdx.x] *= {}.0f; }}\n", factor),
          R"({"config":{"a":1}})"};
}

std::shared_ptr<Store> store_in(const std::string& directory) {
  StoreOptions options;
  options.directory = directory;
  return std::make_shared<Store>(options);
}

BuilderOptions identity(const std::string& build = "build-1") {
  BuilderOptions options;
  options.build_identity = build;
  options.library_version = "0.0";
  return options;
}

}  // namespace

TEST_CASE("artifact: compiled once, then from memory, then from the directory", "[runtime]") {
  const ScratchDirectory directory;
  Builder builder(store_in(directory.path()), identity());
  const auto first = must(builder.get(kernel(2), kTarget));
  CHECK(first->origin == Origin::kCompiled);
  CHECK(first->compile_ms > 0);
  CHECK(first->facts.registers > 0);
  CHECK(must(builder.get(kernel(2), kTarget))->origin == Origin::kMemory);

  Builder other(store_in(directory.path()), identity());
  const auto again = must(other.get(kernel(2), kTarget));
  CHECK(again->origin == Origin::kDirectory);
  CHECK(again->binary == first->binary);
  CHECK(again->compile_ms == Approx(first->compile_ms));
  CHECK(again->facts.registers == first->facts.registers);

  const auto provenance = must(llvm::json::parse(again->provenance));
  CHECK(provenance.getAsObject()->getString("target") == "sm_90a");
  CHECK(provenance.getAsObject()->getObject("made_from")->getObject("config")->getInteger("a") == 1);
  CHECK(provenance.getAsObject()->getObject("nvrtc")->getString("version").has_value());
}

TEST_CASE("artifact: the key follows what makes the code and nothing else", "[runtime]") {
  const ScratchDirectory directory, elsewhere;
  Builder builder(store_in(directory.path()), identity());
  std::set<std::string> keys;
  keys.insert(must(builder.key(kernel(2), kTarget)));
  keys.insert(must(builder.key(kernel(3), kTarget)));
  keys.insert(must(builder.key(kernel(2), Target{10, 0, true, false})));
  keys.insert(must(builder.key(kernel(2), Target{9, 0, false, false})));
  keys.insert(must(builder.key(kernel(2), Target{9, 0, false, true})));
  keys.insert(must(Builder(store_in(directory.path()), identity("build-2")).key(kernel(2), kTarget)));
  CHECK(keys.size() == 6);

  KernelSource other_words = kernel(2);
  other_words.provenance = "{}";
  CHECK(must(builder.key(other_words, kTarget)) == must(builder.key(kernel(2), kTarget)));
  BuilderOptions newer = identity();
  newer.library_version = "9.9";
  CHECK(must(Builder(store_in(elsewhere.path()), newer).key(kernel(2), kTarget)) == must(builder.key(kernel(2), kTarget)));

  std::vector<std::string> names;
  for (const KeyIngredient& ingredient : must(builder.key_ingredients(kernel(2), kTarget))) {
    names.push_back(ingredient.name);
    CHECK_FALSE(contains(ingredient.value, "libnvrtc"));  // no path is in the key
  }
  CHECK(names == std::vector<std::string>{"format", "build", "source", "options", "target", "nvrtc"});
}

TEST_CASE("artifact: many threads that want one kernel share one compilation", "[runtime]") {
  const ScratchDirectory directory;
  Builder builder(store_in(directory.path()), identity());
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      auto artifact = builder.get(kernel(2), kTarget);
      if (artifact) ++good;
      if (!artifact) llvm::consumeError(artifact.takeError());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 8);
  CHECK(builder.store().counters().writes == 1);
}

TEST_CASE("artifact: many processes that want one kernel compile it once", "[runtime]") {
  const ScratchDirectory directory;
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      Builder builder(store_in(directory.path()), identity());
      auto artifact = builder.get(kernel(2), kTarget);
      if (!artifact) ::_exit(9);
      ::_exit((*artifact)->origin == Origin::kCompiled ? 1 : 0);
    }
    children.push_back(pid);
  }
  int compiled = 0;
  for (const pid_t pid : children) {
    int status = -1;
    ::waitpid(pid, &status, 0);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) <= 1);
    compiled += WEXITSTATUS(status);
  }
  CHECK(compiled == 1);
}

TEST_CASE("artifact: an exception while compiling reaches its caller, and no other caller waits for ever", "[runtime]") {
  const ScratchDirectory directory;
  Builder builder(store_in(directory.path()), identity());
  std::atomic<int> throws{0};
  // "compiled in ... ms" is logged before the kernel is stored.
  set_log(LogLevel::kInfo, [&](LogLevel, llvm::StringRef) {
    if (throws++ == 0) throw std::bad_alloc();
  });
  CHECK_THROWS_AS(builder.get(kernel(2), kTarget), std::bad_alloc);
  CHECK(throws == 1);
  CHECK(must(builder.get(kernel(2), kTarget))->origin == Origin::kCompiled);
  throws = 0;
  const std::vector<KernelSource> sources = {kernel(3), kernel(4), kernel(3), kernel(4)};
  CHECK_THROWS_AS(builder.get_all(sources, kTarget, 4), std::bad_alloc);
  set_log(LogLevel::kError, {});
  CHECK(must(builder.get_all(sources, kTarget, 4)).size() == 4);
}

TEST_CASE("artifact: several kernels at once, in order, and the first error of them", "[runtime]") {
  const ScratchDirectory directory;
  Builder builder(store_in(directory.path()), identity());
  const std::vector<KernelSource> sources = {kernel(2), kernel(3), kernel(2), kernel(4)};
  const auto artifacts = must(builder.get_all(sources, kTarget, 3));
  REQUIRE(artifacts.size() == 4);
  for (std::size_t i = 0; i < sources.size(); ++i) CHECK(artifacts[i]->source == sources[i].text);
  CHECK(must(builder.get_all({}, kTarget)).empty());

  const std::vector<KernelSource> bad = {kernel(5), {"tw_scale", "broken one", ""}, {"tw_scale", "broken two", ""}};
  CHECK(contains(failure_of(builder.get_all(bad, kTarget, 2)).message, "broken one"));
}

TEST_CASE("artifact: source that does not compile is kept and named, and nothing is stored", "[runtime]") {
  const ScratchDirectory directory;
  Builder builder(store_in(directory.path()), identity());
  const KernelSource bad{"tw_bad", "extern \"C\" __global__ void tw_bad() { return nothing; }\n", "{}"};
  const ErrorFacts facts = failure_of(builder.get(bad, kTarget));
  CHECK(facts.status == Status::kCompileFailed);
  const auto kept = files_in(directory.path("failed"));
  REQUIRE(kept.size() == 1);
  CHECK(contains(facts.message, kept[0]));
  CHECK(file_text(kept[0]) == bad.text);
  CHECK(must(builder.store().list()).empty());

  KernelSource other_entry = kernel(2);
  other_entry.entry = "tw_absent";
  CHECK(contains(failure_of(builder.get(other_entry, kTarget)).message, "tw_scale"));
  CHECK(must(builder.store().list()).empty());
}

TEST_CASE("artifact: while a stream is captured a miss is its own error and a hit works", "[runtime]") {
  const ScratchDirectory directory;
  Builder builder(store_in(directory.path()), identity());
  Builder::GetOptions capturing;
  capturing.may_compile = false;
  CHECK(failure_of(builder.get(kernel(2), kTarget, capturing)).status == Status::kCompileInCapture);
  must(builder.get(kernel(2), kTarget));
  CHECK(must(builder.get(kernel(2), kTarget, capturing))->origin == Origin::kMemory);
}

TEST_CASE("artifact: a damaged entry is built again", "[runtime]") {
  const ScratchDirectory directory;
  const std::string key = must(Builder(store_in(directory.path()), identity()).get(kernel(2), kTarget))->key;
  directory.write(key + ".twk", "damaged");
  LogCapture capture;
  CHECK(must(Builder(store_in(directory.path()), identity()).get(kernel(2), kTarget))->origin == Origin::kCompiled);
  CHECK(must(Builder(store_in(directory.path()), identity()).get(kernel(2), kTarget))->origin == Origin::kDirectory);
}

TEST_CASE("artifact: an unwritable store still gives the kernel", "[runtime]") {
  LogCapture capture;
  Builder builder(store_in("/proc/tilewright"), identity());
  CHECK(must(builder.get(kernel(2), kTarget))->origin == Origin::kCompiled);
  CHECK(must(builder.get(kernel(2), kTarget))->origin == Origin::kMemory);
  CHECK(capture.messages().size() == 1);
}

TEST_CASE("artifact: without NVRTC a filled store serves, and a miss names what is missing", "[runtime]") {
  const ScratchDirectory directory;
  must(Builder(store_in(directory.path()), identity()).get(kernel(2), kTarget));
  const ScopedEnvironment named("TILEWRIGHT_NVRTC", std::string("/nonexistent/libnvrtc.so"));
  Builder builder(store_in(directory.path()), identity());
  CHECK(must(builder.get(kernel(2), kTarget))->origin == Origin::kDirectory);
  const ErrorFacts facts = failure_of(builder.get(kernel(3), kTarget));
  CHECK(facts.status == Status::kMissing);
  CHECK(contains(facts.message, "tw_scale"));
  CHECK(contains(facts.message, "/nonexistent/libnvrtc.so"));
}

TEST_CASE("artifact: PTX is stored as PTX", "[runtime]") {
  const ScratchDirectory directory;
  const Target ptx{9, 0, false, true};
  must(Builder(store_in(directory.path()), identity()).get(kernel(2), ptx));
  const auto artifact = must(Builder(store_in(directory.path()), identity()).get(kernel(2), ptx));
  CHECK(artifact->origin == Origin::kDirectory);
  CHECK(contains(artifact->binary, ".entry tw_scale"));
  CHECK(artifact->facts.registers == 0);
}
