// From a description to a result on the GPU: softmax(x + b) over rows. Memory is the CUDA driver's, as in a program that has its own; a
// program that uses the CUDA runtime instead passes pointers of cudaMalloc and its cudaStream_t.
#include <dlfcn.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "runtime/api/tilewright.hpp"

namespace {

constexpr std::int64_t kRows = 300;
constexpr std::int64_t kCols = 1000;

constexpr char kDescription[] = R"({
  "name": "bias_softmax",
  "inputs": {"x": {"dtype": "f32", "shape": ["N", 1000]}, "b": {"dtype": "f32", "shape": [1000]}},
  "dims": {"N": {"default": 256, "min": 1, "max": 65536}},
  "ops": [
    {"op": "add", "in": ["x", "b"], "out": "s"},
    {"op": "softmax", "in": ["s"], "out": "y", "axis": -1}
  ],
  "outputs": ["y"]
})";

// The few driver functions that this example needs, as cuda.h declares them; a real program includes cuda.h.
struct Driver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = load<int(unsigned)>("cuInit");
  int (*retain_context)(void**, int) = load<int(void**, int)>("cuDevicePrimaryCtxRetain");
  int (*set_context)(void*) = load<int(void*)>("cuCtxSetCurrent");
  int (*allocate)(std::uint64_t*, std::size_t) = load<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2");
  int (*upload)(std::uint64_t, const void*, std::size_t) = load<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2");
  int (*download)(void*, std::uint64_t, std::size_t) = load<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH_v2");

  template <typename Function>
  Function* load(const char* name) const {
    return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
  }
  // A context current on this thread; false when there is no driver or no GPU.
  bool start() const {
    void* context = nullptr;
    return library && init(0) == 0 && retain_context(&context, 0) == 0 && set_context(context) == 0;
  }
  void* memory(std::size_t bytes) const {
    std::uint64_t pointer = 0;
    if (allocate(&pointer, bytes) != 0) throw tilewright::Error(TW_OUT_OF_MEMORY, "no device memory");
    return reinterpret_cast<void*>(pointer);
  }
  static std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
};

float input(std::int64_t row, std::int64_t col) { return static_cast<float>((row * 31 + col * 17) % 101) / 10.0F; }

// The largest difference from the definition, over all elements.
double largest_error(const std::vector<float>& y, const std::vector<float>& b) {
  double largest = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (std::int64_t col = 0; col < kCols; ++col) sum += std::exp(double{input(row, col)} + b[col]);
    for (std::int64_t col = 0; col < kCols; ++col) {
      const double error = std::abs(std::exp(double{input(row, col)} + b[col]) / sum - y[row * kCols + col]);
      if (!(error <= largest)) largest = error;  // a NaN stays
    }
  }
  return largest;
}

int run(const Driver& driver) {
  std::vector<float> x(kRows * kCols), b(kCols), y(kRows * kCols);
  for (std::int64_t i = 0; i < kRows * kCols; ++i) x[i] = input(i / kCols, i % kCols);
  for (std::int64_t i = 0; i < kCols; ++i) b[i] = static_cast<float>(i % 7);

  tilewright::Context context;
  const auto graph = tilewright::Graph::from_json(kDescription);
  auto program = context.compile(graph);  // for the current device

  const std::array dims = {kRows};  // a value for each named dimension
  const std::size_t workspace_bytes = program.workspace_bytes(dims);
  void* workspace = workspace_bytes ? driver.memory(workspace_bytes) : nullptr;
  if (workspace) program.initialize_workspace(workspace, dims);

  const std::array<const void*, 2> inputs = {driver.memory(x.size() * sizeof(float)), driver.memory(b.size() * sizeof(float))};
  const std::array<void*, 1> outputs = {driver.memory(y.size() * sizeof(float))};
  driver.upload(Driver::address(inputs[0]), x.data(), x.size() * sizeof(float));
  driver.upload(Driver::address(inputs[1]), b.data(), b.size() * sizeof(float));

  program.launch(inputs, outputs, workspace, dims);  // on the default stream, which the copy below waits for
  if (driver.download(y.data(), Driver::address(outputs[0]), y.size() * sizeof(float)) != 0) {
    std::fprintf(stderr, "the kernel failed\n");
    return 1;
  }
  const double error = largest_error(y, b);
  std::printf("%s, %s: largest error %.3g\n", program.kernel_name(0).c_str(), program.kernel_origin(0).c_str(), error);
  return error <= 1e-6 ? 0 : 1;
}

}  // namespace

int main() try {
  const Driver driver;
  if (!driver.start()) {
    std::fprintf(stderr, "this example needs a GPU\n");
    return 77;
  }
  return run(driver);
} catch (const tilewright::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.status() == TW_MISSING ? 77 : 1;
}
