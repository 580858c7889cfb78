// Work on all cores of the host, for what ops/ computes on the CPU. Private to the library.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace tilewright {

// body(begin, end) for consecutive pieces of [0, count), each of at most `grain` (at least 1) elements, on up to `threads` threads (0: one
// per core), in no order; the calling thread is one of them. An exception of the standard library (memory) reaches the caller.
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
    for (std::int64_t t = 1; t < std::min<std::int64_t>(pieces, threads); ++t) pool.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tilewright
