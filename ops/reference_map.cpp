// Elementwise expressions over operands broadcast as in NumPy.
#include "llvm/ADT/STLExtras.h"
#include "ops/reference_internal.h"

namespace tilewright::reference {
namespace {

// The loops over the result, neighbours joined where that is one loop for every operand too; strides[k] are operand k's, 0 where it is
// broadcast. At least one loop.
struct Space {
  llvm::SmallVector<std::int64_t, 6> sizes;
  llvm::SmallVector<llvm::SmallVector<std::int64_t, 6>, 4> strides;
};

Space space_of(llvm::ArrayRef<Operand> operands, llvm::ArrayRef<std::int64_t> out_shape) {
  Space space;
  space.strides.resize(operands.size());
  llvm::SmallVector<std::int64_t, 4> stride(operands.size(), 1);
  // From the fastest dimension to the slowest; reversed at the end.
  for (std::size_t from_end = 0; from_end < out_shape.size(); ++from_end) {
    const std::int64_t size = out_shape[out_shape.size() - 1 - from_end];
    llvm::SmallVector<std::int64_t, 4> here(operands.size(), 0);
    bool joins = !space.sizes.empty();
    for (auto [k, operand] : llvm::enumerate(operands)) {
      const auto shape = operand.shape();
      const std::int64_t own = from_end < shape.size() ? shape[shape.size() - 1 - from_end] : 1;
      here[k] = own == 1 ? 0 : stride[k];
      stride[k] *= own;
      joins = joins && here[k] == space.strides[k].back() * space.sizes.back();
    }
    if (size == 1) continue;
    if (joins) {
      space.sizes.back() *= size;
      continue;
    }
    space.sizes.push_back(size);
    for (std::size_t k = 0; k < operands.size(); ++k) space.strides[k].push_back(here[k]);
  }
  if (space.sizes.empty()) {
    space.sizes.push_back(1);
    for (auto& strides : space.strides) strides.push_back(0);
  }
  std::reverse(space.sizes.begin(), space.sizes.end());
  for (auto& strides : space.strides) std::reverse(strides.begin(), strides.end());
  return space;
}

// An explicit cast to a 16-bit type rounds; other maps keep double, and the judge's tolerance allows for the kernel's rounding.
// Expressions of integers and booleans round by themselves.
bool rounds(const MapAttributes& attributes) {
  const ExprNode* node = attributes.expr.get();
  while (node->fn == ExprFn::kCast) node = node->args[0].get();
  return (attributes.dtype == DType::kF16 || attributes.dtype == DType::kBf16) && node->fn == ExprFn::kOperand;
}

}  // namespace

ReferenceTensor map(const MapAttributes& attributes, llvm::ArrayRef<Operand> operands, llvm::ArrayRef<std::int64_t> out_shape,
                    unsigned threads) {
  ReferenceTensor y = make_tensor(out_shape);
  const auto count = static_cast<std::int64_t>(y.values.size());
  const Space space = space_of(operands, out_shape);
  const std::int64_t row = space.sizes.back();
  const bool round = rounds(attributes);
  llvm::SmallVector<llvm::SmallVector<Loop, 6>, 4> loops(operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    for (auto [size, stride] : llvm::zip(space.sizes, space.strides[k])) loops[k].push_back({size, stride});
  }
  constexpr std::int64_t kGrain = 1 << 13;
  parallel_pieces(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::vector<double>> runs(operands.size(), std::vector<double>(static_cast<std::size_t>(std::min(row, kGrain))));
    llvm::SmallVector<double, 8> values(operands.size());
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t run = std::min(end - i, row - i % row);
      for (std::size_t k = 0; k < operands.size(); ++k) {
        const std::int64_t offset = loop_offset(loops[k], i);
        if (loops[k].back().stride == 0) {
          std::fill_n(runs[k].begin(), run, operands[k].at(offset));
        } else {
          operands[k].read(offset, run, runs[k].data());
        }
      }
      for (std::int64_t j = 0; j < run; ++j) {
        for (std::size_t k = 0; k < operands.size(); ++k) values[k] = runs[k][static_cast<std::size_t>(j)];
        const double result = evaluate_expression(attributes.expr, values);
        y.values[static_cast<std::size_t>(i + j)] = round ? round_to_dtype(result, attributes.dtype) : result;
      }
      i += run;
    }
  });
  return y;
}

}  // namespace tilewright::reference
