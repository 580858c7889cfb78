// Compiles a description for an architecture, with or without a GPU at hand. Run it in the checkout.
#include <iostream>

#include "runtime/api/tilewright.hpp"

int main() try {
  tilewright::Context context;  // the kernel store
  const auto graph = tilewright::Graph::from_file("ops/descriptions/conv3d_min_softmax.json");
  const auto program = context.compile(graph, "sm_90a");  // compiled the first time, read from the store afterwards
  std::cout << program.kernel_count() << " kernel: " << program.kernel_name(0) << ", " << program.kernel_origin(0) << "\n"
            << program.kernel_source(0).substr(0, 300) << "...\n";
} catch (const tilewright::Error& error) {
  std::cerr << error.what() << "\n";
  return error.status() == TW_MISSING ? 77 : 1;  // 77: this machine has no NVRTC
}
