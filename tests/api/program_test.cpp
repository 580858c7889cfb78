// Programs without a GPU: compiled for sm_90a, looked at, never launched. Cases that compile need NVRTC.
#include <dlfcn.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/api_support.h"

using namespace tilewright_tests;

namespace {

ProgramHandle make_program(tw_context* context, const tw_graph* graph, const char* target = "sm_90a") {
  tw_program* program = nullptr;
  tw_error* error = nullptr;
  const tw_status status = tw_program_create(context, graph, target, &program, &error);
  const ErrorHandle owner(error);
  INFO(tw_error_message(error));
  REQUIRE(status == TW_OK);
  return ProgramHandle(program);
}

bool has_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

std::size_t workspace_bytes(const tw_program* program, const int64_t* dims) {
  std::size_t bytes = ~std::size_t{0};
  tw_error* error = nullptr;
  const tw_status status = tw_program_workspace_bytes(program, dims, &bytes, &error);
  const ErrorHandle owner(error);
  INFO(tw_error_message(error));
  REQUIRE(status == TW_OK);
  return bytes;
}

}  // namespace

TEST_CASE("api: a program shows its kernel", "[api]") {
  const ContextHandle context = make_context();
  const ProgramHandle program = make_program(context.get(), make_graph(kSoftmax).get());
  REQUIRE(tw_program_kernel_count(program.get()) == 1);
  const std::string name = tw_program_kernel_name(program.get(), 0);
  const std::string source = tw_program_kernel_source(program.get(), 0);
  const std::string key = tw_program_kernel_key(program.get(), 0);
  CHECK(contains(name, "tw_"));
  CHECK(contains(source, "extern \"C\" __global__"));
  CHECK(contains(source, name + "("));
  CHECK(key.size() == 64);
  CHECK(key.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(tw_program_kernel_name(program.get(), 1) == nullptr);
  CHECK(tw_program_kernel_source(program.get(), 1) == nullptr);
  CHECK(tw_program_kernel_key(program.get(), 1) == nullptr);
  CHECK(tw_program_kernel_origin(program.get(), 1) == nullptr);
}

TEST_CASE("api: a program outlives its context and its graph", "[api]") {
  ProgramHandle program;
  {
    const ContextHandle context = make_context();
    program = make_program(context.get(), make_graph(kSoftmax).get());
  }
  CHECK(contains(tw_program_kernel_source(program.get(), 0), "__global__"));
  CHECK(workspace_bytes(program.get(), nullptr) == 0);
}

TEST_CASE("api: the same kernel comes from memory the second time, with the same key", "[api]") {
  const ContextHandle context = make_context();
  const GraphHandle graph = make_graph(kSoftmax);
  const ProgramHandle first = make_program(context.get(), graph.get());
  const ProgramHandle second = make_program(context.get(), graph.get());
  CHECK(std::string(tw_program_kernel_origin(first.get(), 0)) == "compiled");
  CHECK(std::string(tw_program_kernel_origin(second.get(), 0)) == "memory");
  CHECK(std::string(tw_program_kernel_key(first.get(), 0)) == tw_program_kernel_key(second.get(), 0));
}

TEST_CASE("api: another context finds the kernel in the directory", "[api]") {
  const ScratchDirectory directory;
  const GraphHandle graph = make_graph(kSoftmax);
  const ContextHandle writer = make_context(directory.path());
  CHECK(std::string(tw_program_kernel_origin(make_program(writer.get(), graph.get()).get(), 0)) == "compiled");
  CHECK(file_count(directory.path(), ".twk") == 1);
  const ContextHandle reader = make_context(directory.path());
  CHECK(std::string(tw_program_kernel_origin(make_program(reader.get(), graph.get()).get(), 0)) == "directory");
  CHECK(std::string(tw_program_kernel_origin(make_program(reader.get(), graph.get()).get(), 0)) == "memory");
}

TEST_CASE("api: a directory that cannot be written costs no kernel", "[api]") {
  const ScratchDirectory directory;
  const std::string file = directory.path("file");
  std::ofstream(file) << "not a directory";
  const ContextHandle context = make_context(file + "/store");
  const ProgramHandle program = make_program(context.get(), make_graph(kSoftmax).get());
  CHECK(std::string(tw_program_kernel_origin(program.get(), 0)) == "compiled");
}

TEST_CASE("api: with cache_directory \"\" nothing is written", "[api]") {
  const ScratchDirectory directory;
  const char* before = std::getenv("TILEWRIGHT_CACHE_DIR");
  const std::string saved = before ? before : "";
  setenv("TILEWRIGHT_CACHE_DIR", directory.path().c_str(), 1);
  const GraphHandle graph = make_graph(kSoftmax);
  const ContextHandle in_memory = make_context("");
  const ProgramHandle program = make_program(in_memory.get(), graph.get());
  CHECK(std::filesystem::is_empty(directory.path()));

  // NULL takes the variable: that the directory stays empty above is not for want of being looked at.
  const tw_context_options options{sizeof(tw_context_options), nullptr, 1, 0};
  tw_context* context = nullptr;
  REQUIRE(tw_context_create(&options, &context, nullptr) == TW_OK);
  const ContextHandle from_environment(context);
  const ProgramHandle stored = make_program(from_environment.get(), graph.get());
  CHECK(file_count(directory.path(), ".twk") == 1);
  if (before) {
    setenv("TILEWRIGHT_CACHE_DIR", saved.c_str(), 1);
  } else {
    unsetenv("TILEWRIGHT_CACHE_DIR");
  }
}

TEST_CASE("api: each target has a kernel of its own", "[api]") {
  const ContextHandle context = make_context();
  const GraphHandle graph = make_graph(kSoftmax);
  const ProgramHandle hopper = make_program(context.get(), graph.get(), "sm_90a");
  const ProgramHandle blackwell = make_program(context.get(), graph.get(), "sm_100a");
  CHECK(std::string(tw_program_kernel_origin(blackwell.get(), 0)) == "compiled");
  CHECK(std::string(tw_program_kernel_key(hopper.get(), 0)) != tw_program_kernel_key(blackwell.get(), 0));
}

TEST_CASE("api: a target that does not exist is refused with the nearest known one", "[api]") {
  const ContextHandle context = make_context();
  tw_program* program = nullptr;
  tw_error* error = nullptr;
  const Failure refused = failure(tw_program_create(context.get(), make_graph(kSoftmax).get(), "sm_90b", &program, &error), error);
  CHECK(refused.status == TW_INVALID_ARGUMENT);
  CHECK(contains(refused.message, "sm_90b"));
  CHECK(contains(refused.message, "sm_90a"));
  CHECK(program == nullptr);
}

TEST_CASE("api: named dimensions come in the order of the description", "[api]") {
  const ContextHandle context = make_context();
  const GraphHandle graph = make_graph(
      R"({"name": "relu", "inputs": {"x": {"dtype": "f32", "shape": ["rows", "cols"]}},
          "dims": {"rows": {"default": 4, "min": 1, "max": 64}, "cols": {"default": 8, "min": 1, "max": 64}},
          "ops": [{"op": "relu", "in": ["x"], "out": "y"}], "outputs": ["y"]})");
  const ProgramHandle program = make_program(context.get(), graph.get());
  REQUIRE(tw_program_dim_count(program.get()) == 2);
  CHECK(std::string(tw_program_dim_name(program.get(), 0)) == "rows");
  CHECK(std::string(tw_program_dim_name(program.get(), 1)) == "cols");
  CHECK(tw_program_dim_name(program.get(), 2) == nullptr);
}

TEST_CASE("api: workspace bytes follow the dimensions, and NULL means the defaults", "[api]") {
  const ContextHandle context = make_context();
  const ProgramHandle softmax = make_program(context.get(), make_graph(kSoftmax).get());
  CHECK(workspace_bytes(softmax.get(), nullptr) == 0);

  const ProgramHandle sum = make_program(context.get(), make_graph(kSum).get());
  const std::array<int64_t, 1> defaults = {4096};
  CHECK(workspace_bytes(sum.get(), nullptr) > 0);
  CHECK(workspace_bytes(sum.get(), nullptr) == workspace_bytes(sum.get(), defaults.data()));
}

TEST_CASE("api: a dimension outside its range is refused", "[api]") {
  const ContextHandle context = make_context();
  const ProgramHandle program = make_program(context.get(), make_graph(kSoftmax).get());
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{4097}}) {
    std::size_t bytes = 0;
    tw_error* error = nullptr;
    const Failure refused = failure(tw_program_workspace_bytes(program.get(), &value, &bytes, &error), error);
    CHECK(refused.status == TW_INVALID_ARGUMENT);
    CHECK(contains(refused.message, "N"));
    CHECK(contains(refused.message, std::to_string(value)));
  }
}

TEST_CASE("api: a launch without a driver or a current context says so", "[api]") {
  const ContextHandle context = make_context();
  const ProgramHandle program = make_program(context.get(), make_graph(kSoftmax).get());
  const void* input = nullptr;
  void* output = nullptr;
  tw_error* error = nullptr;
  const Failure launch = failure(tw_program_launch(program.get(), &input, 1, &output, 1, nullptr, nullptr, nullptr, &error), error);
  const Failure load = failure(tw_program_load(program.get(), &error), error);
  if (has_driver()) {
    // A driver that finds no GPU is one more thing that can be missing.
    CHECK((launch.status == TW_INVALID_ARGUMENT || launch.status == TW_MISSING));
  } else {
    CHECK(launch.status == TW_MISSING);
    CHECK(contains(launch.message, "libcuda.so.1"));
  }
  CHECK(load.status == launch.status);
  CHECK(load.message == launch.message);
}

TEST_CASE("api: without a target and a GPU the missing driver is named", "[api]") {
  if (has_driver()) return;
  const ContextHandle context = make_context();
  tw_program* program = nullptr;
  tw_error* error = nullptr;
  const Failure missing = failure(tw_program_create(context.get(), make_graph(kSoftmax).get(), nullptr, &program, &error), error);
  CHECK(missing.status == TW_MISSING);
  CHECK(contains(missing.message, "libcuda.so.1"));
}

TEST_CASE("api: many threads share a context and get the same kernel", "[api]") {
  const ContextHandle context = make_context();
  const GraphHandle graph = make_graph(kSoftmax);
  std::array<std::string, 4> keys;
  std::vector<std::thread> threads;
  for (std::string& key : keys) {
    threads.emplace_back([&context, &graph, &key] {
      tw_program* program = nullptr;
      if (tw_program_create(context.get(), graph.get(), "sm_90a", &program, nullptr) != TW_OK) return;
      key = tw_program_kernel_key(program, 0);
      tw_program_destroy(program);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(keys[0].size() == 64);
  for (const std::string& key : keys) CHECK(key == keys[0]);
  CHECK(std::string(tw_program_kernel_origin(make_program(context.get(), graph.get()).get(), 0)) == "memory");
}
