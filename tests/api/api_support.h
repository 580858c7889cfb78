// Handles and descriptions that the tests of the C interface share.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/api/tilewright.h"
#include "tests/catch.h"
#include "tests/scratch.h"

namespace tilewright_tests {

using tilewright::tests::ScratchDirectory;

template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* handle) const {
    kDestroy(handle);
  }
};
using ErrorHandle = std::unique_ptr<tw_error, Destroy<&tw_error_destroy>>;
using ContextHandle = std::unique_ptr<tw_context, Destroy<&tw_context_destroy>>;
using GraphHandle = std::unique_ptr<tw_graph, Destroy<&tw_graph_destroy>>;
using ProgramHandle = std::unique_ptr<tw_program, Destroy<&tw_program_destroy>>;

// f32 [N, 64] -> softmax; one kernel.
inline constexpr std::string_view kSoftmax =
    R"({"name": "softmax", "inputs": {"x": {"dtype": "f32", "shape": ["N", 64]}},
        "dims": {"N": {"default": 16, "min": 1, "max": 4096}},
        "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": -1}], "outputs": ["y"]})";

// A sum over everything, split over blocks: its partial sums and counter lie in the workspace.
inline constexpr std::string_view kSum =
    R"({"name": "sum", "inputs": {"x": {"dtype": "f32", "shape": ["N", 1024]}},
        "dims": {"N": {"default": 4096, "min": 1, "max": 65536}},
        "ops": [{"op": "reduce", "in": ["x"], "out": "y", "kind": "sum", "axes": [0, 1]}], "outputs": ["y"]})";

// cache_directory "": nothing but memory.
inline ContextHandle make_context(const std::string& cache_directory = "") {
  const tw_context_options options{sizeof(tw_context_options), cache_directory.c_str(), 0, 0};
  tw_context* context = nullptr;
  tw_error* error = nullptr;
  const tw_status status = tw_context_create(&options, &context, &error);
  const ErrorHandle owner(error);
  INFO(tw_error_message(error));
  REQUIRE(status == TW_OK);
  REQUIRE(error == nullptr);
  return ContextHandle(context);
}

inline GraphHandle make_graph(std::string_view json) {
  tw_graph* graph = nullptr;
  tw_error* error = nullptr;
  const tw_status status = tw_graph_from_json(json.data(), json.size(), &graph, &error);
  const ErrorHandle owner(error);
  INFO(tw_error_message(error));
  REQUIRE(status == TW_OK);
  return GraphHandle(graph);
}

// An outcome that must be an error: no result, and both forms of the status agree.
struct Failure {
  tw_status status;
  std::string message;
};

// `error` by reference: the call that gives `status` may be evaluated after the copy of a pointer.
inline Failure failure(tw_status status, tw_error*& error) {
  const ErrorHandle owner(error);
  REQUIRE(status != TW_OK);
  REQUIRE(error != nullptr);
  CHECK(tw_error_status(error) == status);
  return {status, tw_error_message(error)};
}

inline Failure graph_failure(std::string_view json) {
  tw_graph* graph = nullptr;
  tw_error* error = nullptr;
  const tw_status status = tw_graph_from_json(json.data(), json.size(), &graph, &error);
  CHECK(graph == nullptr);
  return failure(status, error);
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Files below a directory whose names end so.
inline std::size_t file_count(const std::string& directory, std::string_view extension) {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) found += entry.path().extension() == extension;
  return found;
}

}  // namespace tilewright_tests
