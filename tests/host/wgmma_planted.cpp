#include "tests/host/async_planted.h"

namespace tilewright::tests {
namespace {

// A[m, k] and B[n, k] are small integers, so that every sum is exact; A from registers and from shared memory in one group, all swizzles.
#define TW_FILL                                                                                    \
  "const u32 g = i % 32 / 4, t = i % 4, warp = i / 32; (void)g, (void)t, (void)warp;"              \
  "const auto a_of = [](u32 m, u32 k) { return static_cast<float>((m + 2 * k) % 5) - 2.0f; };"     \
  "const auto b_of = [](u32 n, u32 k) { return static_cast<float>((3 * n + 5 * k) % 7) - 3.0f; };" \
  "const auto sum_of = [&](u32 m, u32 n, u32 depth) { float sum = 0.0f;"                           \
  "for (u32 k = 0; k < depth; ++k) sum += a_of(m, k) * b_of(n, k); return sum; };"                 \
  "const auto bits = [](float x) { return __builtin_bit_cast(u32, x); };"                          \
  "const auto twisted = [](u32 byte, u32 code) { return byte ^ (byte >> 3 & (code == 0 ? 0u : (1u << (4 - code)) - 1) << 4); };"

// One product of tf32, A in registers, B without swizzle.
#define TW_SMALL                                                                                                  \
  TW_FILL                                                                                                         \
  "for (u32 e = i; e < 192; e += 128) { const u32 n = e / 8, k = e % 8;"                                          \
  "s[(n % 8 * 16 + n / 8 * 256 + k / 4 * 128 + k % 4 * 4) / 4] = static_cast<int>(bits(b_of(n, k))); }"           \
  "u32 a[4] = {bits(a_of(16 * warp + g, t)), bits(a_of(16 * warp + g + 8, t)), bits(a_of(16 * warp + g, t + 4))," \
  "bits(a_of(16 * warp + g + 8, t + 4))}; float d[12]; for (float& x : d) x = 1.0f;"
#define TW_RIGHT                 \
  "for (u32 e = 0; e < 12; ++e)" \
  "if (!(d[e] == 1.0f + sum_of(16 * warp + g + 8 * (e / 2 % 2), e / 4 * 8 + 2 * t + e % 2, 8))) __trap(); out[i] = in[i];"

constexpr AsyncPlanted kWgmmaPlanted[] = {
    {"wgmma: tf32, A from registers and shared memory, all swizzles",
     TW_FILL
     "for (u32 code = 0; code < 4; ++code) { const u32 w = code == 0 ? 16u : 16u << (4 - code);"
     "const auto at = [&](u32 row, u32 k) { return twisted(code == 0 ? row % 8 * 16 + row / 8 * 256 + k / 4 * 128 + k % 4 * 4 : row * w + "
     "k * 4, "
     "code) / 4; };"
     "for (u32 e = i; e < 512; e += 128) s[at(e / 8, e % 8)] = static_cast<int>(bits(a_of(e / 8, e % 8)) | 0x1fffu);"
     "for (u32 e = i; e < 192; e += 128) s[2048 + at(e / 8, e % 8)] = static_cast<int>(bits(b_of(e / 8, e % 8)));"
     "ptx::fence_proxy_async(); __syncthreads(); float d[12]; for (float& x : d) x = 1.0f;"
     "u32 a[4]; for (u32 e = 0; e < 4; ++e) a[e] = bits(a_of(16 * warp + g + 8 * (e % 2), t + 4 * (e / 2)));"
     "const u32 stride = code == 0 ? 256 : 8 * w; const WgmmaSwizzle swizzle = static_cast<WgmmaSwizzle>(code);"
     "const u64 ad = ptx::wgmma_descriptor(s, 128, stride, swizzle), bd = ptx::wgmma_descriptor(s + 2048, 128, stride, swizzle);"
     "ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_mma_async_tf32<24>(d, ad, bd, true);"
     "ptx::wgmma_commit_group(); if (!BUG) ptx::wgmma_wait_group<0>(); ptx::wgmma_keep_order(d);"
     "for (u32 e = 0; e < 12; ++e) if (!(d[e] == 1.0f + 2.0f * sum_of(16 * warp + g + 8 * (e / 2 % 2), e / 4 * 8 + 2 * t + e % 2, 8))) "
     "__trap();"
     "__syncthreads(); } out[i] = in[i];",
     "accumulators are used while in flight", 128},
    {"wgmma: f16 and bf16, both majors, all swizzles",
     TW_FILL
     "u16* const h = reinterpret_cast<u16*>(s);"
     "const auto half = [](bool f16, float x) { return f16 ? ptx::cvt_rn_f16_f32(x) : ptx::cvt_rn_bf16_f32(x); };"
     "for (u32 round = 0; round < 16; ++round) { const u32 code = round / 4; const bool mn = round % 4 / 2, f16 = round % 2;"
     "const u32 w = code == 0 ? 16u : 16u << (4 - code);"
     "const auto at = [&](u32 row, u32 k) { return twisted("
     "!mn ? (code == 0 ? row % 8 * 16 + row / 8 * 256 + k / 8 * 128 + k % 8 * 2 : row * w + k * 2)"
     ": code == 0 ? row % 8 * 2 + k % 8 * 16 + row / 8 * 256 + k / 8 * 128"
     ": row % (w / 2) * 2 + k % 8 * w + row / (w / 2) * 16 * w + k / 8 * 8 * w, code) / 2; };"
     "for (u32 e = i; e < 1024; e += 128) h[at(e / 16, e % 16)] = half(f16, a_of(e / 16, e % 16));"
     "for (u32 e = i; e < 384; e += 128) h[4096 + at(e / 16, e % 16)] = half(f16, b_of(e / 16, e % 16));"
     "if (!BUG) ptx::fence_proxy_async(); __syncthreads(); float d[12]; for (float& x : d) x = 7.0f;"
     "u32 a[4]; for (u32 e = 0; e < 4; ++e) { const u32 m = 16 * warp + g + 8 * (e % 2), k = 2 * t + 8 * (e / 2);"
     "a[e] = half(f16, a_of(m, k)) | static_cast<u32>(half(f16, a_of(m, k + 1))) << 16; }"
     "const u32 leading = code == 0 ? 128 : 16 * w, stride = code == 0 ? 256 : 8 * w; const WgmmaSwizzle swizzle = "
     "static_cast<WgmmaSwizzle>(code);"
     "const u64 ad = ptx::wgmma_descriptor(s, leading, stride, swizzle), bd = ptx::wgmma_descriptor(s + 2048, leading, stride, swizzle);"
     "ptx::wgmma_fence();"
     "if (f16 && !mn) { ptx::wgmma_mma_async_f16<24>(d, a, bd, false); ptx::wgmma_mma_async_f16<24>(d, ad, bd, true); }"
     "if (f16 && mn) { ptx::wgmma_mma_async_f16<24, 1>(d, a, bd, false); ptx::wgmma_mma_async_f16<24, 1, 1>(d, ad, bd, true); }"
     "if (!f16 && !mn) { ptx::wgmma_mma_async_bf16<24>(d, a, bd, false); ptx::wgmma_mma_async_bf16<24>(d, ad, bd, true); }"
     "if (!f16 && mn) { ptx::wgmma_mma_async_bf16<24, 1>(d, a, bd, false); ptx::wgmma_mma_async_bf16<24, 1, 1>(d, ad, bd, true); }"
     "ptx::wgmma_commit_group(); ptx::wgmma_wait_group<0>(); ptx::wgmma_keep_order(d);"
     "for (u32 e = 0; e < 12; ++e) if (!(d[e] == 2.0f * sum_of(16 * warp + g + 8 * (e / 2 % 2), e / 4 * 8 + 2 * t + e % 2, 16))) __trap();"
     "__syncthreads(); } out[i] = in[i];",
     "written without a fence.proxy.async since", 128},
    {"wgmma: accumulator read before the wait",
     TW_SMALL "ptx::fence_proxy_async(); __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_commit_group();"
              "if (!BUG) ptx::wgmma_wait_group<0>();" TW_RIGHT,
     "__trap", 128},
    {"wgmma: wrong wait_group count",
     TW_SMALL "ptx::fence_proxy_async(); __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_commit_group();"
              "ptx::wgmma_wait_group<BUG>();" TW_RIGHT,
     "__trap", 128},
    {"wgmma: missing commit",
     TW_SMALL "ptx::fence_proxy_async(); __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); if (!BUG) ptx::wgmma_commit_group();"
              "ptx::wgmma_wait_group<0>();" TW_RIGHT,
     "__trap", 128},
    {"wgmma: accumulator written in flight",
     TW_SMALL "ptx::fence_proxy_async(); __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_commit_group(); if (BUG) d[3] = 0.0f;"
              "ptx::wgmma_wait_group<0>();" TW_RIGHT,
     "accumulators were written while in flight", 128},
    {"wgmma: registers of A written in flight",
     TW_SMALL "ptx::fence_proxy_async(); __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_commit_group(); if (BUG) a[2] = 5;"
              "ptx::wgmma_wait_group<0>(); a[2] = 6;" TW_RIGHT,
     "registers of A were written while an instruction that reads them was in flight", 128},
    {"wgmma: missing fence",
     TW_SMALL "ptx::fence_proxy_async(); __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "if (!BUG) ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_commit_group();"
              "ptx::wgmma_wait_group<0>();" TW_RIGHT,
     "without a wgmma.fence before it", 128},
    {"wgmma: missing fence after accumulators were written",
     TW_SMALL "ptx::fence_proxy_async(); __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "for (int k = 0; k < 2; ++k) { for (float& x : d) x = 1.0f; if (!BUG || k == 0) ptx::wgmma_fence();"
              "ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_commit_group(); ptx::wgmma_wait_group<0>(); }" TW_RIGHT,
     "accumulators that were written without a wgmma.fence since", 128},
    {"wgmma: shared memory that it reads is written in flight",
     TW_SMALL "ptx::fence_proxy_async(); __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_commit_group(); if (BUG) s[i] = 0;"
              "ptx::wgmma_wait_group<0>();" TW_RIGHT,
     "which wgmma.mma_async in flight reads|with no barrier between them", 128},
    {"wgmma: matrix that other warps have just written",
     TW_SMALL "ptx::fence_proxy_async(); if (!BUG) __syncthreads(); const u64 bd = ptx::wgmma_descriptor(s, 128, 256, WgmmaSwizzle::kNone);"
              "ptx::wgmma_fence(); ptx::wgmma_mma_async_tf32<24>(d, a, bd, true); ptx::wgmma_commit_group();"
              "ptx::wgmma_wait_group<0>();" TW_RIGHT,
     "with no barrier between them|which nobody has written|written without a fence.proxy.async|in flight reads", 128},
};

#undef TW_FILL
#undef TW_SMALL
#undef TW_RIGHT

}  // namespace

llvm::ArrayRef<AsyncPlanted> wgmma_planted_bugs() { return kWgmmaPlanted; }

}  // namespace tilewright::tests
