// tilewright/host/abi.h
// What a kernel compiled for the CPU and the executor that runs it (runtime/host) say to each other. Both sides include this file; it needs
// no other header.
//
// The kernel's shared object exports four C functions:
//   unsigned tw_host_abi()                             kAbiVersion of the kernel's side
//   bool tw_host_instrumented()                        whether it calls access() at every access to memory, or in primitives alone
//   void tw_host_bind(const tw::host::Executor*)       once, before anything else; the table outlives the object
//   void tw_host_entry(const void* const* parameters)  one CUDA thread's run through the kernel; parameters[i] points to the i-th argument
//
// How the executor runs threads, for whoever adds a primitive:
//   - A CUDA thread is a fiber. All fibers of a block run on one OS thread and are never preempted: a primitive is atomic within its block
//     as long as it calls none of the functions below. Other blocks run at the same time on other OS threads.
//   - converge() is every collective of a warp: the last lane to come runs `combine` over the operands of all, which lie on the stacks of
//     the waiting lanes and may be written there.
//   - wait_until() is every other wait: `ready` is asked again whenever the block's state may have changed. mbarrier waits are that.
//   - defer() is every asynchronous copy: `apply` moves the data at a moment drawn from the seed, at the latest when settle() asks for its
//     group or when no thread can run; `finish` runs on the thread whose wait has seen it. Between flight() and land() the shared memory
//     it touches is out of bounds for everybody: a missing wait is found whatever the schedule.
//   - The blocks of a cluster are one: their fibers share an OS thread, so what holds for a block holds for its cluster.
//   - access() checks every access to memory; code that the compiler instruments calls it by itself, primitives call it for what they
//   touch.
// A function that finds a fault does not return: the thread stays where it is and the launch ends with a report.
#pragma once

namespace tw::host {

inline constexpr unsigned kAbiVersion = 3;

struct Dim3 {
  unsigned x, y, z;
};

// What a thread may ask about itself.
struct Thread {
  Dim3 thread_idx, block_idx, block_dim, grid_dim, cluster_dim;
  unsigned cluster_rank;               // of the block in its cluster, x fastest
  unsigned char* dynamic_shared;       // aligned to 1024 bytes
  unsigned long dynamic_shared_bytes;  //
};

enum class Access : unsigned {
  kRead,
  kWrite,
  kConstantRead,  // ld.global.nc: nobody may write this during the launch
  kAtomic,        // one indivisible access that may write: no race with others of its kind
  kAtomicRead,    // one that only reads
  kAtomicWrite,   // one that only writes: what was there need not have been written
  kSlackRead,     // the value is not used where nobody has written it or somebody is just writing: neither is a fault
  kPackedRead,    // as kRead and kWrite, of an object whose type asks for less alignment than its size
  kPackedWrite,   //
  kAsyncRead,    // of a copy or a matrix instruction that begins: every byte has been written, and not by the generic proxy since its fence
  kAsyncWrite,   // the same for what it writes
  kBarrierInit,  // of an mbarrier: from here on the word is one
  kBarrier,      // any other operation on an mbarrier
  kBarrierAsync,  // by the asynchronous proxy, which must know of the initialisation
  kBarrierInval,  // the word is ordinary memory again
};

// What a thread's wait names: groups of cp.async, groups of bulk copies, or the object that counts the copy.
enum class Group : unsigned { kCpAsync, kBulk, kObject };

// lanes[i] are the operands of lane i for each bit i of mask.
using Combine = void (*)(void* const* lanes, unsigned mask);
using Ready = bool (*)(const void* state);
using Apply = unsigned (*)(const void* operands);  // returns the tag under which settle_object() finds it
using Finish = void (*)(const void* operands);

// `where` is the address in the kernel's code that a report shows: __builtin_return_address(0) of the primitive.
struct Executor {
  const Thread* (*thread)();
  void (*access)(const void* address, unsigned long bytes, Access kind, const void* where);
  // All of `threads` threads (0: the whole block) arrive at barrier `id` (0 to 15); `waits` is false for bar.arrive.
  void (*barrier)(unsigned id, unsigned threads, bool waits, const char* file, unsigned line, const void* where);
  // `name` is the primitive's. orders_memory: what a lane wrote before is seen by the others after (__syncwarp).
  void (*converge)(unsigned mask, Combine combine, void* operands, bool orders_memory, const char* name, const void* where);
  void (*wait_until)(Ready ready, const void* state, const char* name, const void* where);
  // After a load that a thread may repeat until another block has written: lets everybody else run.
  void (*yield)(const void* where);
  // Copies `bytes` (at most 256) of operands. `object` is null but for Group::kObject.
  void (*defer)(Group group, const void* object, Apply apply, Finish finish, const void* operands, unsigned long bytes, const char* name,
                const void* where);
  // Closes this thread's open group.
  void (*commit)(Group group);
  // Applies and finishes what this thread has deferred, but for its `keep` youngest closed groups and the open one.
  void (*settle)(Group group, unsigned keep);
  // Finishes what has been applied with this tag; to be followed by acquire(object).
  void (*settle_object)(const void* object, unsigned tag);
  // Shared memory that `name` reads or writes from now on, checked as an access; and its end, when this thread knows of it.
  void (*flight)(const void* address, unsigned long bytes, bool writes, const char* name, const void* where);
  void (*land)(const void* address, unsigned long bytes, bool writes, bool async_proxy, const void* where);
  // What this thread has written, or knows that others have, is seen by the asynchronous proxy; or mbarriers alone.
  void (*fence_proxy)(bool only_barriers);
  // A number below `bound` drawn from the seed.
  unsigned (*random)(unsigned bound);
  // Memory of this thread, zero at first, the same at each call until its block has ended; `bytes` never changes.
  void* (*memory)(unsigned long bytes);
  // The same place in the shared memory of the cluster's block `rank`.
  void* (*map_shared)(const void* address, unsigned rank, const void* where);
  void (*cluster_arrive)(bool releases, const void* where);
  void (*cluster_wait)(bool acquires, const void* where);
  // What this thread did before release(object) is seen by a thread after its acquire(object): how mbarriers and the like tell the check
  // for races. Block-wide barriers and converge() do it by themselves.
  void (*release)(const void* object);
  void (*acquire)(const void* object);
  // Ends the launch: a primitive that has no meaning here, or a trap.
  void (*fail)(const char* message, const void* where);
};

}  // namespace tw::host
