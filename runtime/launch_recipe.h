// What the runtime must know to launch a program, and nothing about what the program computes: tensors at its boundary, workspace
// buffers, and for each kernel its grid, block and the layout of its parameters, all sizes as expressions over the launch dimensions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/dtype.h"
#include "runtime/size_expr.h"

namespace tilewright {

// A tensor the caller passes by pointer. Strides are in elements; empty means row-major contiguous.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  llvm::SmallVector<std::int64_t, 6> strides;
};

enum class BufferKind : std::uint8_t { kInput, kOutput, kWorkspace };

struct BufferRef {
  BufferKind kind = BufferKind::kInput;
  std::uint32_t index = 0;
  friend bool operator==(const BufferRef&, const BufferRef&) = default;
};

// One scratch buffer inside the caller's workspace. Offsets are handed out in order, each aligned to 256 bytes.
struct WorkspaceSpec {
  std::string name;
  SizeExpr bytes;
  // True: zero before the first launch (Program::initialize_workspace), left zero by every completed launch.
  bool zero_initialized = false;
};

// One field of a kernel parameter struct, in declaration order, naturally aligned as in C.
struct KernelArg {
  enum class Kind : std::uint8_t {
    kBuffer,        // 8 bytes: device pointer of `buffer`
    kInt64,         // 8 bytes: `value` evaluated
    kFloat32,       // 4 bytes: `number`
    kMisalignment,  // 4 bytes (uint32): OR of (address & 15) over all buffers of this kernel; 0 = every pointer is 16-byte aligned
  };
  Kind kind = Kind::kInt64;
  std::string name;  // field name in the generated source
  BufferRef buffer;
  SizeExpr value;
  float number = 0.0f;
};

// One kernel parameter: a struct passed by value (__grid_constant__).
struct KernelParam {
  std::string type_name;  // C++ type in the generated source
  std::vector<KernelArg> fields;
};

struct KernelLaunch {
  std::string entry;                      // extern "C" name
  std::array<SizeExpr, 3> grid{1, 1, 1};  // blocks; a zero skips the kernel (empty tensors)
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<KernelParam> params;
};

struct LaunchRecipe {
  std::vector<Symbol> symbols;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<WorkspaceSpec> workspace;
  std::vector<KernelLaunch> kernels;  // run in order on one stream
};

// Byte offset of each field and, last, the size of the struct as a C compiler lays it out (size multiple of its alignment).
llvm::SmallVector<std::uint32_t, 16> param_layout(const KernelParam& param);

// Writes launch.params[param] for one launch to `out`, layout.back() bytes; `layout` is its param_layout(). `address` says where a buffer
// lies.
void pack_param(const KernelLaunch& launch, std::size_t param, llvm::ArrayRef<std::uint32_t> layout,
                llvm::function_ref<std::uint64_t(const BufferRef&)> address, std::uint32_t misalignment, llvm::ArrayRef<std::int64_t> dims,
                char* out);

}  // namespace tilewright
