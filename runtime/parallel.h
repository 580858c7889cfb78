// Work on several cores of the host. Private to the library.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace tilewright {

// body(begin, end) for consecutive pieces of [0, count), each of at most `grain` (at least 1) elements, on up to `threads` threads (0: one
// per core), in no order; the calling thread is one of them, and the only one where no other can be started. An exception of the standard
// library (memory) reaches the caller; pieces not yet begun are then left out.
template <typename Body>
void parallel_pieces(std::int64_t count, std::int64_t grain, unsigned threads, const Body& body) {
  const std::int64_t pieces = count / grain + (count % grain != 0);
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  auto work = [&] {
    try {
      for (std::int64_t i = next++; i < pieces; i = next++) body(i * grain, std::min(count, (i + 1) * grain));
    } catch (...) {
      next = pieces;
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    try {
      for (std::int64_t t = 1; t < std::min<std::int64_t>(pieces, threads); ++t) pool.emplace_back(work);
    } catch (const std::system_error&) {
      // The system has no thread left: those that there are do the work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

// The values of make(i), an Expected, for all i of [0, count), in order of i, made as by parallel_pieces with pieces of one. All are made,
// also after an error; the result is then the error of the least i that has one.
template <typename Make>
auto parallel_results(std::size_t count, unsigned threads, const Make& make) {
  using T = typename std::invoke_result_t<const Make&, std::size_t>::value_type;
  std::vector<std::optional<T>> made(count);
  std::mutex mutex;
  std::size_t first = count;
  ErrorFacts facts{Status::kInternal, ""};
  parallel_pieces(static_cast<std::int64_t>(count), 1, threads, [&](std::int64_t piece, std::int64_t) {
    const auto i = static_cast<std::size_t>(piece);
    if (auto result = make(i)) {
      made[i].emplace(std::move(*result));
    } else {
      ErrorFacts mine = take_error_facts(result.takeError());
      const std::lock_guard lock(mutex);
      if (i < first) first = i, facts = std::move(mine);
    }
  });
  if (first < count) return llvm::Expected<std::vector<T>>(make_error_text(facts.status, std::move(facts.message)));
  std::vector<T> values;
  values.reserve(count);
  for (std::optional<T>& value : made) values.push_back(std::move(*value));
  return llvm::Expected<std::vector<T>>(std::move(values));
}

}  // namespace tilewright
