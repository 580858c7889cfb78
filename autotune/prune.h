// What can be known of a candidate before it runs: what the hardware cannot hold, what the compiler made badly, and an estimate of its
// time.
#pragma once

#include <string>
#include <vector>

#include "autotune/candidate.h"
#include "codegen/compile.h"
#include "runtime/module.h"

namespace tilewright {

// A multiprocessor, as far as blocks compete for it (CUDA programming guide, technical specifications per compute capability).
struct SmModel {
  std::int64_t threads = 2048, blocks = 32, registers = 65536, shared_bytes = 233472;  // sm_90, sm_100
  std::int64_t reserved_shared_bytes = 1024;                                           // a block, by the system
};
SmModel sm_model(const Target& target);

// Blocks of a kernel that one multiprocessor holds at a time; 0: not even one. Registers are given out in units of 256 a warp.
std::int64_t blocks_per_sm(const SmModel& sm, std::int64_t block_threads, std::int64_t registers, std::int64_t shared_bytes);

// The most of each over the kernels of a program.
Resources resources_of(const LoweredProgram& program, llvm::ArrayRef<CubinFacts> facts, const SmModel& sm);

// Why a compiled candidate is not worth running, "" when it is. `logs`: what the compiler said of each kernel.
std::string prune_reason(const Resources& resources, const SmModel& sm, llvm::ArrayRef<std::string> logs);

struct DeviceRates {
  double bytes_per_s = 4.8e12, flops_per_s = 6.7e13;  // an H200's memory and f32
};

// A time for ordering candidates: bytes and flops of every kernel over the share of the device that its grid and occupancy keep busy.
// Never excludes anything.
double predict_us(const Graph& graph, const PreparedProgram& prepared, llvm::ArrayRef<std::int64_t> dims, const DeviceModel& device,
                  const SmModel& sm, const DeviceRates& rates, llvm::ArrayRef<CubinFacts> facts = {});

}  // namespace tilewright
