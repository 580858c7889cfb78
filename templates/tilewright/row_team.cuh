// tilewright/row_team.cuh
// What a row kernel (row.cuh) is told, and how the threads that share a row read and write it.
#pragma once

#include "tilewright/memory.cuh"
#include "tilewright/monoid.cuh"
#include "tilewright/types.cuh"

namespace tw {

enum class RowKind { kSoftmax, kReduce, kCrossEntropy };
enum class LossReduction { kNone, kSum, kMean };

struct RowConfig {
  RowKind kind = RowKind::kSoftmax;
  Monoid monoid = Monoid::kSum;               // kReduce: of what
  LossReduction loss = LossReduction::kNone;  // kCrossEntropy: over the rows
  bool label_smoothing = false;               // kCrossEntropy: args.label_smoothing counts
  int block_threads = 256;                    // T, a multiple of 32
  int row_threads = 256;                      // L, a power of two up to 32 or a multiple of 32, a divisor of T
  int vector_elems = 1;                       // V, elements of a vector access
  int vectors_per_thread = 4;                 // K, vectors a thread holds
  i64 cols = 0;                               // elements of a row; 0 = in the args
};

struct RowArgs {
  u64* workspace;  // cross entropy with kSum or kMean: finish_words(blocks) words, else unused
  i64 rows;
  i64 cols;
  i64 ignore_index;       // cross entropy
  float label_smoothing;  // cross entropy
  u32 misalignment;       // OR of all operand addresses & 15; 0 lets vectors be used
};

namespace row_detail {

// One thread's share of its row: kVectors vectors of V elements at a time, or, for data that vectors cannot reach, as many single elements
// of the same chunk. Only the accesses differ, so that the arithmetic is in the kernel once.
template <RowConfig kConfig, int kVectorCount, typename HooksType>
struct Team {
  using Hooks = HooksType;
  using Index = typename Hooks::Index;
  using Value = typename Hooks::Value;
  static constexpr int V = kConfig.vector_elems;
  static constexpr int kThreads = kConfig.row_threads;
  static constexpr int kVectors = kVectorCount;
  static constexpr int kElems = kVectors * V;
  static constexpr int kSpan = kThreads * kElems;  // columns of a chunk
  static constexpr int kTeams = kConfig.block_threads / kThreads;
  static constexpr int kWarps = kConfig.block_threads / 32;

  const Hooks& hooks;
  i64 row;     // of this team; may lie behind the last
  Index base;  // of a row that exists, which an idle team reads in its place
  Index cols;
  int lane;
  bool active;   // row exists
  bool vectors;  // uniform: accesses are vectors

  __device__ __forceinline__ Team(const RowArgs& args, const Hooks& h) : hooks(h) {
    const int thread = static_cast<int>(threadIdx.x);
    lane = kTeams == 1 ? thread : thread % kThreads;
    row = static_cast<i64>(blockIdx.x) * kTeams + (kTeams == 1 ? 0 : thread / kThreads);
    active = kTeams == 1 || row < args.rows;
    cols = static_cast<Index>(kConfig.cols > 0 ? kConfig.cols : args.cols);
    base = static_cast<Index>(active ? row : args.rows - 1) * cols;
    vectors = V == 1 || (args.misalignment == 0 && cols % V == 0);
  }

  // Where this thread's vector k, or its single element (k, e), lies in a chunk: threads side by side access what lies side by side.
  __device__ __forceinline__ int vector_at(int k) const { return k * (kThreads * V) + lane * V; }
  __device__ __forceinline__ int single_at(int k, int e) const { return (k * V + e) * kThreads + lane; }
  // Whether position `at` of the chunk that begins at `first`, among those of vector k, lies in the row.
  __device__ __forceinline__ bool inside(Index first, int k, int at) const {
    const Index left = cols - first;  // compared with what is left, no sum can leave the range of Index
    // Uniform, and known at compile time for a baked row in registers.
    if (kConfig.cols > 0 && (k + 1) * (kThreads * V) <= left) return true;
    return at < left;
  }

  __device__ __forceinline__ void load(Index first, Value (&v)[kElems], Value pad) const {
    const Index start = base + first;  // distances from it are constants of the access
    if (vectors) {
      const Index own = start + lane * V;
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        Value part[V];
        splat_vector<V>(pad, part);
        if (inside(first, k, vector_at(k))) hooks.template load<V>(own + k * (kThreads * V), part);
#pragma unroll
        for (int e = 0; e < V; ++e) v[k * V + e] = part[e];
      }
      return;
    }
    const Index own = start + lane;
#pragma unroll
    for (int i = 0; i < kElems; ++i) {
      Value part[1] = {pad};
      if (inside(first, i / V, single_at(i / V, i % V))) hooks.template load<1>(own + i * kThreads, part);
      v[i] = part[0];
    }
  }

  __device__ __forceinline__ void store_scaled(Index first, float (&v)[kElems], float factor) const {
    if (!active) return;
#pragma unroll
    for (int i = 0; i < kElems; ++i) v[i] *= factor;
    const Index start = base + first;
    if (vectors) {
      const Index own = start + lane * V;
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        float part[V];
#pragma unroll
        for (int e = 0; e < V; ++e) part[e] = v[k * V + e];
        if (inside(first, k, vector_at(k))) hooks.template store<V>(own + k * (kThreads * V), part);
      }
      return;
    }
    const Index own = start + lane;
#pragma unroll
    for (int i = 0; i < kElems; ++i) {
      const float part[1] = {v[i]};
      if (inside(first, i / V, single_at(i / V, i % V))) hooks.template store<1>(own + i * kThreads, part);
    }
  }

  // Sum of the elements that exist; padding may be anything.
  __device__ __forceinline__ float sum_inside(Index first, const float (&v)[kElems]) const {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      float part = 0.0f;
#pragma unroll
      for (int e = 0; e < V; ++e) part += inside(first, k, vectors ? vector_at(k) : single_at(k, e)) ? v[k * V + e] : 0.0f;
      sum += part;
    }
    return sum;
  }
};

// Calls work.run<held>(team): `held` says that the whole row lies in one chunk. There are at most two copies of the code: the row in
// registers, and in chunks of 16 elements a thread.
template <RowConfig kConfig, typename Hooks, typename Work>
__device__ __forceinline__ void with_team(const RowArgs& args, const Hooks& hooks, Work& work) {
  constexpr int kVector = kConfig.vector_elems;
  constexpr int kHeld = kConfig.vectors_per_thread;
  constexpr int kChunk = kHeld * kVector <= 16 ? kHeld : (kVector < 16 ? 16 / kVector : 1);
  constexpr i64 kFits = i64{kConfig.row_threads} * kVector * kHeld;
  if constexpr (kConfig.cols == 0 || kConfig.cols <= kFits) {
    if (kConfig.cols > 0 || args.cols <= kFits) {
      work.template run<true>(Team<kConfig, kHeld, Hooks>(args, hooks));
      return;
    }
  }
  if constexpr (kConfig.cols == 0 || kConfig.cols > kFits) work.template run<false>(Team<kConfig, kChunk, Hooks>(args, hooks));
}

}  // namespace row_detail
}  // namespace tw
