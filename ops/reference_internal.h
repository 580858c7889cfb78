// What the reference of each operator family shares. Private to ops/.
#pragma once

#include "ops/reference.h"
#include "runtime/parallel.h"

namespace tilewright::reference {

// An operand of an op: stored bits of an input, or doubles computed before. Pieces of it are widened on demand, so that a large input is
// never held twice. Does not own what it points to.
struct Operand {
  const HostTensor* stored = nullptr;
  const ReferenceTensor* dense = nullptr;

  llvm::ArrayRef<std::int64_t> shape() const {
    return stored ? llvm::ArrayRef<std::int64_t>(stored->shape) : llvm::ArrayRef<std::int64_t>(dense->shape);
  }
  // Elements begin, begin + 1, ... (row-major logical) into out[0..count).
  void read(std::int64_t begin, std::int64_t count, double* out) const;
  double at(std::int64_t linear) const { return stored ? stored->at(linear) : dense->values[static_cast<std::size_t>(linear)]; }
};

inline std::int64_t product(llvm::ArrayRef<std::int64_t> sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return count;
}

// One loop over a tensor: how often, and how far apart in elements.
struct Loop {
  std::int64_t size;
  std::int64_t stride;
};

// Offset of step `linear` of nested loops, the last one fastest.
inline std::int64_t loop_offset(llvm::ArrayRef<Loop> loops, std::int64_t linear) {
  std::int64_t offset = 0;
  for (std::size_t d = loops.size(); d-- > 0;) {
    offset += linear % loops[d].size * loops[d].stride;
    linear /= loops[d].size;
  }
  return offset;
}

ReferenceTensor make_tensor(llvm::ArrayRef<std::int64_t> shape);

// threads: 0 = one per core.
ReferenceTensor conv(const ConvAttributes& attributes, const Operand& x, const Operand& w, const Operand* bias,
                     llvm::ArrayRef<std::int64_t> out_shape, unsigned threads);
ReferenceTensor reduce(const ReduceAttributes& attributes, const Operand& x, llvm::ArrayRef<std::int64_t> out_shape, unsigned threads);
ReferenceTensor softmax(unsigned axis, const Operand& x, unsigned threads);
// Error kInvalidArgument: a target outside [0, C) that is not ignore_index; the first such row is named.
llvm::Expected<ReferenceTensor> cross_entropy(const CrossEntropyAttributes& attributes, const Operand& logits, const HostTensor& targets,
                                              llvm::ArrayRef<std::int64_t> out_shape, unsigned threads);
ReferenceTensor map(const MapAttributes& attributes, llvm::ArrayRef<Operand> operands, llvm::ArrayRef<std::int64_t> out_shape,
                    unsigned threads);

}  // namespace tilewright::reference
