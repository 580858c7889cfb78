#include "runtime/host/executor.h"

#include <chrono>
#include <thread>

#include "runtime/error.h"
#include "runtime/host/block.h"

namespace tilewright {
namespace {

constexpr unsigned kMostThreads = 1024;           // of a block, on every device
constexpr std::uint64_t kMostClusterBlocks = 16;  // 8 are portable
constexpr unsigned kMostResidents = 1024;         // of a launch: an H200 holds more
constexpr int kChecksBeforeGivingUp = 150;        // all blocks stalled, nothing written meanwhile
constexpr std::chrono::milliseconds kCheckEvery{2};

Block& block() { return *Block::current(); }

void run_resident(LaunchState& state) {
  state.take_turn();
  Block resident(state);
  if (!resident.valid()) {
    state.report({"out of memory for the stacks of a block", {}});
  } else {
    while (!state.failed()) {
      const auto index = state.next_unit();
      if (!index) break;
      resident.run(*index);
      state.unit_done();
      state.end_turn();
      state.take_turn();
    }
  }
  state.add_residents(-1);
  state.end_turn();
}

// Adds residents while all that there are wait for blocks that have not begun, and ends the launch when none is left to begin.
void watch(LaunchState& state, std::vector<std::thread>& residents) {
  std::uint64_t seen = state.progress();
  int unchanged = 0;
  while (state.residents() > 0) {
    std::this_thread::sleep_for(kCheckEvery);
    const std::uint64_t progress = state.progress();
    if (progress != seen || state.stalled() < state.residents()) {
      if (progress != seen) unchanged = 0;
      seen = progress;
      continue;
    }
    if (!state.all_given_out() && residents.size() < kMostResidents) {
      state.add_residents(1);
      residents.emplace_back(run_resident, std::ref(state));
    } else if (++unchanged > kChecksBeforeGivingUp) {
      state.give_up();
    }
  }
}

llvm::Error fault(const KernelObject& object, const HostLaunch& launch, const Finding& finding) {
  std::string text = fmt::format("kernel {}, {}", launch.kernel, finding.what);
  for (const Finding::Place& place : finding.places) {
    if (place.where == nullptr) continue;
    text += place.label.empty() ? "" : fmt::format("\n{}:", place.label);
    for (const std::string& line : object.code_lines(place.where)) text += fmt::format("\n  at {}", line);
  }
  return make_error_text(Status::kKernelFault, std::move(text));
}

}  // namespace

const tw::host::Executor& executor_table() {
  static constexpr tw::host::Executor kTable{
      [] { return block().thread(); },
      [](const void* address, unsigned long bytes, tw::host::Access kind, const void* where) {
        block().access(address, bytes, kind, where);
      },
      [](unsigned id, unsigned threads, bool waits, const char* file, unsigned line, const void* where) {
        block().barrier(id, threads, waits, file, line, where);
      },
      [](unsigned mask, tw::host::Combine combine, void* operands, bool orders_memory, const char* name, const void* where) {
        block().converge(mask, combine, operands, orders_memory, name, where);
      },
      [](tw::host::Ready ready, const void* state, const char* name, const void* where) { block().wait_until(ready, state, name, where); },
      [](const void* where) { block().yield(where); },
      [](tw::host::Group group, const void* object, tw::host::Apply apply, tw::host::Finish finish, const void* operands,
         unsigned long bytes, const char* name, const void* where) {
        block().defer({group, object, apply, finish, name, where}, operands, bytes);
      },
      [](tw::host::Group group) { block().commit(group); },
      [](tw::host::Group group, unsigned keep) { block().settle(group, keep); },
      [](const void* object, unsigned tag) { block().settle_object(object, tag); },
      [](const void* address, unsigned long bytes, bool writes, const char* name, const void* where) {
        block().flight(address, bytes, writes, name, where);
      },
      [](const void* address, unsigned long bytes, bool writes, bool async_proxy, const void* where) {
        block().land(address, bytes, writes, async_proxy, where);
      },
      [](bool only_barriers) { block().fence_proxy(only_barriers); },
      [](unsigned bound) { return block().random(bound); },
      [](unsigned long bytes) { return block().memory(bytes); },
      [](const void* address, unsigned rank, const void* where) { return block().map_shared(address, rank, where); },
      [](bool releases, const void* where) { block().cluster_arrive(releases, where); },
      [](bool acquires, const void* where) { block().cluster_wait(acquires, where); },
      [](const void* object) { block().release(object); },
      [](const void* object) { block().acquire(object); },
      [](const char* message, const void* where) {
        block().fail({message, {{"", where}}});
      },
  };
  return kTable;
}

llvm::Error execute(const KernelObject& object, const HostLaunch& launch, GlobalMemory& memory, const ExecuteOptions& options) {
  const std::uint64_t threads = std::uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  if (threads == 0 || threads > kMostThreads)
    return make_error(Status::kUnsupported, "kernel {}: {} threads a block, 1 to {} are possible", launch.kernel, threads, kMostThreads);
  const tw::host::Dim3 grid = launch.grid, cluster = launch.cluster;
  const std::uint64_t blocks = std::uint64_t{cluster.x} * cluster.y * cluster.z;
  if (blocks == 0 || blocks > kMostClusterBlocks || grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0)
    return make_error(Status::kUnsupported, "kernel {}: a grid of ({}, {}, {}) blocks in clusters of ({}, {}, {})", launch.kernel, grid.x,
                      grid.y, grid.z, cluster.x, cluster.y, cluster.z);
  const unsigned turns = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  object.bind(executor_table());
  memory.begin_launch(object.instrumented());
  LaunchState state(object, launch, memory, options, turns);
  // One more than can run: whoever waits for another block is never alone.
  const auto count = static_cast<unsigned>(std::min<std::uint64_t>(state.units(), turns + 1));
  state.add_residents(static_cast<int>(count));
  std::vector<std::thread> residents;
  for (unsigned i = 0; i < count; ++i) residents.emplace_back(run_resident, std::ref(state));
  watch(state, residents);
  for (std::thread& resident : residents) resident.join();
  if (const auto finding = state.take_finding()) return fault(object, launch, *finding);
  return llvm::Error::success();
}

void describe_current_thread(char* text, std::size_t size) {
  if (size > 0) *text = '\0';
  if (const Block* current = Block::current()) current->describe(text, size);
}

}  // namespace tilewright
