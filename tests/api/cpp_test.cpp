// The C++ handles over the C interface.
#include <fstream>
#include <string>
#include <type_traits>

#include "runtime/api/tilewright.hpp"
#include "tests/api/api_support.h"

using namespace tilewright_tests;

static_assert(std::is_nothrow_move_constructible_v<tilewright::Program> && !std::is_copy_constructible_v<tilewright::Program>);
static_assert(std::is_nothrow_move_constructible_v<tilewright::Graph> && !std::is_copy_constructible_v<tilewright::Graph>);
static_assert(std::is_nothrow_move_constructible_v<tilewright::Context> && !std::is_copy_constructible_v<tilewright::Context>);

namespace {

// Status and text of what an action throws.
template <typename Action>
Failure thrown(Action action) {
  try {
    action();
  } catch (const tilewright::Error& error) {
    return {error.status(), error.what()};
  }
  return {TW_OK, "nothing was thrown"};
}

}  // namespace

TEST_CASE("api: the C++ handles compile a graph", "[api]") {
  tilewright::Context context(tw_context_options{sizeof(tw_context_options), "", 0, 0});
  const auto graph = tilewright::Graph::from_json(kSoftmax);
  CHECK(graph.signature().size() == 32);
  tilewright::Program program = context.compile(graph, "sm_90a");
  REQUIRE(program.kernel_count() == 1);
  CHECK(contains(program.kernel_source(0), program.kernel_name(0)));
  CHECK(program.kernel_origin(0) == "compiled");
  CHECK(program.workspace_bytes() == 0);
  const tilewright::Program moved = std::move(program);
  CHECK(moved.kernel_count() == 1);
}

TEST_CASE("api: the C++ handles throw the status and the message", "[api]") {
  const Failure bad = thrown([] { tilewright::Graph::from_json("{"); });
  CHECK(bad.status == TW_INVALID_ARGUMENT);
  CHECK(bad.message == graph_failure("{").message);

  tilewright::Context context(tw_context_options{sizeof(tw_context_options), "", 0, 0});
  const auto graph = tilewright::Graph::from_json(kSoftmax);
  CHECK(thrown([&] { context.compile(graph, "sm_1"); }).status == TW_INVALID_ARGUMENT);
}

TEST_CASE("api: a description is read from a file, and a missing file is named", "[api]") {
  const ScratchDirectory directory;
  const std::string path = directory.path("softmax.json");
  std::ofstream(path) << kSoftmax;
  CHECK(tilewright::Graph::from_file(path).signature() == tilewright::Graph::from_json(kSoftmax).signature());
  const Failure missing = thrown([&] { tilewright::Graph::from_file(path + ".not"); });
  CHECK(missing.status == TW_IO);
  CHECK(contains(missing.message, path + ".not"));
}
