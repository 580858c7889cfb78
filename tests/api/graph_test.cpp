#include <cstring>
#include <string>

#include "tests/api/api_support.h"

using namespace tilewright_tests;

TEST_CASE("api: the version is that of the header", "[api]") {
  const std::string prefix = std::to_string(TW_VERSION_MAJOR) + "." + std::to_string(TW_VERSION_MINOR) + ".";
  CHECK(std::string(tw_version()).substr(0, prefix.size()) == prefix);
}

TEST_CASE("api: an error may be asked about and destroyed when there is none", "[api]") {
  CHECK(tw_error_status(nullptr) == TW_OK);
  CHECK(std::string(tw_error_message(nullptr)).empty());
  tw_error_destroy(nullptr);
  tw_context_destroy(nullptr);
  tw_graph_destroy(nullptr);
  tw_program_destroy(nullptr);
}

TEST_CASE("api: a caller that wants no error object gets the status alone", "[api]") {
  tw_graph* graph = nullptr;
  CHECK(tw_graph_from_json("{", 1, &graph, nullptr) == TW_INVALID_ARGUMENT);
  CHECK(graph == nullptr);
}

TEST_CASE("api: success leaves no error behind", "[api]") {
  tw_graph* graph = nullptr;
  tw_error* error = reinterpret_cast<tw_error*>(&graph);  // what stood there before must not be taken for an error
  REQUIRE(tw_graph_from_json(kSoftmax.data(), kSoftmax.size(), &graph, &error) == TW_OK);
  CHECK(error == nullptr);
  tw_graph_destroy(graph);
}

TEST_CASE("api: a context needs no options, and options of an older caller are left alone", "[api]") {
  tw_context* context = nullptr;
  tw_error* error = nullptr;
  REQUIRE(tw_context_create(nullptr, &context, &error) == TW_OK);
  CHECK(error == nullptr);
  tw_context_destroy(context);

  // A size that ends before cache_directory: what lies there is not an option.
  const tw_context_options shorter{sizeof(size_t), reinterpret_cast<const char*>(8), 0, 0};
  REQUIRE(tw_context_create(&shorter, &context, &error) == TW_OK);
  tw_context_destroy(context);
}

TEST_CASE("api: null arguments are named", "[api]") {
  tw_error* error = nullptr;
  CHECK(contains(failure(tw_context_create(nullptr, nullptr, &error), error).message, "context is NULL"));
  tw_graph* graph = nullptr;
  CHECK(contains(failure(tw_graph_from_json(nullptr, 0, &graph, &error), error).message, "json is NULL"));
  CHECK(contains(failure(tw_graph_from_json("{}", 2, nullptr, &error), error).message, "graph is NULL"));

  const GraphHandle softmax = make_graph(kSoftmax);
  const ContextHandle context = make_context();
  tw_program* program = nullptr;
  CHECK(contains(failure(tw_program_create(nullptr, softmax.get(), "sm_90a", &program, &error), error).message, "context is NULL"));
  CHECK(contains(failure(tw_program_create(context.get(), nullptr, "sm_90a", &program, &error), error).message, "graph is NULL"));
  CHECK(contains(failure(tw_program_create(context.get(), softmax.get(), "sm_90a", nullptr, &error), error).message, "program is NULL"));
  size_t bytes = 0;
  CHECK(contains(failure(tw_program_workspace_bytes(nullptr, nullptr, &bytes, &error), error).message, "program is NULL"));
  CHECK(contains(failure(tw_program_launch(nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr, nullptr, &error), error).message,
                 "program is NULL"));
  CHECK(contains(failure(tw_program_load(nullptr, &error), error).message, "program is NULL"));
  const Failure initialize = failure(tw_program_initialize_workspace(nullptr, nullptr, nullptr, nullptr, &error), error);
  CHECK(contains(initialize.message, "program is NULL"));
  CHECK(initialize.status == TW_INVALID_ARGUMENT);
}

TEST_CASE("api: questions about no graph and no program have an answer", "[api]") {
  CHECK(std::string(tw_graph_signature(nullptr)).empty());
  CHECK(tw_program_kernel_count(nullptr) == 0);
  CHECK(tw_program_kernel_name(nullptr, 0) == nullptr);
  CHECK(tw_program_kernel_source(nullptr, 0) == nullptr);
  CHECK(tw_program_kernel_key(nullptr, 0) == nullptr);
  CHECK(tw_program_kernel_origin(nullptr, 0) == nullptr);
  CHECK(tw_program_dim_count(nullptr) == 0);
  CHECK(tw_program_dim_name(nullptr, 0) == nullptr);
}

TEST_CASE("api: bad JSON is refused with line and column", "[api]") {
  const Failure truncated = graph_failure("{\n  \"name\": \"a\",\n  \"inputs\": {");
  CHECK(truncated.status == TW_INVALID_ARGUMENT);
  CHECK(contains(truncated.message, "line 3, column 13"));
  CHECK(graph_failure("").status == TW_INVALID_ARGUMENT);
  CHECK(graph_failure("[]").status == TW_INVALID_ARGUMENT);
  CHECK(graph_failure(std::string_view("{\"name\0\": 1}", 12)).status == TW_INVALID_ARGUMENT);
}

TEST_CASE("api: the length given ends the description", "[api]") {
  const std::string longer = std::string(kSoftmax) + "garbage";
  tw_graph* graph = nullptr;
  tw_error* error = nullptr;
  REQUIRE(tw_graph_from_json(longer.data(), kSoftmax.size(), &graph, &error) == TW_OK);
  tw_graph_destroy(graph);
  CHECK(graph_failure(longer).status == TW_INVALID_ARGUMENT);
}

TEST_CASE("api: a wrong operand is refused with the shapes seen and wanted", "[api]") {
  const Failure shape = graph_failure(
      R"({"name": "a", "inputs": {"x": {"dtype": "f32", "shape": [8, 4]}, "t": {"dtype": "i64", "shape": [7]}},
          "ops": [{"op": "cross_entropy", "in": ["x", "t"], "out": "y"}], "outputs": ["y"]})");
  CHECK(shape.status == TW_INVALID_ARGUMENT);
  CHECK(contains(shape.message, "cross_entropy"));
  CHECK(contains(shape.message, "[7]"));
  CHECK(contains(shape.message, "[8]"));
}

TEST_CASE("api: an unknown operator is refused with the nearest known one", "[api]") {
  const Failure unknown = graph_failure(
      R"({"name": "a", "inputs": {"x": {"dtype": "f32", "shape": [8, 4]}}, "ops": [{"op": "sofmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})");
  CHECK(unknown.status == TW_INVALID_ARGUMENT);
  CHECK(contains(unknown.message, "softmax"));
}

TEST_CASE("api: bf16x3 is refused as not offered", "[api]") {
  const Failure refused = graph_failure(
      R"({"name": "a", "precision": "bf16x3", "inputs": {"x": {"dtype": "f32", "shape": [4]}},
          "ops": [{"op": "relu", "in": ["x"], "out": "y"}], "outputs": ["y"]})");
  CHECK(refused.status == TW_UNSUPPORTED);
  CHECK(contains(refused.message, "bf16x3"));
}

TEST_CASE("api: the signature is that of the meaning", "[api]") {
  const std::string signature = tw_graph_signature(make_graph(kSoftmax).get());
  CHECK(signature.size() == 32);
  CHECK(signature.find_first_not_of("0123456789abcdef") == std::string::npos);
  const GraphHandle renamed = make_graph(
      R"({"name": "other", "inputs": {"in": {"dtype": "f32", "shape": ["N", 64]}},
          "dims": {"N": {"default": 16, "min": 1, "max": 4096}},
          "ops": [{"op": "softmax", "in": ["in"], "out": "out", "axis": 1}], "outputs": ["out"]})");
  CHECK(signature == tw_graph_signature(renamed.get()));
  const GraphHandle other_axis = make_graph(
      R"({"name": "softmax", "inputs": {"x": {"dtype": "f32", "shape": ["N", 64]}},
          "dims": {"N": {"default": 16, "min": 1, "max": 4096}},
          "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 0}], "outputs": ["y"]})");
  CHECK(signature != tw_graph_signature(other_axis.get()));
}
