// tilewright/host/abi.h
// What a kernel compiled for the CPU and the executor that runs it (runtime/host) say to each other. Both sides include this file; it needs
// no other header.
//
// The kernel's shared object exports three C functions:
//   unsigned tw_host_abi()                             kAbiVersion of the kernel's side
//   void tw_host_bind(const tw::host::Executor*)       once, before anything else; the table outlives the object
//   void tw_host_entry(const void* const* parameters)  one CUDA thread's run through the kernel; parameters[i] points to the i-th argument
//
// How the executor runs threads, for whoever adds a primitive:
//   - A CUDA thread is a fiber. All fibers of a block run on one OS thread and are never preempted: a primitive is atomic within its block
//     as long as it calls none of the functions below. Other blocks run at the same time on other OS threads.
//   - converge() is every collective of a warp: the last lane to come runs `combine` over the operands of all, which lie on the stacks of
//     the waiting lanes and may be written there.
//   - wait_until() is every other wait: `ready` is asked again whenever the block's state may have changed. mbarrier waits are that.
//   - defer() is every asynchronous effect: `apply` runs at a moment drawn from the seed, at the latest when settle() asks for its group or
//     when no thread of the block can run. What cp.async, bulk copies and wgmma do belongs into `apply`, completion of an mbarrier's
//     transaction included.
//   - access() checks every access to memory; code that the compiler instruments calls it by itself, primitives call it for what they
//   touch.
// A function that finds a fault does not return: the thread stays where it is and the launch ends with a report.
#pragma once

namespace tw::host {

inline constexpr unsigned kAbiVersion = 1;

struct Dim3 {
  unsigned x, y, z;
};

// What a thread may ask about itself.
struct Thread {
  Dim3 thread_idx, block_idx, block_dim, grid_dim;
  unsigned char* dynamic_shared;       // aligned to 1024 bytes
  unsigned long dynamic_shared_bytes;  //
};

enum class Access : unsigned {
  kRead,
  kWrite,
  kConstantRead,  // ld.global.nc: nobody may write this during the launch
  kAtomic,        // one indivisible access that may write: no race with others of its kind
  kAtomicRead,    // one that only reads
  kSlackRead,     // the value is not used where nobody has written it or somebody is just writing: neither is a fault
  kPackedRead,    // as kRead and kWrite, of an object whose type asks for less alignment than its size
  kPackedWrite,   //
};

// lanes[i] are the operands of lane i for each bit i of mask.
using Combine = void (*)(void* const* lanes, unsigned mask);
using Ready = bool (*)(const void* state);
using Apply = void (*)(const void* operands);

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
  // Copies `bytes` (at most 256) of operands. Effects of one thread's group settle together; commit() closes the group.
  void (*defer)(Apply apply, const void* operands, unsigned long bytes, const void* where);
  void (*commit)();
  // Applies what this thread has deferred, but for its `keep` youngest closed groups.
  void (*settle)(unsigned keep);
  // What this thread did before release(object) is seen by a thread after its acquire(object): how mbarriers and the like tell the check
  // for races. Block-wide barriers and converge() do it by themselves.
  void (*release)(const void* object);
  void (*acquire)(const void* object);
  // Ends the launch: a primitive that has no meaning here, or a trap.
  void (*fail)(const char* message, const void* where);
};

}  // namespace tw::host
