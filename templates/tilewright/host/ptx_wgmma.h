// tilewright/host/ptx_wgmma.h
// What each function of ptx_wgmma.cuh means on the CPU, written from the PTX ISA. A product takes effect at the wait for its group; until
// then the accumulators hold NaN, A's registers are compared with what they were, and shared memory that it reads is in flight. Products
// are exact in double and so, nearly, is their sum, which is rounded to f32 once; the hardware keeps fewer bits while it adds.
//
// A's registers and the accumulators are known by the address of their array: one that is used again before the wait counts as written.
#pragma once

#include "tilewright/host/ptx_async.h"

namespace tw::ptx {

namespace host_detail {

enum class WgmmaType : u32 { kTf32, kF16, kBf16 };

inline constexpr u32 kWgmmaPoison = 0x7fd5a5a5u;  // a NaN
inline constexpr u32 kMostWgmma = 64;             // of a thread that are in flight
inline constexpr u32 kMostWgmmaTiles = 8;         // arrays of accumulators, of a thread
inline constexpr u32 kMostWgmmaWords = 64;        // of such an array

// Operands of one instruction that do not depend on the lane. Majors: 0 is K-major.
struct WgmmaShape {
  u32 n, major_a, major_b;
  WgmmaType type;
};

// One instruction of one lane.
struct WgmmaOp {
  WgmmaShape shape;
  bool accumulate;
  u32 group;
  float* d;
  const u32* registers;  // A's; null: in shared memory
  u32 given[4];          // their contents
  u32 rows[16];          // the lane's two rows of A: 8 words each
  u64 a, b;              // descriptors
  const void* where;
};

struct WgmmaTile {
  float* d;  // null: none
  u32 words, pending;
  WgmmaType type;
  u32 fences;  // that the thread had executed when it was used last
  float value[kMostWgmmaWords];
};

// What a thread keeps until its block has ended.
struct WgmmaThread {
  u32 fences, open_group, count, next_tile;
  WgmmaOp ops[kMostWgmma];
  WgmmaTile tiles[kMostWgmmaTiles];
};

TW_HOST_PLAIN inline WgmmaThread& wgmma_thread() { return *static_cast<WgmmaThread*>(::tw::host::table->memory(sizeof(WgmmaThread))); }

TW_HOST_PLAIN inline u32 wgmma_element_bytes(WgmmaType type) { return type == WgmmaType::kTf32 ? 4 : 2; }

// Address of element (row, k) of a matrix in shared memory; row counts m or n.
TW_HOST_PLAIN inline unsigned char* wgmma_address(u64 descriptor, u32 element_bytes, u32 major, u32 row, u32 k) {
  const auto field = [&](u32 shift) TW_HOST_PLAIN { return static_cast<u32>(descriptor >> shift & 0x3fffu) << 4; };
  const u32 start = field(0), leading = field(16), stride = field(32), code = static_cast<u32>(descriptor >> 62);
  const u32 width = code == 0 ? 16 : 16u << (4 - code);  // 128, 64 and 32 bytes for 1, 2 and 3
  u32 offset = start;
  if (major == 0) {
    const u32 byte = k * element_bytes;
    offset += row % 8 * width + row / 8 * stride + byte / 16 * (code == 0 ? leading : 16) + byte % 16;
  } else {
    const u32 run = width / element_bytes;
    offset +=
        row % run * element_bytes + k % 8 * width + row / run * (code == 0 ? stride : leading) + k / 8 * (code == 0 ? leading : stride);
  }
  const auto base = reinterpret_cast<unsigned long>(::tw::host::table->thread()->dynamic_shared);
  const auto swizzle = code == 0 ? ::tw::host::Swizzle::kNone : static_cast<::tw::host::Swizzle>(4 - code);
  return reinterpret_cast<unsigned char*>(::tw::host::swizzled(base + offset, swizzle));
}

TW_HOST_PLAIN inline void wgmma_check_descriptor(u64 descriptor, const void* where) {
  const u32 start = static_cast<u32>(descriptor & 0x3fffu) << 4, code = static_cast<u32>(descriptor >> 62);
  if ((descriptor >> 49 & 7u) != 0) ::tw::host::table->fail("wgmma: a descriptor with a base offset has no meaning on the CPU", where);
  const u32 width = code == 0 ? 16 : 16u << (4 - code);
  if (code != 0 && start % (8 * width) >= width)
    ::tw::host::table->fail("wgmma: the matrix does not begin at a multiple of its swizzle's repeat", where);
}

TW_HOST_PLAIN inline u32 wgmma_warp() {
  const ::tw::host::Thread& thread = *::tw::host::table->thread();
  const auto i = (thread.thread_idx.z * thread.block_dim.y + thread.thread_idx.y) * thread.block_dim.x + thread.thread_idx.x;
  return i / 32 % 4;
}

// The lane's share of the 16-byte chunks that its warp reads of `rows` rows from `first` on: each is begun or ended.
TW_HOST_PLAIN inline void wgmma_flights(const WgmmaOp& op, u64 descriptor, u32 major, u32 first, u32 rows, bool begins) {
  const u32 bytes = wgmma_element_bytes(op.shape.type), per_chunk = 16 / bytes;
  for (u32 chunk = ::tw::host::lane_of_thread(); chunk < rows * 2; chunk += 32) {
    const u32 row = major == 0 ? chunk / 2 : chunk % (rows / per_chunk) * per_chunk;
    const u32 k = major == 0 ? chunk % 2 * per_chunk : chunk / (rows / per_chunk);
    unsigned char* const address = wgmma_address(descriptor, bytes, major, first + row, k);
    if (begins) {
      ::tw::host::table->flight(address, 16, false, "wgmma.mma_async", op.where);
    } else {
      ::tw::host::table->land(address, 16, false, true, op.where);
    }
  }
}
TW_HOST_PLAIN inline void wgmma_all_flights(const WgmmaOp& op, bool begins) {
  if (op.registers == nullptr) wgmma_flights(op, op.a, op.shape.major_a, 16 * wgmma_warp(), 16, begins);
  wgmma_flights(op, op.b, op.shape.major_b, 0, op.shape.n, begins);
}

// ---- registers in flight

TW_HOST_PLAIN inline bool wgmma_poisoned(const WgmmaTile& tile) {
  for (u32 i = 0; i < tile.words; ++i) {
    if (__builtin_bit_cast(u32, tile.d[i]) != kWgmmaPoison) return false;
  }
  return true;
}

TW_HOST_PLAIN inline void wgmma_check_registers(const WgmmaOp& op, const void* where) {
  if (op.registers != nullptr && __builtin_memcmp(op.registers, op.given, sizeof(op.given)) != 0)
    ::tw::host::table->fail("wgmma: registers of A were written while an instruction that reads them was in flight", where);
}

TW_HOST_PLAIN inline WgmmaTile& wgmma_tile(WgmmaThread& thread, float* d, u32 words, const void* where) {
  for (WgmmaTile& tile : thread.tiles) {
    if (tile.d == d && tile.words == words) return tile;
    if (tile.d == nullptr || d >= tile.d + tile.words || tile.d >= d + words) continue;
    if (tile.pending > 0) ::tw::host::table->fail("wgmma: accumulators overlap with others in flight", where);
    tile.d = nullptr;
  }
  for (u32 i = 0; i < kMostWgmmaTiles; ++i) {
    WgmmaTile& tile = thread.tiles[thread.next_tile++ % kMostWgmmaTiles];
    if (tile.pending > 0) continue;
    tile = WgmmaTile{d, words, 0, WgmmaType::kTf32, thread.fences - 1, {}};
    for (u32 k = 0; k < words; ++k) tile.value[k] = d[k];
    return tile;
  }
  ::tw::host::table->fail("wgmma: more than 8 arrays of accumulators in flight in a thread", where);
  return thread.tiles[0];
}

// Takes the accumulators away from the thread.
TW_HOST_PLAIN inline void wgmma_begin(WgmmaThread& thread, const WgmmaOp& op) {
  const auto* const table = ::tw::host::table;
  if (thread.fences == 0) table->fail("wgmma.mma_async without a wgmma.fence before it", op.where);
  WgmmaTile& tile = wgmma_tile(thread, op.d, op.shape.n / 2, op.where);
  const bool fenced = thread.fences != tile.fences;
  if (tile.pending > 0) {
    if (!wgmma_poisoned(tile)) table->fail("wgmma: accumulators were written while in flight", op.where);
    if (tile.type != op.shape.type && !fenced) table->fail("wgmma.mma_async of another shape without a wgmma.fence before it", op.where);
  } else {
    if (!fenced && __builtin_memcmp(tile.value, tile.d, tile.words * 4) != 0)
      table->fail("wgmma.mma_async of accumulators that were written without a wgmma.fence since", op.where);
    for (u32 i = 0; i < tile.words; ++i) {
      tile.value[i] = tile.d[i];
      tile.d[i] = __builtin_bit_cast(float, kWgmmaPoison);
    }
  }
  ++tile.pending;
  tile.type = op.shape.type;
  tile.fences = thread.fences;
}

// ---- the product

struct WgmmaRows {
  u32 words[4];  // of the lane
  u32 rows[16];  // of its rows g and g + 8, whose words are those of four lanes
};
TW_HOST_PLAIN inline void combine_wgmma(void* const* lanes, unsigned) {
  for (u32 lane = 0; lane < 32; ++lane) {
    WgmmaRows& mine = *static_cast<WgmmaRows*>(lanes[lane]);
    for (u32 i = 0; i < 16; ++i) {
      const WgmmaRows& other = *static_cast<const WgmmaRows*>(lanes[lane / 4 * 4 + i % 4]);
      mine.rows[i] = other.words[i % 8 / 4 * 2 + i / 8];
    }
  }
}

TW_HOST_PLAIN inline double wgmma_value(WgmmaType type, const void* element) {
  u32 word = 0;
  __builtin_memcpy(&word, element, type == WgmmaType::kTf32 ? 4 : 2);
  if (type == WgmmaType::kTf32) return tf32_value(word);
  return static_cast<double>(type == WgmmaType::kF16 ? widen_f16(static_cast<u16>(word)) : widen_bf16(static_cast<u16>(word)));
}

TW_HOST_PLAIN inline void wgmma_multiply(const WgmmaOp& op, float* value) {
  const u32 bytes = wgmma_element_bytes(op.shape.type), depth = 32 / bytes;
  const u32 lane = ::tw::host::lane_of_thread(), g = lane / 4, t = lane % 4;
  double a[2][16];
  for (u32 half = 0; half < 2; ++half) {
    for (u32 k = 0; k < depth; ++k) {
      const void* const element = op.registers != nullptr
                                      ? static_cast<const void*>(reinterpret_cast<const unsigned char*>(op.rows + 8 * half) + k * bytes)
                                      : wgmma_address(op.a, bytes, op.shape.major_a, 16 * wgmma_warp() + 8 * half + g, k);
      a[half][k] = wgmma_value(op.shape.type, element);
    }
  }
  for (u32 i = 0; i < op.shape.n / 4; ++i) {
    const u32 column = i / 2 * 8 + 2 * t + i % 2;
    double sum[2] = {0.0, 0.0};
    for (u32 half = 0; op.accumulate && half < 2; ++half) sum[half] = static_cast<double>(value[i / 2 * 4 + 2 * half + i % 2]);
    for (u32 k = 0; k < depth; ++k) {
      const double b = wgmma_value(op.shape.type, wgmma_address(op.b, bytes, op.shape.major_b, column, k));
      for (u32 half = 0; half < 2; ++half) sum[half] += a[half][k] * b;
    }
    for (u32 half = 0; half < 2; ++half) value[i / 2 * 4 + 2 * half + i % 2] = static_cast<float>(sum[half]);
  }
}

TW_HOST_PLAIN inline void wgmma_issue(WgmmaOp op) {
  const auto* const table = ::tw::host::table;
  WgmmaThread& thread = wgmma_thread();
  const ::tw::host::Dim3 size = table->thread()->block_dim, at = table->thread()->thread_idx;
  const auto warpgroup = ((at.z * size.y + at.y) * size.x + at.x) / 128;
  if ((warpgroup + 1) * 128 > size.x * size.y * size.z)
    table->fail("wgmma.mma_async: the warps at the end of the block are no whole warpgroup", op.where);
  if (thread.count == kMostWgmma) table->fail("wgmma: more than 64 instructions in flight in a thread", op.where);
  op.group = thread.open_group;
  for (u32 i = 0; i < thread.count; ++i) wgmma_check_registers(thread.ops[i], op.where);
  if (op.registers == nullptr) wgmma_check_descriptor(op.a, op.where);
  wgmma_check_descriptor(op.b, op.where);
  wgmma_begin(thread, op);
  wgmma_all_flights(op, true);
  // The warp is one: no lane goes on before all have come.
  WgmmaRows rows{{op.given[0], op.given[1], op.given[2], op.given[3]}, {}};
  table->converge(~0u, combine_wgmma, &rows, false, "wgmma.mma_async", op.where);
  for (u32 i = 0; i < 16; ++i) op.rows[i] = rows.rows[i];
  thread.ops[thread.count++] = op;
}

// Ends the oldest instruction.
TW_HOST_PLAIN inline void wgmma_end(WgmmaThread& thread, const void* where) {
  const WgmmaOp op = thread.ops[0];
  for (u32 i = 1; i < thread.count; ++i) thread.ops[i - 1] = thread.ops[i];
  --thread.count;
  wgmma_check_registers(op, where);
  WgmmaTile& tile = wgmma_tile(thread, op.d, op.shape.n / 2, where);
  if (!wgmma_poisoned(tile)) ::tw::host::table->fail("wgmma: accumulators were written while in flight", where);
  wgmma_multiply(op, tile.value);
  wgmma_all_flights(op, false);
  if (--tile.pending > 0) return;
  tile.fences = thread.fences;
  for (u32 i = 0; i < tile.words; ++i) tile.d[i] = tile.value[i];
}

TW_HOST_PLAIN inline void wgmma_settle(u32 keep, const void* where) {
  WgmmaThread& thread = wgmma_thread();
  while (thread.count > 0 && thread.ops[0].group + keep < thread.open_group) wgmma_end(thread, where);
  // What the other lanes' shares of the reads were is over too, for any lane that writes there.
  ::tw::host::Nothing nothing;
  ::tw::host::table->converge(~0u, ::tw::host::combine_nothing, &nothing, true, "wgmma.wait_group", where);
}

template <int kN, WgmmaType kType, int kMajorA, int kMajorB>
TW_HOST_PLAIN inline void wgmma(float* d, const u32* registers, u64 a, u64 b, bool accumulate, const void* where) {
  static_assert(kN == 8 || kN == 16 || kN == 24 || kN == 32 || kN == 40 || kN == 48 || kN == 64 || kN == 72 || kN == 96 || kN == 128);
  WgmmaOp op{{kN, kMajorA, kMajorB, kType}, accumulate, 0, d, registers, {}, {}, a, b, where};
  for (int i = 0; registers != nullptr && i < 4; ++i) op.given[i] = registers[i];
  wgmma_issue(op);
}

}  // namespace host_detail

// The address field counts from the start of dynamic shared memory.
TW_HOST_PRIMITIVE u64 wgmma_descriptor(const void* shared, u32 leading_bytes, u32 stride_bytes, WgmmaSwizzle swizzle) {
  const ::tw::host::Thread& thread = *::tw::host::table->thread();
  const auto offset = reinterpret_cast<unsigned long>(shared) - reinterpret_cast<unsigned long>(thread.dynamic_shared);
  if (offset >= thread.dynamic_shared_bytes)
    ::tw::host::table->fail("wgmma: on the CPU matrices lie in dynamic shared memory alone", TW_HOST_WHERE);
  if (offset % 16 != 0) ::tw::host::table->fail("wgmma: a matrix's address is not a multiple of 16", TW_HOST_WHERE);
  return u64{(offset & 0x3ffffu) >> 4} | u64{(leading_bytes & 0x3ffffu) >> 4} << 16 | u64{(stride_bytes & 0x3ffffu) >> 4} << 32 |
         static_cast<u64>(swizzle) << 62;
}
TW_HOST_PRIMITIVE void wgmma_fence() { ++host_detail::wgmma_thread().fences; }
TW_HOST_PRIMITIVE void wgmma_commit_group() { ++host_detail::wgmma_thread().open_group; }
template <int kKeep>
TW_HOST_PRIMITIVE void wgmma_wait_group() {
  host_detail::wgmma_settle(kKeep, TW_HOST_WHERE);
}
template <int kCount>
TW_HOST_PRIMITIVE void wgmma_keep_order(float (&registers)[kCount]) {
  for (const host_detail::WgmmaTile& tile : host_detail::wgmma_thread().tiles) {
    if (tile.pending > 0 && tile.d < registers + kCount && registers < tile.d + tile.words)
      ::tw::host::table->fail("wgmma: accumulators are used while in flight", TW_HOST_WHERE);
  }
}

template <int kN>
TW_HOST_PRIMITIVE void wgmma_mma_async_tf32(float (&d)[kN / 2], const u32 (&a)[4], u64 b, bool accumulate) {
  host_detail::wgmma<kN, host_detail::WgmmaType::kTf32, 0, 0>(d, a, 0, b, accumulate, TW_HOST_WHERE);
}
template <int kN>
TW_HOST_PRIMITIVE void wgmma_mma_async_tf32(float (&d)[kN / 2], u64 a, u64 b, bool accumulate) {
  host_detail::wgmma<kN, host_detail::WgmmaType::kTf32, 0, 0>(d, nullptr, a, b, accumulate, TW_HOST_WHERE);
}
template <int kN, int kMajorB = 0>
TW_HOST_PRIMITIVE void wgmma_mma_async_f16(float (&d)[kN / 2], const u32 (&a)[4], u64 b, bool accumulate) {
  host_detail::wgmma<kN, host_detail::WgmmaType::kF16, 0, kMajorB>(d, a, 0, b, accumulate, TW_HOST_WHERE);
}
template <int kN, int kMajorA = 0, int kMajorB = 0>
TW_HOST_PRIMITIVE void wgmma_mma_async_f16(float (&d)[kN / 2], u64 a, u64 b, bool accumulate) {
  host_detail::wgmma<kN, host_detail::WgmmaType::kF16, kMajorA, kMajorB>(d, nullptr, a, b, accumulate, TW_HOST_WHERE);
}
template <int kN, int kMajorB = 0>
TW_HOST_PRIMITIVE void wgmma_mma_async_bf16(float (&d)[kN / 2], const u32 (&a)[4], u64 b, bool accumulate) {
  host_detail::wgmma<kN, host_detail::WgmmaType::kBf16, 0, kMajorB>(d, a, 0, b, accumulate, TW_HOST_WHERE);
}
template <int kN, int kMajorA = 0, int kMajorB = 0>
TW_HOST_PRIMITIVE void wgmma_mma_async_bf16(float (&d)[kN / 2], u64 a, u64 b, bool accumulate) {
  host_detail::wgmma<kN, host_detail::WgmmaType::kBf16, kMajorA, kMajorB>(d, nullptr, a, b, accumulate, TW_HOST_WHERE);
}

}  // namespace tw::ptx
