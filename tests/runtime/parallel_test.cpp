#include "runtime/parallel.h"

#include <pthread.h>

#include <set>
#include <stdexcept>
#include <string>

#include "tests/catch.h"

using namespace tilewright;

namespace {

// While it lives no thread can be started: the stack asked for is larger than the address space.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_attr_t attributes;
    REQUIRE(pthread_getattr_default_np(&attributes) == 0);
    REQUIRE(pthread_attr_getstacksize(&attributes, &stack_bytes_) == 0);
    set(std::size_t{1} << 48);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;
  ~NoMoreThreads() { set(stack_bytes_); }

 private:
  static void set(std::size_t bytes) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, bytes) == 0);
    CHECK(pthread_setattr_default_np(&attributes) == 0);
    pthread_attr_destroy(&attributes);
  }
  std::size_t stack_bytes_ = 0;
};

llvm::Expected<std::string> odd_fails(std::size_t i) {
  if (i % 2 == 1) return make_error(Status::kUnsupported, "no {}", i);
  return std::to_string(i);
}

}  // namespace

TEST_CASE("parallel: pieces cover the range once", "[runtime]") {
  for (const std::int64_t count : {0, 1, 7, 64, 65}) {
    for (const unsigned threads : {0u, 1u, 5u}) {
      std::vector<int> seen(static_cast<std::size_t>(count));
      parallel_pieces(count, 8, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      CHECK(seen == std::vector<int>(static_cast<std::size_t>(count), 1));
    }
  }
}

TEST_CASE("parallel: results come in order of index", "[runtime]") {
  for (const std::size_t count : {0u, 1u, 100u}) {
    auto results = parallel_results(count, 4, [](std::size_t i) -> llvm::Expected<std::size_t> { return 3 * i; });
    REQUIRE(!!results);
    REQUIRE(results->size() == count);
    for (std::size_t i = 0; i < count; ++i) CHECK((*results)[i] == 3 * i);
  }
}

TEST_CASE("parallel: the error of the least index is the result, and all are made", "[runtime]") {
  std::atomic<int> made{0};
  auto results = parallel_results(20, 4, [&](std::size_t i) {
    ++made;
    return odd_fails(19 - i);  // 19 - i is odd for 0, 2, 4, ...
  });
  REQUIRE(!results);
  const ErrorFacts facts = take_error_facts(results.takeError());
  CHECK(facts.status == Status::kUnsupported);
  CHECK(facts.message == "no 19");
  CHECK(made == 20);
}

TEST_CASE("parallel: an exception of a worker reaches the caller", "[runtime]") {
  for (const unsigned threads : {1u, 4u}) {
    CHECK_THROWS_AS(parallel_pieces(100, 1, threads, [](std::int64_t begin, std::int64_t) { static_cast<void>(std::string().at(begin)); }),
                    std::out_of_range);
  }
}

TEST_CASE("parallel: without a thread to start the caller does the work", "[runtime]") {
  const NoMoreThreads none;
  CHECK_THROWS_AS(std::thread([] {}), std::system_error);
  std::set<std::thread::id> workers;
  std::int64_t sum = 0;
  parallel_pieces(100, 1, 4, [&](std::int64_t begin, std::int64_t) {
    workers.insert(std::this_thread::get_id());
    sum += begin;
  });
  CHECK(workers == std::set<std::thread::id>{std::this_thread::get_id()});
  CHECK(sum == 4950);
}
