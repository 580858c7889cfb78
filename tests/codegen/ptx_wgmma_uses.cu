// One use of each function of ptx_wgmma.cuh, for the compiler alone.
#include "tilewright/ptx_wgmma.cuh"

using namespace tw;

template <int kN>
__device__ void products(float* out, u64 ad, u64 bd, const u32 (&a)[4]) {
  float d[kN / 2];
  for (float& value : d) value = 0.0f;
  ptx::wgmma_fence();
  ptx::wgmma_mma_async_tf32<kN>(d, a, bd, true);
  ptx::wgmma_mma_async_tf32<kN>(d, ad, bd, true);
  ptx::wgmma_fence();
  ptx::wgmma_mma_async_f16<kN>(d, a, bd, true);
  ptx::wgmma_mma_async_f16<kN, 1>(d, a, bd, true);
  ptx::wgmma_mma_async_f16<kN, 1, 1>(d, ad, bd, true);
  ptx::wgmma_fence();
  ptx::wgmma_mma_async_bf16<kN>(d, a, bd, true);
  ptx::wgmma_fence();
  ptx::wgmma_mma_async_bf16<kN>(d, ad, bd, true);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_keep_order(d);
  for (int i = 0; i < kN / 2; ++i) out[static_cast<int>(threadIdx.x) * kN + i] = d[i];
}

extern "C" __global__ void uses(float* out, u32 seed) {
  __shared__ __align__(1024) u32 s[4096];
  for (u32 i = threadIdx.x; i < 4096; i += blockDim.x) s[i] = seed * i;
  ptx::fence_proxy_async();
  __syncthreads();
  const u32 a[4] = {seed, seed + 1, seed + 2, seed + 3};
  const u64 ad = ptx::wgmma_descriptor(s, 16, 1024, WgmmaSwizzle::k128B), bd = ptx::wgmma_descriptor(s + 2048, 256, 128, WgmmaSwizzle::kNone);
  products<8>(out, ad, bd, a);
  products<16>(out, ad, bd, a);
  products<24>(out, ad, bd, a);
  products<32>(out, ad, bd, a);
  products<40>(out, ad, bd, a);
  products<48>(out, ad, bd, a);
  products<64>(out, ad, bd, a);
  products<72>(out, ad, bd, a);
  products<96>(out, ad, bd, a);
  products<128>(out, ad, bd, a);
}
