#include "autotune/prune.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"
#include "runtime/integer.h"

namespace tilewright {
namespace {

// A few spilled words may pay for occupancy; arrays in local memory never do.
constexpr std::int64_t kMostLocalBytes = 512;

std::int64_t threads_of(const KernelLaunch& launch) { return std::int64_t{launch.block[0]} * launch.block[1] * launch.block[2]; }

// Warnings C7510 to C7520 of ptxas, but C7519: matrix instructions were serialised or are broken.
std::string broken_matrix_warning(llvm::StringRef log) {
  for (int number = 7510; number <= 7520; ++number) {
    const std::string code = fmt::format("C{}", number);
    if (number != 7519 && log.contains(code)) return code;
  }
  return "";
}

}  // namespace

SmModel sm_model(const Target& target) {
  SmModel sm;
  switch (target.number()) {
    case 80:
    case 87:
      sm.shared_bytes = 167936;
      break;
    case 86:
    case 88:
    case 89:
      sm.threads = 1536;
      sm.blocks = target.number() == 89 ? 24 : 16;
      sm.shared_bytes = 102400;
      break;
    case 110:
    case 120:
    case 121:
      sm.threads = 1536;
      sm.blocks = 24;
      sm.shared_bytes = target.number() == 110 ? 233472 : 102400;
      break;
    default:
      break;
  }
  return sm;
}

std::int64_t blocks_per_sm(const SmModel& sm, std::int64_t block_threads, std::int64_t registers, std::int64_t shared_bytes) {
  const std::int64_t warps = divide_up(std::max<std::int64_t>(block_threads, 1), 32);
  std::int64_t blocks = std::min(sm.blocks, sm.threads / (warps * 32));
  if (registers > 0) blocks = std::min(blocks, sm.registers / (divide_up(registers * 32, 256) * 256 * warps));
  return std::min(blocks, sm.shared_bytes / (shared_bytes + sm.reserved_shared_bytes));
}

Resources resources_of(const LoweredProgram& program, llvm::ArrayRef<CubinFacts> facts, const SmModel& sm) {
  Resources all;
  all.blocks_per_sm = std::numeric_limits<std::int64_t>::max();
  for (auto [launch, kernel] : llvm::zip_equal(program.recipe.kernels, facts)) {
    const std::int64_t shared = std::int64_t{launch.dynamic_shared_bytes} + kernel.static_shared_bytes;
    all.registers = std::max<std::int64_t>(all.registers, kernel.registers);
    all.local_bytes = std::max<std::int64_t>(all.local_bytes, kernel.local_bytes);
    all.shared_bytes = std::max(all.shared_bytes, shared);
    all.block_threads = std::max(all.block_threads, threads_of(launch));
    all.blocks_per_sm = std::min(all.blocks_per_sm, blocks_per_sm(sm, threads_of(launch), kernel.registers, shared));
  }
  return all;
}

std::string prune_reason(const Resources& resources, const SmModel& sm, llvm::ArrayRef<std::string> logs) {
  for (const std::string& log : logs) {
    if (const std::string code = broken_matrix_warning(log); !code.empty())
      return fmt::format("the compiler warns of serialised matrix instructions ({})", code);
  }
  if (resources.local_bytes > kMostLocalBytes)
    return fmt::format("{} bytes of local memory a thread (spills), at most {} are tried", resources.local_bytes, kMostLocalBytes);
  if (resources.blocks_per_sm < 1) {
    return fmt::format(
        "no block fits a multiprocessor: {} threads of {} registers and {} bytes of shared memory, it has {} registers and {}",
        resources.block_threads, resources.registers, resources.shared_bytes, sm.registers, sm.shared_bytes);
  }
  return "";
}

double predict_us(const Graph& graph, const PreparedProgram& prepared, llvm::ArrayRef<std::int64_t> dims, const DeviceModel& device,
                  const SmModel& sm, const DeviceRates& rates, llvm::ArrayRef<CubinFacts> facts) {
  constexpr double kLaunchUs = 1.0;
  constexpr double kEnoughThreads = 1024;  // a multiprocessor, to keep memory busy with a few loads each
  double total_us = 0;
  for (auto [index, group] : llvm::enumerate(prepared.plan.groups)) {
    const KernelLaunch& launch = prepared.lowered.recipe.kernels[index];
    const Cost cost = group_cost(graph, group, dims);
    double blocks = 1;
    for (const SizeExpr& size : launch.grid) blocks *= static_cast<double>(size.evaluate(dims));
    const std::int64_t registers = index < facts.size() ? facts[index].registers : 32;
    const std::int64_t shared = std::int64_t{launch.dynamic_shared_bytes} + (index < facts.size() ? facts[index].static_shared_bytes : 0);
    const auto resident = static_cast<double>(std::max<std::int64_t>(1, blocks_per_sm(sm, threads_of(launch), registers, shared)));
    const double slots = resident * device.sm_count;
    const double waves = std::max(1.0, std::ceil(blocks / slots));
    const double balance = std::clamp(blocks / (waves * slots), 1.0 / slots, 1.0);  // of the last wave
    const double busy_blocks = std::min(resident, std::max(1.0, blocks / device.sm_count));
    const double latency = std::min(1.0, busy_blocks * static_cast<double>(threads_of(launch)) / kEnoughThreads);
    const double spill = index < facts.size() ? 1.0 + facts[index].local_bytes / 64.0 : 1.0;
    const double memory_us = static_cast<double>(cost.bytes) / rates.bytes_per_s * 1e6 / std::max(latency, 0.05);
    const double arithmetic_us = static_cast<double>(cost.flops) / rates.flops_per_s * 1e6;
    total_us += kLaunchUs + std::max(memory_us, arithmetic_us) / std::sqrt(balance) * spill;
  }
  return total_us;
}

}  // namespace tilewright
