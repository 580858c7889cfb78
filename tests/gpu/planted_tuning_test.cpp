#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "tests/catch.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/planted/planted_search.h"

using namespace tilewright;

TEST_CASE("gpu: planted candidates end by themselves, are named, and the rest is measured", "[autotune][planted]") {
  // Beside this executable, wherever it was carried.
  llvm::SmallString<256> helper(llvm::sys::path::parent_path(llvm::sys::fs::getMainExecutable(nullptr, nullptr)));
  llvm::sys::path::append(helper, "planted_helper");
  tests::check_planted_search(tests::Place::kGpu, tests::Gpu::instance().target(), helper.str().str());
}
