// What a kernel is compiled for: one GPU architecture, as machine code or (for GPUs newer than the compiler) as PTX.
#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

struct Target {
  int major = 9;
  int minor = 0;
  bool architecture_specific = true;  // "sm_90a": may use wgmma and the like, runs on no other architecture
  bool ptx = false;                   // "compute_90": PTX that the driver compiles for whatever newer GPU it has

  // Compute capability as one number: 90 for 9.0, 100 for 10.0.
  int number() const { return major * 10 + minor; }
  // "sm_90a", "sm_80", "compute_121".
  std::string name() const;
  friend bool operator==(const Target&, const Target&) = default;
};

// "sm_NN", "sm_NNa" or "compute_NN" of a known architecture from sm_80 up.
// Error kInvalidArgument for anything else: lists the known names and the nearest one.
llvm::Expected<Target> parse_target(llvm::StringRef name);

// A comma-separated list, without repeats: "sm_90a,sm_100a".
llvm::Expected<llvm::SmallVector<Target, 2>> parse_targets(llvm::StringRef names);

// Every name parse_target takes, ascending.
llvm::ArrayRef<llvm::StringRef> known_target_names();

// The target for a device of this compute capability: 9.0 and 10.0 the architecture-specific one, other known ones from 8.0 up their own
// number. `compiler_numbers` is what the compiler knows (empty: not asked, every known architecture is taken to be supported). A device the
// compiler does not know gets PTX of the newest number below its own, with a logged note.
// Error kUnsupported: older than 8.0, or no number of the compiler's is usable.
llvm::Expected<Target> target_of_device(int major, int minor, llvm::ArrayRef<int> compiler_numbers = {});

}  // namespace tilewright
