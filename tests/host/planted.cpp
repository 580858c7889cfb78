#include "tests/host/planted.h"

#include "fmt/format.h"
#include "tests/host/host_fixture.h"

namespace tilewright::tests {
namespace {

constexpr Planted kPlanted[] = {
    {"read past the end of an input", "out[i] = in[i + BUG];", "at in[64], past its end (64 elements)"},
    {"read before the start of an input", "out[i] = in[i - (BUG && i == 0)];", "at in[-1], before its start"},
    {"write past the end of an output", "out[i] = in[i]; if (BUG && i == 63) out[i + 1] = 0;", "write of 4 bytes at out[64]"},
    {"write to an input", "out[i] = in[i]; if (BUG && i == 5) const_cast<int*>(in)[i] = 0;", "write to in[5], which is an input"},
    {"misaligned access to an input",
     "u32 pair[2]; ptx::ld_global_nc_v2_u32(in + (i & 60) + BUG, pair); out[i] = static_cast<int>(pair[0]);",
     "misaligned read of 8 bytes at in["},
    {"output element never written", "if (!BUG || i != 9) out[i] = in[i];",
     "output out: 1 of 64 elements were never written, the first at out[9]"},
    {"output read before it is written", "if (!BUG) out[i] = 0; out[i] = out[i] + 1;", "which nobody has written"},
    {"constant load of what the launch writes", "out[i] = in[i]; if (BUG) out[i] = ptx::ld_global_nc_u32(&out[i]);",
     "ld.global.nc of out["},
    {"workspace left dirty", "out[i] = in[i]; if (i == 0) words[0] = BUG;", "workspace words is not left zero"},
    {"read past the end of a shared variable", "__shared__ int s[64]; s[i] = in[i]; __syncthreads(); out[i] = s[i + BUG];",
     "at byte 256 of shared variable s (256 bytes)"},
    {"write past the end of dynamic shared memory", "u32* s = dynamic_shared_words(); s[i + BUG] = in[i]; __syncthreads(); out[i] = 0;",
     "at byte 256 of dynamic shared memory (256 bytes)"},
    {"misaligned access to shared memory",
     "u32* s = dynamic_shared_words(); s[i] = in[i]; __syncthreads();"
     "const u64 v = *reinterpret_cast<const u64*>(s + (i & 60) + BUG); out[i] = static_cast<int>(v ^ v >> 32);",
     "misaligned read of 8 bytes at byte"},
    {"shared memory read before it is written", "__shared__ int s[64]; if (!BUG || i != 7) s[i] = in[i]; __syncthreads(); out[i] = s[i];",
     "at byte 28 of shared variable s (256 bytes), which nobody has written"},
    {"volatile word read before it is written",
     "__shared__ volatile int s[64]; if (!BUG || i != 7) s[i] = in[i]; __syncthreads(); out[i] = s[i];",
     "at byte 28 of shared variable s (256 bytes), which nobody has written"},
    {"volatile element of an output never written", "volatile int* const o = out; if (!BUG || i != 9) o[i] = in[i];",
     "output out: 1 of 64 elements were never written, the first at out[9]"},
    {"plain write beside a volatile one",
     "__shared__ int s; if (i == 0) s = 1; if (!BUG) __syncthreads(); if (i == 63) *const_cast<volatile int*>(&s) = 5;"
     "__syncthreads(); out[i] = s;",
     "with no barrier between them"},
    {"missing barrier after a write", "__shared__ int s[64]; s[i] = in[i]; if (!BUG) __syncthreads(); out[i] = s[63 - i];",
     "with no barrier between them|which nobody has written"},
    {"missing barrier before shared memory is used again",
     "__shared__ int s[64]; s[i] = in[i]; __syncthreads(); const int v = s[63 - i]; if (!BUG) __syncthreads(); s[i] = v; out[i] = v;",
     "race at byte"},
    {"two threads write one word", "__shared__ int s[64]; s[BUG ? i / 2 : i] = i; __syncthreads(); out[i] = s[i / 2];", "write by thread"},
    {"warps order themselves by a shuffle alone",
     "__shared__ int s[64]; s[i] = in[i]; if (BUG) __shfl_sync(~0u, 0, 0); else __syncwarp(); out[i] = s[i ^ 1];",
     "with no barrier between them|which nobody has written"},
    {"barrier that some threads never reach", "if (!BUG || i < 32) __syncthreads(); out[i] = in[i];", "barrier divergence"},
    {"two barriers in place of one", "if (!BUG || i < 32) __syncthreads();\n else __syncthreads();\n out[i] = in[i];",
     "barrier divergence"},
    {"shuffle that some lanes never reach", "int v = in[i]; if (!BUG || i % 32 < 31) v = __shfl_xor_sync(~0u, v, 1); out[i] = v;",
     "warp divergence"},
    {"lanes in one shuffle with different masks", "int v = in[i]; v = __shfl_xor_sync(BUG && i % 2 ? 0xaaaaaaaau : ~0u, v, 2); out[i] = v;",
     "warp divergence|deadlock"},
    {"mask without the lane itself", "out[i] = __shfl_sync(BUG ? 0xfffffffeu : ~0u, in[i], 1);",
     "which leaves out the lane itself|warp divergence"},
    {"lock taken twice: waits for a word that nobody writes",
     "if (i == 0) { while (ptx::ld_relaxed_gpu_global_u64(words) != BUG * 1ull) {} } out[i] = in[i];", "deadlock: waits for a word"},
    {"the same, sleeping meanwhile",
     "if (i == 0) { while (ptx::ld_relaxed_gpu_global_u64(words) != BUG * 1ull) __nanosleep(40); } __nanosleep(40); out[i] = in[i];",
     "deadlock: waits for a word"},
    {"block that waits for one that never signals",
     "if (blockIdx.x == 1 && i == 0) ptx::st_relaxed_gpu_global_u64(words, 1 - BUG);"
     "if (blockIdx.x == 0 && i == 0) { while (ptx::ld_relaxed_gpu_global_u64(words) != 1) {} ptx::st_relaxed_gpu_global_u64(words, 0); }"
     "if (blockIdx.x == 0) out[i] = in[i];",
     "deadlock: waits for a word", 64, 2},
    {"warps that wait for each other", "host::bar_sync(BUG ? 1 + i / 32 : 1, 64); out[i] = in[i];",
     "deadlock: no thread of the block can run"},
    {"endless loop over memory", "for (int k = i; BUG; ++k) out[k & 63] = in[k & 63]; out[i] = in[i];", "time limit"},
    {"local memory of another thread",
     "__shared__ const int* s[2]; int mine = in[i]; if (i < 2) s[i] = &mine; __syncthreads();"
     "const int got = i < 2 ? *s[BUG ? 1 - i : i] : 0; __syncthreads(); out[i] = got;",
     "in local memory of thread"},
    {"trap", "out[i] = in[i]; if (BUG && i == 3) __trap();", "thread (3, 0, 0): __trap"},
};

std::string source_of(const Planted& planted, bool bug) {
  return fmt::format(R"(#include "tilewright/memory.cuh"
#include "tilewright/shared.cuh"
#define BUG {}
using namespace tw;
struct Args {{
  const int* in;
  int* out;
  u64* words;
}};
extern "C" __global__ void planted(const __grid_constant__ Args args) {{
  const int* const in = args.in;
  int* const out = args.out;
  u64* const words = args.words;
  const int i = static_cast<int>(threadIdx.x);
  (void)words;
  {}
}}
)",
                     bug ? 1 : 0, planted.body);
}

LaunchRecipe recipe_of(const Planted& planted) {
  LaunchRecipe recipe;
  recipe.inputs.push_back({"in", DType::kI32, {64}, {}});
  recipe.outputs.push_back({"out", DType::kI32, {64}, {}});
  recipe.workspace.push_back({"words", 64, true});
  KernelLaunch launch;
  launch.entry = "planted";
  launch.grid = {std::int64_t{planted.blocks}, 1, 1};
  launch.block = {planted.threads, 1, 1};
  launch.dynamic_shared_bytes = 256;
  const auto pointer = [](const char* name, BufferKind kind) {
    KernelArg field;
    field.kind = KernelArg::Kind::kBuffer;
    field.name = name;
    field.buffer = {kind, 0};
    return field;
  };
  launch.params.push_back(
      {"Args", {pointer("in", BufferKind::kInput), pointer("out", BufferKind::kOutput), pointer("words", BufferKind::kWorkspace)}});
  recipe.kernels.push_back(launch);
  return recipe;
}

}  // namespace

llvm::ArrayRef<Planted> planted_bugs() { return kPlanted; }

std::string run_planted(const Planted& planted, bool bug, std::uint64_t seed, llvm::StringRef sanitize) {
  auto artifact = host_builder().get({"planted", source_of(planted, bug), "{}"}, sanitize);
  if (!artifact) return take_error_facts(artifact.takeError()).message;
  const auto program = value_of(HostProgram::create(recipe_of(planted), {*artifact}));
  std::vector<std::int32_t> in(64);
  for (std::int32_t i = 0; i < 64; ++i) in[static_cast<std::size_t>(i)] = 100 + i;
  const llvm::ArrayRef<std::byte> bytes(reinterpret_cast<const std::byte*>(in.data()), 256);
  HostRunOptions options;
  options.execute.seed = seed;
  options.execute.time_limit_s = 1.0;
  auto result = program->run({bytes}, {}, options);
  if (result) return "";
  return take_error_facts(result.takeError()).message;
}

}  // namespace tilewright::tests
