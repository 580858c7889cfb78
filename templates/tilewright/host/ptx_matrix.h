// tilewright/host/ptx_matrix.h
// What ldmatrix and stmatrix of ptx_async.cuh mean on the CPU, written from the PTX ISA.
#pragma once

#include "tilewright/host/abi.h"

namespace tw::ptx {

namespace host_detail {

struct MatrixRow {
  unsigned char* row;  // of the lanes that name one
  u32 words[4];
};

template <int kCount, bool kTransposed, bool kStores>
TW_HOST_PLAIN inline void combine_matrices(void* const* lanes, unsigned) {
  for (u32 lane = 0; lane < 32; ++lane) {
    MatrixRow& mine = *static_cast<MatrixRow*>(lanes[lane]);
    for (u32 m = 0; m < kCount; ++m) {
      for (u32 e = 0; e < 2; ++e) {
        const u32 row = kTransposed ? 2 * (lane % 4) + e : lane / 4, column = kTransposed ? lane / 4 : 2 * (lane % 4) + e;
        unsigned char* const element = static_cast<MatrixRow*>(lanes[8 * m + row])->row + 2 * column;
        auto* const half = reinterpret_cast<unsigned char*>(&mine.words[m]) + 2 * e;
        __builtin_memcpy(kStores ? element : half, kStores ? half : element, 2);
      }
    }
  }
}

template <int kCount, bool kTransposed, bool kStores>
TW_HOST_PLAIN inline void matrices(const void* row, u32 (&words)[kCount], const void* where) {
  constexpr const char* kName = kStores ? "stmatrix" : "ldmatrix";
  MatrixRow mine{static_cast<unsigned char*>(const_cast<void*>(row)), {}};
  if (::tw::host::lane_of_thread() < 8 * kCount)
    ::tw::host::table->access(row, 16, kStores ? ::tw::host::Access::kWrite : ::tw::host::Access::kRead, where);
  for (int i = 0; i < kCount; ++i) mine.words[i] = words[i];
  ::tw::host::table->converge(~0u, combine_matrices<kCount, kTransposed, kStores>, &mine, false, kName, where);
  for (int i = 0; i < kCount; ++i) words[i] = mine.words[i];
}

template <int kCount, bool kTransposed>
TW_HOST_PLAIN inline void load_matrices(u32 (&words)[kCount], const void* row, const void* where) {
  for (u32& word : words) word = 0;
  matrices<kCount, kTransposed, false>(row, words, where);
}

template <int kCount, bool kTransposed>
TW_HOST_PLAIN inline void store_matrices(const void* row, const u32 (&words)[kCount], const void* where) {
  u32 mine[kCount];
  for (int i = 0; i < kCount; ++i) mine[i] = words[i];
  matrices<kCount, kTransposed, true>(row, mine, where);
}

}  // namespace host_detail

TW_HOST_PRIMITIVE void ldmatrix_x1(u32 (&words)[1], const void* row) { host_detail::load_matrices<1, false>(words, row, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void ldmatrix_x1_trans(u32 (&words)[1], const void* row) {
  host_detail::load_matrices<1, true>(words, row, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void ldmatrix_x2(u32 (&words)[2], const void* row) { host_detail::load_matrices<2, false>(words, row, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void ldmatrix_x2_trans(u32 (&words)[2], const void* row) {
  host_detail::load_matrices<2, true>(words, row, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void ldmatrix_x4(u32 (&words)[4], const void* row) { host_detail::load_matrices<4, false>(words, row, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void ldmatrix_x4_trans(u32 (&words)[4], const void* row) {
  host_detail::load_matrices<4, true>(words, row, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void stmatrix_x1(void* row, const u32 (&words)[1]) { host_detail::store_matrices<1, false>(row, words, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void stmatrix_x1_trans(void* row, const u32 (&words)[1]) {
  host_detail::store_matrices<1, true>(row, words, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void stmatrix_x2(void* row, const u32 (&words)[2]) { host_detail::store_matrices<2, false>(row, words, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void stmatrix_x2_trans(void* row, const u32 (&words)[2]) {
  host_detail::store_matrices<2, true>(row, words, TW_HOST_WHERE);
}
TW_HOST_PRIMITIVE void stmatrix_x4(void* row, const u32 (&words)[4]) { host_detail::store_matrices<4, false>(row, words, TW_HOST_WHERE); }
TW_HOST_PRIMITIVE void stmatrix_x4_trans(void* row, const u32 (&words)[4]) {
  host_detail::store_matrices<4, true>(row, words, TW_HOST_WHERE);
}

}  // namespace tw::ptx
