#include "tests/host/async_planted.h"

#include <cstring>
#include <map>

#include "runtime/host/executor.h"
#include "tests/host/host_fixture.h"

namespace tilewright::tests {
namespace {

constexpr std::int64_t kRows = 32, kColumns = 32;

// As the kernel's Args.
struct Args {
  EncodedTensorMap in_map, out_map;
  std::uint64_t in, out;
};

std::string source_of(const AsyncPlanted& planted, bool bug) {
  return fmt::format(R"(#include "tilewright/ptx_wgmma.cuh"
#include "tilewright/shared.cuh"
#define BUG {}
using namespace tw;
struct Args {{
  TensorMap in_map, out_map;
  const int* in;
  int* out;
}};
__device__ void wait(u64* barrier, u32 parity) {{
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {{
  }}
}}
extern "C" __global__ void planted(const __grid_constant__ Args args) {{
  const int* const in = args.in;
  int* const out = args.out;
  int* const s = reinterpret_cast<int*>(dynamic_shared_words());
  u64* const b = reinterpret_cast<u64*>(s + 3072);
  const int i = static_cast<int>(threadIdx.x);
  (void)s, (void)b;
  {}
}}
)",
                     bug ? 1 : 0, planted.body);
}

TensorMapSpec map_of(const AsyncPlanted& planted, const Region& region) {
  TensorMapSpec spec;
  spec.dtype = DType::kI32;
  spec.address = reinterpret_cast<std::uint64_t>(region.data());
  spec.dims = {kColumns, kRows};
  spec.strides_bytes = {kColumns * 4};
  spec.box = {planted.box_columns, 8};
  spec.swizzle = planted.swizzle;
  return spec;
}

}  // namespace

std::string run_async_planted(const AsyncPlanted& planted, bool bug, std::uint64_t seed) {
  // Loaded once for all seeds.
  static std::map<std::pair<std::string, bool>, std::unique_ptr<KernelObject>> objects;
  std::unique_ptr<KernelObject>& object = objects[{planted.name, bug}];
  if (!object) {
    auto artifact = host_builder().get({"planted", source_of(planted, bug), "{}"}, "");
    if (!artifact) return take_error_facts(artifact.takeError()).message;
    object = value_of(KernelObject::load((*artifact)->object));
  }
  GlobalMemory memory;
  const auto region = [&](const char* name, RegionKind kind) {
    return memory.add({name, kind, kRows * kColumns * 4, 4, {kRows, kColumns}, 0});
  };
  Region& in = *region("in", RegionKind::kInput);
  Region& out = *region("out", RegionKind::kOutput);
  const auto element = [](const Region& tensor, std::int64_t k) { return reinterpret_cast<std::int32_t*>(tensor.data())[k]; };
  for (std::int32_t k = 0; k < kRows * kColumns; ++k) reinterpret_cast<std::int32_t*>(in.data())[k] = 100 + k;
  in.mark_initialized();
  Args args{value_of(encode_tensor_map_on_host(map_of(planted, in))), value_of(encode_tensor_map_on_host(map_of(planted, out))),
            reinterpret_cast<std::uint64_t>(in.data()), reinterpret_cast<std::uint64_t>(out.data())};
  const void* parameters[] = {&args};
  HostLaunch launch;
  launch.kernel = "planted";
  launch.block = {planted.threads, 1, 1};
  launch.grid = launch.cluster = {planted.cluster, 1, 1};
  launch.dynamic_shared_bytes = 16384;
  launch.parameters = parameters;
  ExecuteOptions options;
  options.seed = seed;
  options.time_limit_s = 5;
  if (llvm::Error error = execute(*object, launch, memory, options)) return take_error_facts(std::move(error)).message;
  for (std::int64_t k = 0; k < std::int64_t{planted.threads} * planted.cluster; ++k) {
    if (element(out, k) != element(in, k)) return fmt::format("wrong output: out[{}] is {}, not {}", k, element(out, k), element(in, k));
  }
  return "";
}

}  // namespace tilewright::tests
