#include "runtime/target.h"

#include <algorithm>
#include <array>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace tilewright {
namespace {

struct Known {
  llvm::StringLiteral name;
  Target target;
};

// Architectures from sm_80 up that CUDA 12 and 13 compile for (PTX ISA, table of targets), with those the "a" forms add.
constexpr std::array kKnown = {
    Known{"sm_80", {8, 0, false, false}},       Known{"sm_86", {8, 6, false, false}},       Known{"sm_87", {8, 7, false, false}},
    Known{"sm_88", {8, 8, false, false}},       Known{"sm_89", {8, 9, false, false}},       Known{"sm_90", {9, 0, false, false}},
    Known{"sm_90a", {9, 0, true, false}},       Known{"sm_100", {10, 0, false, false}},     Known{"sm_100a", {10, 0, true, false}},
    Known{"sm_103", {10, 3, false, false}},     Known{"sm_103a", {10, 3, true, false}},     Known{"sm_110", {11, 0, false, false}},
    Known{"sm_110a", {11, 0, true, false}},     Known{"sm_120", {12, 0, false, false}},     Known{"sm_120a", {12, 0, true, false}},
    Known{"sm_121", {12, 1, false, false}},     Known{"sm_121a", {12, 1, true, false}},     Known{"compute_80", {8, 0, false, true}},
    Known{"compute_86", {8, 6, false, true}},   Known{"compute_87", {8, 7, false, true}},   Known{"compute_88", {8, 8, false, true}},
    Known{"compute_89", {8, 9, false, true}},   Known{"compute_90", {9, 0, false, true}},   Known{"compute_100", {10, 0, false, true}},
    Known{"compute_103", {10, 3, false, true}}, Known{"compute_110", {11, 0, false, true}}, Known{"compute_120", {12, 0, false, true}},
    Known{"compute_121", {12, 1, false, true}},
};

constexpr auto known_names() {
  std::array<llvm::StringRef, kKnown.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kKnown[i].name;
  return names;
}
constexpr std::array kNames = known_names();

bool is_known_number(int number) {
  return llvm::any_of(kKnown, [&](const Known& known) { return known.target.number() == number; });
}

}  // namespace

std::string Target::name() const { return fmt::format("{}_{}{}", ptx ? "compute" : "sm", number(), architecture_specific ? "a" : ""); }

llvm::ArrayRef<llvm::StringRef> known_target_names() { return kNames; }

llvm::Expected<Target> parse_target(llvm::StringRef name) {
  for (const Known& known : kKnown) {
    if (name == known.name) return known.target;
  }
  const llvm::StringRef nearest = nearest_name(name, kNames);
  return make_error(Status::kInvalidArgument, "target: there is no \"{}\"{}; known are {}", name,
                    nearest.empty() ? std::string() : fmt::format(", did you mean \"{}\"?", nearest), llvm::join(kNames, ", "));
}

llvm::Expected<llvm::SmallVector<Target, 2>> parse_targets(llvm::StringRef names) {
  llvm::SmallVector<Target, 2> targets;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  names.split(parts, ',');
  for (const llvm::StringRef part : parts) {
    auto target = parse_target(part.trim());
    if (!target) return target.takeError();
    if (!llvm::is_contained(targets, *target)) targets.push_back(*target);
  }
  return targets;
}

llvm::Expected<Target> target_of_device(int major, int minor, llvm::ArrayRef<int> compiler_numbers) {
  Target target{major, minor, false, false};
  const int number = target.number();
  if (number < 80) {
    return make_error(Status::kUnsupported, "device: compute capability {}.{} is too old, 8.0 or newer is needed", major, minor);
  }
  const bool compiles = compiler_numbers.empty() ? is_known_number(number) : llvm::is_contained(compiler_numbers, number);
  if (compiles) {
    target.architecture_specific = number == 90 || number == 100;
    return target;
  }
  int newest = 0;
  const auto consider = [&](int candidate) {
    if (candidate >= 80 && candidate < number) newest = std::max(newest, candidate);
  };
  if (compiler_numbers.empty()) {
    for (const Known& known : kKnown) consider(known.target.number());
  }
  for (const int candidate : compiler_numbers) consider(candidate);
  if (newest == 0) {
    return make_error(Status::kUnsupported, "device: NVRTC compiles for nothing that compute capability {}.{} could run", major, minor);
  }
  target = Target{newest / 10, newest % 10, false, true};
  log(LogLevel::kWarning, "device: compute capability {}.{} is unknown to this compiler; it gets PTX for {}", major, minor, target.name());
  return target;
}

}  // namespace tilewright
