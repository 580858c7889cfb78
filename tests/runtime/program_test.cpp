#include "runtime/program.h"

#include "tests/runtime/fake_driver.h"
#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

KernelArg buffer(BufferKind kind, std::uint32_t index) {
  KernelArg arg;
  arg.kind = KernelArg::Kind::kBuffer;
  arg.name = "p";
  arg.buffer = {kind, index};
  return arg;
}

KernelArg value(KernelArg::Kind kind, SizeExpr expression) {
  KernelArg arg;
  arg.kind = kind;
  arg.name = "n";
  arg.value = expression;
  return arg;
}

// y[N, 4] from x[N, 4] with two scratch buffers, of which the second is a counter.
LaunchRecipe sample_recipe() {
  const SizeExpr n = SizeExpr::symbol(0);
  LaunchRecipe recipe;
  recipe.symbols = {{"N", 8, 0, 1000000000000}};
  recipe.inputs = {{"x", DType::kF32, {n, 4}, {}}};
  recipe.outputs = {{"y", DType::kF32, {n, 4}, {}}};
  recipe.workspace = {{"partial", n * SizeExpr(4), false}, {"counter", SizeExpr(4), true}};
  KernelLaunch launch;
  launch.entry = "tw_sample";
  launch.grid = {ceil_div(n, SizeExpr(2)), SizeExpr(1), SizeExpr(1)};
  launch.block = {64, 1, 1};
  KernelArg factor;
  factor.kind = KernelArg::Kind::kFloat32;
  factor.number = 2.5f;
  launch.params = {{"Args", {value(KernelArg::Kind::kMisalignment, 0), value(KernelArg::Kind::kInt64, n), factor}},
                   {"Hooks", {buffer(BufferKind::kInput, 0), buffer(BufferKind::kOutput, 0), buffer(BufferKind::kWorkspace, 1)}}};
  recipe.kernels = {launch};
  return recipe;
}

std::shared_ptr<const Artifact> sample_artifact() {
  auto artifact = std::make_shared<Artifact>();
  artifact->entry = "tw_sample";
  artifact->binary = "cubin";
  return artifact;
}

std::unique_ptr<Program> sample_program(const Driver& driver, LaunchRecipe recipe) {
  const std::vector<std::shared_ptr<const Artifact>> artifacts(recipe.kernels.size(), sample_artifact());
  return must(Program::create(driver, std::move(recipe), artifacts));
}

template <typename T>
T at(const std::string& bytes, std::size_t offset) {
  T result;
  REQUIRE(offset + sizeof(T) <= bytes.size());
  std::memcpy(&result, bytes.data() + offset, sizeof(T));
  return result;
}

constexpr CUdeviceptr kX = 0x1000, kY = 0x2000, kScratch = 0x10000;
CUstream stream() { return reinterpret_cast<CUstream>(0x99); }

}  // namespace

TEST_CASE("program: parameters are laid out as C does and the launch is what the recipe says", "[runtime]") {
  const Driver driver = reset_fake();
  const auto program = sample_program(driver, sample_recipe());
  fake().param_sizes = {24, 24};
  must(program->launch({kX}, {kY + 4}, {kScratch, 1024}, {7}, stream()));
  REQUIRE(fake().launches.size() == 1);
  const FakeLaunch& launch = fake().launches[0];
  CHECK(launch.grid == std::array<unsigned, 3>{4, 1, 1});
  CHECK(launch.block == std::array<unsigned, 3>{64, 1, 1});
  CHECK(launch.stream == stream());
  CHECK(launch.attributes == 0);
  CHECK(at<std::uint32_t>(launch.param_bytes[0], 0) == 4);  // y is 4 bytes off
  CHECK(at<std::int64_t>(launch.param_bytes[0], 8) == 7);
  CHECK(at<float>(launch.param_bytes[0], 16) == 2.5f);
  CHECK(at<std::uint64_t>(launch.param_bytes[1], 0) == kX);
  CHECK(at<std::uint64_t>(launch.param_bytes[1], 8) == kY + 4);
  CHECK(at<std::uint64_t>(launch.param_bytes[1], 16) == kScratch + 256);
  CHECK(fake().pushes == 0);
}

TEST_CASE("program: workspace is laid out in steps of 256 bytes and only counters are zeroed", "[runtime]") {
  const Driver driver = reset_fake();
  const auto program = sample_program(driver, sample_recipe());
  CHECK(must(program->workspace_bytes({1})) == 512);
  CHECK(must(program->workspace_bytes({65})) == 768);
  CHECK(must(program->workspace_bytes({0})) == 256);
  must(program->initialize_workspace({kScratch, 768}, {65}, stream()));
  REQUIRE(fake().fills.size() == 1);
  CHECK(fake().fills[0] == std::pair<CUdeviceptr, std::size_t>(kScratch + 512, 4));
}

TEST_CASE("program: what is wrong with an argument is said, and nothing is submitted", "[runtime]") {
  const Driver driver = reset_fake();
  const auto program = sample_program(driver, sample_recipe());
  const auto error = [&](llvm::ArrayRef<CUdeviceptr> in, llvm::ArrayRef<CUdeviceptr> out, Workspace workspace,
                         llvm::ArrayRef<std::int64_t> dims) { return failure_of(program->launch(in, out, workspace, dims, stream())); };
  const Workspace good{kScratch, 1024};
  CHECK(contains(error({}, {kY}, good, {8}).message, "1 inputs expected, 0 given"));
  CHECK(contains(error({kX}, {kY, kY}, good, {8}).message, "1 outputs expected, 2 given"));
  CHECK(contains(error({0}, {kY}, good, {8}).message, "input \"x\" is a null pointer"));
  CHECK(contains(error({kX}, {0}, good, {8}).message, "output \"y\" is a null pointer"));
  CHECK(contains(error({kX + 2}, {kY}, good, {8}).message, "not aligned"));
  CHECK(contains(error({kX}, {kY}, good, {-1}).message, "dimension N is -1"));
  CHECK(contains(error({kX}, {kY}, good, {}).message, "1 expected, 0 given"));
  CHECK(contains(error({kX}, {kY}, {kScratch, 511}, {8}).message, "512 bytes needed, 511 given"));
  CHECK(contains(error({kX}, {kY}, {0, 1024}, {8}).message, "512 bytes needed, 0 given"));
  CHECK(contains(error({kX}, {kY}, {kScratch + 16, 1024}, {8}).message, "multiple of 256"));
  CHECK(fake().launches.empty());
}

TEST_CASE("program: an empty tensor may be null and an empty grid is skipped", "[runtime]") {
  const Driver driver = reset_fake();
  const auto program = sample_program(driver, sample_recipe());
  must(program->launch({0}, {0}, {kScratch, 256}, {0}, stream()));
  CHECK(fake().launches.empty());
}

TEST_CASE("program: sizes beyond the hardware are errors, before any kernel of the program runs", "[runtime]") {
  const Driver driver = reset_fake();
  LaunchRecipe recipe = sample_recipe();
  recipe.workspace.clear();
  recipe.kernels[0].params[1].fields.pop_back();
  KernelLaunch small = recipe.kernels[0];
  small.grid = {SizeExpr(1), SizeExpr(1), SizeExpr(1)};
  recipe.kernels.insert(recipe.kernels.begin(), small);
  const auto program = sample_program(driver, recipe);
  fake().param_sizes.clear();
  const ErrorFacts facts = failure_of(program->launch({kX}, {kY}, {}, {4294967298}, stream()));
  CHECK(facts.status == Status::kUnsupported);
  CHECK(contains(facts.message, "2147483649 blocks along x"));
  CHECK(fake().launches.empty());
  must(program->launch({kX}, {kY}, {}, {10}, stream()));
  CHECK(fake().launches.size() == 2);
}

TEST_CASE("program: what a destroyed context held is not unloaded in the one that has its address", "[runtime]") {
  const Driver driver = reset_fake();
  sample_program(driver, sample_recipe()).reset();
  CHECK(fake().unloads == 1);
  for (const unsigned long long later : {0ull, 2ull}) {
    fake().context_id = 1;
    auto program = sample_program(driver, sample_recipe());
    fake().context_id = later;
    program.reset();
    CHECK(fake().unloads == 1);
  }
}

TEST_CASE("program: workspace buffers may be many", "[runtime]") {
  const Driver driver = reset_fake();
  LaunchRecipe recipe = sample_recipe();
  recipe.workspace.assign(200, {"part", SizeExpr::symbol(0), false});
  recipe.kernels[0].params[1].fields[2].buffer.index = 199;
  const auto program = sample_program(driver, recipe);
  CHECK(must(program->workspace_bytes({8})) == 200 * 256);
  fake().param_sizes = {24, 24};
  must(program->launch({kX}, {kY}, {kScratch, 200 * 256}, {8}, stream()));
  REQUIRE(fake().launches.size() == 1);
  CHECK(at<std::uint64_t>(fake().launches[0].param_bytes[1], 16) == kScratch + 199 * 256);
}

TEST_CASE("program: blocks along y end at 65535", "[runtime]") {
  const Driver driver = reset_fake();
  LaunchRecipe recipe = sample_recipe();
  recipe.kernels[0].grid = {SizeExpr(1), SizeExpr::symbol(0), SizeExpr(1)};
  const auto program = sample_program(driver, recipe);
  fake().param_sizes.clear();
  const Workspace workspace{kScratch, 1 << 20};
  must(program->launch({kX}, {kY}, workspace, {65535}, stream()));
  CHECK(contains(failure_of(program->launch({kX}, {kY}, workspace, {65536}, stream())).message, "65536 blocks along y"));
}

TEST_CASE("program: clusters and dynamic shared memory are set up once", "[runtime]") {
  const Driver driver = reset_fake();
  LaunchRecipe recipe = sample_recipe();
  recipe.kernels[0].cluster = {16, 1, 1};
  recipe.kernels[0].dynamic_shared_bytes = 100000;
  const auto program = sample_program(driver, recipe);
  CHECK(fake().function_attributes_set[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] == 100000);
  CHECK(fake().function_attributes_set[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] == 1);
  must(program->launch({kX}, {kY}, {kScratch, 1024}, {32}, stream()));
  CHECK(fake().launches[0].attributes == 1);
  CHECK(fake().launches[0].shared_bytes == 100000);
  CHECK(failure_of(program->launch({kX}, {kY}, {kScratch, 1024}, {30}, stream())).status == Status::kInternal);
}

TEST_CASE("program: what the device cannot run is refused when it is made", "[runtime]") {
  const Driver driver = reset_fake();
  const std::vector<std::shared_ptr<const Artifact>> artifacts = {sample_artifact()};
  fake().max_threads = 32;
  CHECK(contains(failure_of(Program::create(driver, sample_recipe(), artifacts)).message, "64 threads"));
  fake().max_threads = 1024;
  fake().static_shared = 300000;
  CHECK(contains(failure_of(Program::create(driver, sample_recipe(), artifacts)).message, "shared memory"));
  fake().static_shared = 0;
  fake().load_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  const ErrorFacts facts = failure_of(Program::create(driver, sample_recipe(), artifacts));
  CHECK(facts.status == Status::kUnsupported);
  CHECK(contains(facts.message, "compute capability 9.0"));
  fake().load_result = CUDA_SUCCESS;
  CHECK(failure_of(Program::create(driver, sample_recipe(), {})).status == Status::kInvalidArgument);
  fake().current = nullptr;
  CHECK(failure_of(Program::create(driver, sample_recipe(), artifacts)).status == Status::kInvalidArgument);
  CHECK(fake().loads == fake().unloads + 1);  // the one whose load failed has nothing to unload
}

TEST_CASE("program: launches from a thread with another context go to the program's own", "[runtime]") {
  const Driver driver = reset_fake();
  {
    const auto program = sample_program(driver, sample_recipe());
    fake().current = reinterpret_cast<CUcontext>(0x77);
    fake().param_sizes.clear();
    must(program->launch({kX}, {kY}, {kScratch, 1024}, {8}, stream()));
    CHECK(fake().pushes == 1);
    CHECK(fake().pops == 1);
  }
  CHECK(fake().unloads == 1);
  CHECK(fake().pops == 2);
}

TEST_CASE("program: a launch the driver refuses names the kernel", "[runtime]") {
  const Driver driver = reset_fake();
  const auto program = sample_program(driver, sample_recipe());
  fake().param_sizes.clear();
  fake().launch_result = CUDA_ERROR_LAUNCH_FAILED;
  const ErrorFacts facts = failure_of(program->launch({kX}, {kY}, {kScratch, 1024}, {8}, stream()));
  CHECK(facts.status == Status::kDriver);
  CHECK(contains(facts.message, "tw_sample"));
}

TEST_CASE("program: storage of tensors", "[runtime]") {
  const SizeExpr n = SizeExpr::symbol(0);
  const TensorSpec dense{"x", DType::kF16, {n, 3, 5}, {}};
  CHECK(storage_elements(dense, {4}) == 60);
  CHECK(storage_bytes(dense, {4}) == 120);
  CHECK(storage_elements(dense, {0}) == 0);
  CHECK(storage_elements({"s", DType::kF32, {}, {}}, {}) == 1);
  CHECK(element_strides(dense, {4}) == llvm::SmallVector<std::int64_t, 6>{15, 5, 1});
  const TensorSpec strided{"x", DType::kF32, {2, 3}, {10, 2}};
  CHECK(storage_elements(strided, {}) == 15);
  CHECK(storage_elements({"x", DType::kF32, {n, n, n}, {}}, {4000000000}) == std::numeric_limits<std::int64_t>::max());
  CHECK(default_dims(sample_recipe().symbols) == llvm::SmallVector<std::int64_t, 4>{8});
}
