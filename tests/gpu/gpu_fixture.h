// Runs descriptions on the GPU the way a careful caller would, and judges them: outputs poisoned and fenced, every kernel run twice,
// results compared with the reference.
#pragma once

#include <memory>
#include <string>

#include "autotune/verify.h"
#include "codegen/compile.h"
#include "ops/json.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/graphs.h"

namespace tilewright::tests {

struct GpuRun {
  bool fuse = true;
  std::uint64_t seed = 1;
  double low = -1.0, high = 1.0;  // of the first input; the others, weights and biases mostly, lie in [-1/4, 1/4)
  unsigned shift_elements = 0;    // every pointer moved by that many elements: misaligned for vectors
  bool special_values = false;    // NaN, infinities, denormals and large magnitudes among the inputs
  bool capture = false;           // launched by replaying a captured graph
  ConfigOverrides overrides;
};

class Gpu {
 public:
  // One device for the whole executable; fails the test that asks first when there is none.
  static Gpu& instance();

  // Compiles, runs and compares; every complaint is a failed CHECK that names `title`.
  void check(const std::string& title, const Graph& graph, llvm::ArrayRef<std::int64_t> dims, const GpuRun& run);
  // Runs a program of `graph` twice and gives its outputs; fails the test when the two differ or anything around an output was written.
  // Of `run` only shift_elements and capture count.
  std::vector<HostTensor> outputs(const Program& program, const Graph& graph, llvm::ArrayRef<HostTensor> inputs,
                                  llvm::ArrayRef<std::int64_t> dims, const GpuRun& run);

  const Driver& driver() const { return *driver_; }
  const Target& target() const { return target_; }
  Builder& builder() { return *builder_; }

 private:
  Gpu(const Driver& driver, Context context, ContextScope scope, Target target, std::unique_ptr<Builder> builder)
      : driver_(&driver), context_(std::move(context)), scope_(std::move(scope)), target_(target), builder_(std::move(builder)) {}
  const Driver* driver_;
  Context context_;
  ContextScope scope_;
  Target target_;
  std::unique_ptr<Builder> builder_;
};

void succeed(llvm::Error error);

}  // namespace tilewright::tests
