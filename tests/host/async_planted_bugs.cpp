#include "tests/host/async_planted.h"

namespace tilewright::tests {
namespace {

constexpr AsyncPlanted kAsyncPlanted[] = {
    {"cp.async: missing wait",
     "ptx::cp_async_ca<4>(s + i, in + i); ptx::cp_async_commit_group(); if (!BUG) ptx::cp_async_wait_group<0>();"
     "__syncthreads(); out[i] = s[i];",
     "which cp.async in flight writes"},
    {"cp.async: missing commit",
     "ptx::cp_async_ca<4>(s + i, in + i); if (!BUG) ptx::cp_async_commit_group(); ptx::cp_async_wait_group<0>();"
     "__syncthreads(); out[i] = s[i];",
     "which cp.async in flight writes"},
    {"cp.async: wrong wait_group count",
     "for (int k = 0; k < 2; ++k) { ptx::cp_async_ca<8>(s + 128 * k + 2 * i, in + (k == 0 ? 2 * (i & 31) : 0));"
     "ptx::cp_async_commit_group(); }"
     "ptx::cp_async_wait_group<1 + BUG>(); __syncthreads(); out[i] = s[i]; ptx::cp_async_wait_all();",
     "which cp.async in flight writes"},
    {"cp.async: missing barrier after the wait",
     "ptx::cp_async_ca<4>(s + i, in + i); ptx::cp_async_wait_all(); if (!BUG) __syncthreads();"
     "const int v = s[63 - i]; __syncthreads(); s[63 - i] = v; __syncthreads(); out[i] = s[i];",
     "with no barrier between them|which cp.async in flight writes|which nobody has written"},
    {"cp.async: source bytes that are left out are not read, and zero",
     "if (i < 4) { ptx::cp_async_cg(s + 4 * i, in + 1024 - 8 - 4 * BUG + 4 * (i & 1) + 4 * BUG * 2, i == 3 ? 8u : 16u);"
     "ptx::cp_async_wait_all(); if (i == 3 && (s[14] != 0 || s[15] != 0 || s[13] != in[1021])) __trap(); } out[i] = in[i];",
     "past its end|past the end"},
    {"cp.async: write to where it writes",
     "ptx::cp_async_ca<16>(s + 4 * i, in + 4 * i); if (BUG) s[4 * i] = 0; ptx::cp_async_wait_all(); s[4 * i] = in[i]; out[i] = s[4 * i];",
     "which cp.async in flight writes"},
    {"cp.async: misaligned", "ptx::cp_async_ca<8>(s + 2 * i, in + 2 * i + BUG); ptx::cp_async_wait_all(); out[i] = in[i];",
     "is not a multiple of the size"},

    {"bulk: missing mbarrier wait",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, 256); ptx::cp_async_bulk_shared_global(s, in, 256, b); }"
     "if (!BUG || i != 40) wait(b, 0); out[i] = s[i]; __syncthreads();",
     "which cp.async.bulk in flight writes|with no barrier between them|which nobody has written"},
    {"bulk: wrong parity",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "for (u32 k = 0; k < 2; ++k) { if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, 128); ptx::cp_async_bulk_shared_global(s, in + 32 * k, "
     "128, "
     "b); } wait(b, BUG ? 0 : k); if (static_cast<u32>(i) / 32 == k) out[i] = s[i % 32]; __syncthreads(); }",
     "in flight writes|with no barrier between them"},
    {"bulk: expect_tx too large",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, 256 + 16 * BUG); ptx::cp_async_bulk_shared_global(s, in, 256, b); }"
     "wait(b, 0); out[i] = s[i];",
     "lacks 0 of 1 arrivals and 16 bytes"},
    {"bulk: expect_tx too small for one copy",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, 256 - 16 * BUG); ptx::cp_async_bulk_shared_global(s, in, 256, b); }"
     "wait(b, 0); out[i] = s[i];",
     "lacks 0 of 1 arrivals and -16 bytes"},
    {"bulk: expect_tx too small for two copies",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, BUG ? 128 : 256); ptx::cp_async_bulk_shared_global(s, in, 128, b);"
     "ptx::cp_async_bulk_shared_global(s + 32, in + 32, 128, b); } wait(b, 0); out[i] = s[i]; __syncthreads();",
     "in flight writes|which nobody has written"},
    {"bulk: try_wait that is not repeated",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, 256); ptx::cp_async_bulk_shared_global(s, in, 256, b); }"
     "if (BUG) ptx::mbarrier_try_wait_parity(b, 0); else wait(b, 0); out[i] = s[i]; __syncthreads();",
     "in flight writes|with no barrier between them|which nobody has written"},
    {"bulk: mbarrier without a fence after its initialisation",
     "if (i == 0) { ptx::mbarrier_init(b, 1); if (!BUG) ptx::fence_mbarrier_init(); } __syncthreads();"
     "if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, 256); ptx::cp_async_bulk_shared_global(s, in, 256, b); } wait(b, 0); out[i] = s[i];",
     "initialised without a fence.mbarrier_init"},
    {"bulk: missing fence.proxy.async before a store",
     "s[i] = in[i]; if (!BUG) ptx::fence_proxy_async(); __syncthreads();"
     "if (i == 0) { ptx::cp_async_bulk_global_shared(out, s, 256); ptx::cp_async_bulk_commit_group(); ptx::cp_async_bulk_wait_group<0>(); "
     "}",
     "written without a fence.proxy.async since"},
    {"bulk: block that ends before its store has been read",
     "s[i] = in[i]; ptx::fence_proxy_async(); __syncthreads();"
     "if (i == 0) { ptx::cp_async_bulk_global_shared(out, s, 256); ptx::cp_async_bulk_commit_group();"
     "if (!BUG) ptx::cp_async_bulk_wait_group_read<0>(); }",
     "ends while cp.async.bulk of thread 0 is in flight"},
    {"bulk: store's source written again too early",
     "s[i] = in[i]; ptx::fence_proxy_async(); __syncthreads();"
     "if (i == 0) { ptx::cp_async_bulk_global_shared(out, s, 256); ptx::cp_async_bulk_commit_group();"
     "if (!BUG) ptx::cp_async_bulk_wait_group_read<0>(); s[5] = 0; ptx::cp_async_bulk_wait_group<0>(); }",
     "which cp.async.bulk in flight reads"},
    {"bulk: size that is no multiple of 16",
     "s[i] = in[i]; ptx::fence_proxy_async(); __syncthreads();"
     "if (i == 0) { ptx::cp_async_bulk_global_shared(out, s, 256 - 4 * BUG); ptx::cp_async_bulk_commit_group();"
     "ptx::cp_async_bulk_wait_group<0>(); }",
     "the size is not a multiple of 16"},

    {"mbarrier: wait that is never satisfied",
     "if (i == 0) ptx::mbarrier_init(b, 63 + BUG * 2); __syncthreads(); if (i > 0) ptx::mbarrier_arrive(b); if (i == 0) s[0] = 0;"
     "if (i == 0) wait(b, 0); out[i] = in[i];",
     "deadlock: no thread of the block can run: thread 0: wait at mbarrier.try_wait.parity 0: the phase lacks 2 of 65 arrivals|deadlock"},
    {"mbarrier: one arrival too many",
     "if (i == 0) ptx::mbarrier_init(b, 64); __syncthreads(); ptx::mbarrier_arrive(b); wait(b, 0);"
     "if (BUG) { for (int k = 0; k < 2; ++k) ptx::mbarrier_arrive(b); } out[i] = in[i];",
     "deadlock|more arrivals", 64},
    {"mbarrier: test_wait in a loop orders memory",
     "if (i == 0) ptx::mbarrier_init(b, 64); __syncthreads(); s[i] = in[63 - i]; if (!BUG) ptx::mbarrier_arrive(b);"
     "while (!BUG && !ptx::mbarrier_test_wait_parity(b, 0)) {} out[i] = s[63 - i]; __syncthreads();",
     "with no barrier between them|which nobody has written"},
    {"mbarrier: not initialised",
     "if (i == 0 && !BUG) ptx::mbarrier_init(b, 64); __syncthreads(); ptx::mbarrier_arrive(b); out[i] = in[i];",
     "where no mbarrier has been initialised|which nobody has written"},
    {"mbarrier: written as plain memory",
     "if (i == 0) { ptx::mbarrier_init(b, 1); if (!BUG) ptx::mbarrier_inval(b); b[0] = 0; } out[i] = in[i];", "which is an mbarrier"},
    {"named barrier: a consumer that does not wait",
     "if (i < 32) { s[i] = in[i]; s[i + 32] = in[i + 32]; ptx::bar_arrive(1, 64); } else { if (!BUG) ptx::bar_sync(1, 64);"
     "else ptx::bar_arrive(1, 64); out[i] = s[i]; out[i - 32] = s[i - 32]; }",
     "with no barrier between them|which nobody has written"},

    {"tensor: load and store with the swizzle undone by hand",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "const int at[2] = {0, 0}; if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, 1024);"
     "ptx::cp_async_bulk_tensor_shared_global(s, &args.in_map, at, b); } wait(b, 0);"
     "const int row = i / 32, column = i % 32; out[i] = s[32 * row + (BUG ? column : column ^ (row & 7) << 2)];",
     "wrong output", 64, 1, 32, TensorMapSwizzle::k128B},
    {"tensor: 64 bytes of swizzle",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "const int at[2] = {0, 0}, next[2] = {16, 0}; if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, BUG ? 512 : 1024);"
     "ptx::cp_async_bulk_tensor_shared_global(s, &args.in_map, at, b);"
     "ptx::cp_async_bulk_tensor_shared_global(s + 128, &args.in_map, next, b); } wait(b, 0);"
     "const int row = i / 32, column = i % 16; out[i] = s[128 * (i % 32 / 16) + 16 * row + (column ^ (row / 2 & 3) << 2)]; "
     "__syncthreads();",
     "in flight writes|with no barrier between them|which nobody has written", 64, 1, 16, TensorMapSwizzle::k64B},
    {"tensor: zeros outside of the tensor, which count",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "const int at[2] = {-4, -1}; if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, BUG ? 7 * 4 * 4 : 256);"
     "ptx::cp_async_bulk_tensor_shared_global(s, &args.in_map, at, b); } wait(b, 0);"
     "if (s[i] != (i < 8 || i % 8 < 4 ? 0 : in[(i / 8 - 1) * 32 + i % 8 - 4])) __trap(); out[i] = in[i];",
     "bytes of transactions"},
    {"tensor: store through the swizzle clips at the tensor's end",
     "for (int k = i; k < 256; k += 64) { const int row = k / 32, column = k % 32; s[32 * row + (column ^ (row & 7) << 2)] = in[row % 4 * "
     "32 + column]; }"
     "if (!BUG) ptx::fence_proxy_async(); __syncthreads();"
     "const int at[2] = {0, 0}, end[2] = {0, 28}; if (i == 0) { ptx::cp_async_bulk_tensor_global_shared(&args.out_map, at, s);"
     "ptx::cp_async_bulk_tensor_global_shared(&args.out_map, end, s); ptx::cp_async_bulk_commit_group(); "
     "ptx::cp_async_bulk_wait_group<0>(); }",
     "written without a fence.proxy.async since", 64, 1, 32, TensorMapSwizzle::k128B},
    {"tensor: shared address off the swizzle's repeat",
     "if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init(); } __syncthreads();"
     "const int at[2] = {0, 0}; if (i == 0) { ptx::mbarrier_arrive_expect_tx(b, 1024);"
     "ptx::cp_async_bulk_tensor_shared_global(s + 32 * BUG, &args.in_map, at, b); } wait(b, 0); out[i] = in[i];",
     "is not a multiple of 128 or of the swizzle's repeat", 64, 1, 32, TensorMapSwizzle::k128B},

    {"ldmatrix: rows that another warp has just written",
     "if (i >= 32) { for (int k = i - 32; k < 64; k += 32) s[k] = in[k]; } if (!BUG) __syncthreads();"
     "u32 w[2]; if (i < 32) { ptx::ldmatrix_x2(w, s + 4 * (i % 16)); out[i / 4 * 4 + i % 4] = static_cast<int>(w[0]);"
     "out[32 + i / 4 * 4 + i % 4] = static_cast<int>(w[1]); } __syncthreads();",
     "with no barrier between them|which nobody has written"},
    {"stmatrix and ldmatrix, transposed twice",
     "if (i < 32) { u32 w[4] = {static_cast<u32>(in[i]), static_cast<u32>(in[i + 32]), 7u, 8u}, v[4]; ptx::stmatrix_x4_trans(s + 4 * i, w);"
     "if (BUG) ptx::ldmatrix_x4(v, s + 4 * i); else { __syncwarp(); ptx::ldmatrix_x4_trans(v, s + 4 * i); }"
     "out[i] = static_cast<int>(v[0]); out[i + 32] = static_cast<int>(v[1]); if (v[2] != 7u || v[3] != 8u) __trap(); }",
     "__trap|wrong output|with no barrier between them|which nobody has written"},

    {"cluster: missing barrier before remote access",
     "const u32 rank = ptx::cluster_ctarank(); s[i] = in[64 * rank + i];"
     "if (!BUG) { ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait(); } else __syncthreads();"
     "const u32 other = (rank + 1) % ptx::cluster_nctarank();"
     "out[64 * other + i] = static_cast<int>(ptx::ld_shared_cluster_u32(ptx::mapa(s + i, other)));"
     "ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait();",
     "with no barrier between them|which nobody has written|which has ended", 64, 2},
    {"cluster: block that ends while others use its memory",
     "const u32 rank = ptx::cluster_ctarank(); s[i] = in[64 * rank + i]; ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait();"
     "for (int k = 0; k < 4 + 400 * BUG * static_cast<int>(rank); ++k) __syncthreads();"
     "out[64 * rank + i] = static_cast<int>(ptx::ld_shared_cluster_u32(ptx::mapa(s + i, 0))) + 64 * static_cast<int>(rank);"
     "if (!BUG) { ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait(); }",
     "which has ended", 64, 2},
    {"cluster: relaxed arrival orders no memory",
     "const u32 rank = ptx::cluster_ctarank(); s[i] = in[64 * rank + i];"
     "if (BUG) ptx::barrier_cluster_arrive_relaxed(); else ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait();"
     "out[64 * (rank ^ 1) + i] = static_cast<int>(ptx::ld_shared_cluster_u32(ptx::mapa(s + i, rank ^ 1)));"
     "ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait();",
     "with no barrier between them", 64, 2},
    {"cluster: remote mbarrier and stores that it counts",
     "const u32 rank = ptx::cluster_ctarank(); if (i == 0) { ptx::mbarrier_init(b, 1); ptx::fence_mbarrier_init();"
     "ptx::mbarrier_arrive_expect_tx(b, 256); } ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait();"
     "ptx::st_async_u32(ptx::mapa(s + i, rank ^ 1), static_cast<u32>(in[64 * (rank ^ 1) + i]), static_cast<u64*>(ptx::mapa(b, rank ^ 1)));"
     "if (!BUG) wait(b, 0); out[64 * rank + i] = s[i]; ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait();",
     "st.async in flight writes|with no barrier between them|which nobody has written", 64, 2},
    {"cluster: remote arrivals, and each block's own variables",
     "__shared__ int mine[64]; const u32 rank = ptx::cluster_ctarank(); mine[i] = in[64 * rank + i];"
     "if (i == 0) { ptx::mbarrier_init(b, 64 + BUG); ptx::fence_mbarrier_init(); } ptx::barrier_cluster_arrive(); "
     "ptx::barrier_cluster_wait();"
     "ptx::mbarrier_arrive_cluster(static_cast<u64*>(ptx::mapa(b, rank ^ 1))); while (!ptx::mbarrier_try_wait_parity_cluster(b, 0)) {}"
     "out[64 * rank + i] = mine[i]; ptx::barrier_cluster_arrive(); ptx::barrier_cluster_wait();",
     "deadlock: no thread of the block can run: block 0 of the cluster", 64, 2},
    {"cluster: address of a shared variable in another block",
     "__shared__ int mine[64]; mine[i] = in[i]; if (BUG) ptx::mapa(mine, 1); out[64 * blockIdx.x + i] = in[64 * blockIdx.x + i];"
     "ptx::griddepcontrol_wait(); ptx::griddepcontrol_launch_dependents();",
     "take dynamic shared memory", 64, 2},
};

}  // namespace

llvm::ArrayRef<AsyncPlanted> async_planted_bugs() { return kAsyncPlanted; }

}  // namespace tilewright::tests
