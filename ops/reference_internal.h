// What the reference of each operator family shares. Private to ops/.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>

#include "ops/reference.h"

namespace tilewright::reference {

// An operand of an op: stored bits of an input, or doubles computed before. Rows of it are widened on demand, so that a large input is never
// held twice.
struct Operand {
  const HostTensor* stored = nullptr;
  const ReferenceTensor* dense = nullptr;

  llvm::ArrayRef<std::int64_t> shape() const { return stored ? llvm::ArrayRef<std::int64_t>(stored->shape) : llvm::ArrayRef<std::int64_t>(dense->shape); }
  // Elements begin, begin + 1, ... (row-major logical) into out[0..count).
  void read(std::int64_t begin, std::int64_t count, double* out) const;
  double at(std::int64_t linear) const { return stored ? stored->at(linear) : dense->values[static_cast<std::size_t>(linear)]; }
};

inline std::int64_t product(llvm::ArrayRef<std::int64_t> sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return count;
}

ReferenceTensor make_tensor(llvm::ArrayRef<std::int64_t> shape);

// body(i) for i in [0, count), on `threads` threads, in no order.
template <typename Body>
void parallel_for(std::int64_t count, unsigned threads, Body body) {
  const auto workers = static_cast<unsigned>(std::clamp<std::int64_t>(count, 1, threads));
  if (workers == 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < workers; ++t) {
    pool.emplace_back([&] {
      for (std::int64_t i = next++; i < count; i = next++) body(i);
    });
  }
  for (std::thread& thread : pool) thread.join();
}

ReferenceTensor conv(const ConvAttributes& attributes, const Operand& x, const Operand& w, const Operand* bias, llvm::ArrayRef<std::int64_t> out_shape,
                     unsigned threads);
ReferenceTensor reduce(const ReduceAttributes& attributes, const Operand& x, llvm::ArrayRef<std::int64_t> out_shape, unsigned threads);
ReferenceTensor softmax(unsigned axis, const Operand& x, unsigned threads);
// Error kInvalidArgument: a target outside [0, C) that is not ignore_index.
llvm::Expected<ReferenceTensor> cross_entropy(const CrossEntropyAttributes& attributes, const Operand& logits, const HostTensor& targets,
                                              llvm::ArrayRef<std::int64_t> out_shape, unsigned threads);
ReferenceTensor map(const MapAttributes& attributes, llvm::ArrayRef<Operand> operands, llvm::ArrayRef<std::int64_t> out_shape, unsigned threads);

}  // namespace tilewright::reference
