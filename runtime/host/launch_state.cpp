#include "runtime/host/launch_state.h"

#include <numeric>

namespace tilewright {

LaunchState::LaunchState(const KernelObject& object, const HostLaunch& launch, GlobalMemory& memory, const ExecuteOptions& options,
                         unsigned turns)
    : object_(object),
      launch_(launch),
      memory_(memory),
      options_(options),
      units_(std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z / blocks_per_unit()),
      start_(std::chrono::steady_clock::now()),
      free_turns_(turns) {
  if (units_ < 2) return;
  // An affine walk over all units needs no table of them.
  Random random(options.seed, 0);
  do {
    factor_ = random.next() % units_;
  } while (std::gcd(factor_, units_) != 1);
  offset_ = random.next() % units_;
}

std::optional<std::uint64_t> LaunchState::next_unit() {
  const std::uint64_t i = next_.fetch_add(1);
  if (i >= units_) return std::nullopt;
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(i) * factor_ + offset_) % units_);
}

void LaunchState::unit_done() {
  note_progress();
  const std::uint64_t done = done_.fetch_add(1) + 1;
  if (options_.progress) options_.progress(done * blocks_per_unit(), units_ * blocks_per_unit());
}

void LaunchState::take_turn() {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = ticket_++;
  waiting_.push_back(mine);
  turn_.wait(lock, [&] { return free_turns_ > 0 && waiting_.front() == mine; });
  waiting_.pop_front();
  --free_turns_;
  // Another turn may be free for the next in line.
  turn_.notify_all();
}

void LaunchState::end_turn() {
  {
    const std::lock_guard lock(mutex_);
    ++free_turns_;
  }
  turn_.notify_all();
}

void LaunchState::report(Finding finding) {
  const std::lock_guard lock(mutex_);
  if (finding_) return;
  finding_ = std::move(finding);
  failed_.store(true);
}

std::optional<Finding> LaunchState::take_finding() {
  const std::lock_guard lock(mutex_);
  return std::move(finding_);
}

bool LaunchState::out_of_time() const {
  return options_.time_limit_s > 0 &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() > options_.time_limit_s;
}

}  // namespace tilewright
