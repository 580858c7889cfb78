// One use of each function of ptx_async.cuh, for the compiler alone.
#include "tilewright/ptx_async.cuh"

using namespace tw;

struct Args {
  TensorMap map;
  const int* in;
  int* out;
};

__device__ void copies(const Args& args, int* s, u64* b) {
  ptx::cp_async_ca<4>(s, args.in);
  ptx::cp_async_ca<8>(s, args.in, 4);
  ptx::cp_async_ca<16>(s, args.in, 12);
  ptx::cp_async_cg(s + 4, args.in + 4, 8);
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<1>();
  ptx::cp_async_wait_all();
  ptx::mbarrier_init(b, 2);
  ptx::fence_mbarrier_init();
  ptx::fence_proxy_async();
  ptx::mbarrier_expect_tx(b, 64);
  ptx::mbarrier_arrive(b);
  ptx::mbarrier_arrive_expect_tx(b, 64);
  ptx::cp_async_bulk_shared_global(s, args.in, 128, b);
  while (!ptx::mbarrier_test_wait_parity(b, 0)) {
  }
  while (!ptx::mbarrier_try_wait_parity(b, 1)) {
  }
  while (!ptx::mbarrier_try_wait_parity_cluster(b, 1)) {
  }
  ptx::cp_async_bulk_global_shared(args.out, s, 128);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group<0>();
  ptx::cp_async_bulk_wait_group_read<1>();
  ptx::mbarrier_inval(b);
}

template <int kRank>
__device__ void tensor_copies(const TensorMap& map, int* s, u64* b) {
  int at[kRank];
  for (int d = 0; d < kRank; ++d) at[d] = 3 * d;
  ptx::cp_async_bulk_tensor_shared_global(s, &map, at, b);
  ptx::cp_async_bulk_tensor_global_shared(&map, at, s);
}

__device__ void matrices(int* s) {
  u32 one[1], two[2], four[4];
  ptx::ldmatrix_x1(one, s);
  ptx::stmatrix_x1(s, one);
  ptx::ldmatrix_x1_trans(one, s);
  ptx::stmatrix_x1_trans(s, one);
  ptx::ldmatrix_x2(two, s);
  ptx::stmatrix_x2(s, two);
  ptx::ldmatrix_x2_trans(two, s);
  ptx::stmatrix_x2_trans(s, two);
  ptx::ldmatrix_x4(four, s);
  ptx::stmatrix_x4(s, four);
  ptx::ldmatrix_x4_trans(four, s);
  ptx::stmatrix_x4_trans(s, four);
}

extern "C" __global__ void uses(const __grid_constant__ Args args) {
  __shared__ __align__(1024) int s[1024];
  __shared__ u64 b[1];
  ptx::griddepcontrol_wait();
  ptx::prefetch_tensormap(&args.map);
  copies(args, s, b);
  tensor_copies<1>(args.map, s, b);
  tensor_copies<2>(args.map, s, b);
  tensor_copies<3>(args.map, s, b);
  tensor_copies<4>(args.map, s, b);
  tensor_copies<5>(args.map, s, b);
  matrices(s);
  ptx::bar_arrive(1, blockDim.x * 2);
  ptx::bar_sync(2, blockDim.x);
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  const u32 other = (ptx::cluster_ctarank() + 1) % ptx::cluster_nctarank();
  ptx::st_shared_cluster_u32(ptx::mapa(s, other), 1);
  ptx::st_async_u32(ptx::mapa(s + 1, other), 1, static_cast<u64*>(ptx::mapa(b, other)));
  ptx::mbarrier_arrive_cluster(static_cast<u64*>(ptx::mapa(b, other)));
  args.out[0] = static_cast<int>(ptx::ld_shared_cluster_u32(ptx::mapa(s, other)));
  ptx::barrier_cluster_arrive_relaxed();
  ptx::barrier_cluster_wait();
  ptx::griddepcontrol_launch_dependents();
}
