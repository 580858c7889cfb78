// What `tune` is asked for: dimensions, folders, manifests, devices.
#include "tools/tune_jobs.h"

#include <filesystem>

#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/tools/tool_process.h"
#include "tools/tune_display.h"
#include "tools/tune_place.h"

using namespace tilewright;
using namespace tilewright::cli;
using namespace tilewright_tests;

namespace {

const char* const kBaked = R"j({
  "name": "two_dims", "inputs": {"x": {"dtype": "f32", "shape": ["N", "M", "D"]}},
  "dims": {"N": {"default": 100, "min": 1, "max": 4096}, "M": {"default": 4, "min": 1, "max": 8},
           "D": {"default": 64, "min": 1, "max": 512, "baked": true}},
  "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 2}], "outputs": ["y"]
})j";

template <typename T>
T value(llvm::Expected<T> expected) {
  if (!expected) FAIL(take_error_facts(expected.takeError()).message);
  return std::move(*expected);
}

template <typename T>
std::string message(llvm::Expected<T> expected) {
  if (expected) return "no error";
  ErrorFacts facts = take_error_facts(expected.takeError());
  CHECK(facts.status == Status::kInvalidArgument);
  return facts.message;
}

std::string manifest_error(const std::string& text) { return message(parse_manifest(text, "dir/suite.json")); }

}  // namespace

TEST_CASE("tune jobs: one value is a size, lists and ranges are buckets, a baked dimension makes several", "[tools]") {
  const ScratchDirectory scratch;
  const std::string file = scratch.write("two.json", kBaked);
  auto jobs_of = [&](std::vector<std::string> dims) { return value(collect_tune_jobs({file}, dims, "")); };
  const std::vector<TuneJob> plain = jobs_of({});
  REQUIRE(plain.size() == 1);
  CHECK(plain[0].fixed == llvm::SmallVector<bool, 4>{false, false});
  CHECK(plain[0].at == Dims{100, 4});
  CHECK(plain[0].ranges == std::vector<Bucket>{{{100, 4}, {100, 4}}});

  const std::vector<TuneJob> fixed = jobs_of({"N=70", "M=3"});
  CHECK(fixed[0].fixed == llvm::SmallVector<bool, 4>{true, true});
  CHECK(fixed[0].at == Dims{70, 3});

  const std::vector<TuneJob> several = jobs_of({"N=64..300,1024,D=32,128"});
  REQUIRE(several.size() == 2);
  CHECK(several[0].baked == std::vector<std::string>{"D=32"});
  CHECK(several[1].graph.baked_dims()[0].default_value == 128);
  CHECK_FALSE(several[0].fixed[0]);
  CHECK(several[0].ranges == std::vector<Bucket>{{{64, 4}, {300, 4}}, {{1024, 4}, {1024, 4}}});
}

TEST_CASE("tune jobs: dimensions that cannot be are refused with their item", "[tools]") {
  const ScratchDirectory scratch;
  const std::string file = scratch.write("two.json", kBaked);
  auto error = [&](const std::string& dim) { return message(collect_tune_jobs({file}, {dim}, "")); };
  CHECK(contains(error("N"), "wants NAME=VALUE"));
  CHECK(contains(error("N="), "wants NAME=VALUE"));
  CHECK(contains(error("=3"), "wants NAME=VALUE"));
  CHECK(contains(error("N=1,"), "wants NAME=VALUE"));
  CHECK(contains(error("N=x"), "'x' is not a whole number"));
  CHECK(contains(error("N=9..3"), "the range 9..3 has no value"));
  CHECK(contains(error("N=3..x"), "'x' is not a whole number"));
  CHECK(contains(error("N=1..5000"), "N must be in [1, 4096], got 5000"));
  CHECK(contains(error("N=8,0"), "N must be in [1, 4096], got 0"));
  CHECK(contains(error("NN=8"), "unknown dimension 'NN'"));
  CHECK(contains(error("N=8,N=9"), "given twice"));
  CHECK(contains(error("D=8..16"), "D is part of the kernel"));
}

TEST_CASE("tune jobs: a manifest lists descriptions relative to itself, with dims and targets of their own", "[tools]") {
  const ScratchDirectory scratch;
  std::filesystem::create_directory(scratch.path("sub"));
  scratch.write("sub/two.json", kBaked);
  const std::string manifest = scratch.write("suite.json", R"j({"descriptions": [
    {"file": "sub/two.json", "dims": {"N": [128, "256..1024"], "D": 32}, "targets": ["sm_100a"]}, {"file": "sub/two.json"}]})j");
  const std::vector<TuneJob> jobs = value(collect_tune_jobs({manifest}, {"N=70", "M=3"}, "sm_80"));
  REQUIRE(jobs.size() == 2);
  CHECK(std::filesystem::equivalent(jobs[0].file, scratch.path("sub/two.json")));
  CHECK(jobs[0].ranges == std::vector<Bucket>{{{128, 3}, {128, 3}}, {{256, 3}, {1024, 3}}});  // the manifest's N before that of --dim
  CHECK(jobs[0].baked == std::vector<std::string>{"D=32"});
  CHECK(jobs[0].targets == std::vector<Target>{value(parse_target("sm_100a"))});
  CHECK(jobs[1].at == Dims{70, 3});
  CHECK(jobs[1].targets == std::vector<Target>{value(parse_target("sm_80"))});
  // In a directory the descriptions count; that of a manifest among them is no description.
  CHECK(value(collect_tune_jobs({scratch.path()}, {}, "")).size() == 1);
  scratch.write("sub/two.json", "{");
  CHECK(contains(message(collect_tune_jobs({manifest}, {}, "")), "sub/two.json"));
}

TEST_CASE("tune jobs: a manifest that is wrong gives one error with its place", "[tools]") {
  CHECK(contains(manifest_error("{"), "dir/suite.json: not JSON: "));
  CHECK(contains(manifest_error("[]"), "dir/suite.json: the manifest must be an object"));
  CHECK(contains(manifest_error("{}"), "dir/suite.json: descriptions must be a list"));
  CHECK(contains(manifest_error(R"j({"descriptions": []})j"), "descriptions must be a list of at least one"));
  CHECK(contains(manifest_error(R"j({"descriptions": [], "descripions": []})j"),
                 "unknown key \"descripions\"; did you mean \"descriptions\"?"));
  auto entry = [](const std::string& text) { return manifest_error("{\"descriptions\": [{\"file\": \"a.json\"}, " + text + "]}"); };
  CHECK(contains(entry("3"), "dir/suite.json: descriptions[1] must be an object"));
  CHECK(contains(entry("{}"), "descriptions[1]: \"file\" is missing"));
  CHECK(contains(entry(R"j({"file": ""})j"), "descriptions[1].file must be the path"));
  CHECK(contains(entry(R"j({"file": "a", "dim": {}})j"), "descriptions[1]: unknown key \"dim\"; did you mean \"dims\"?"));
  CHECK(contains(entry(R"j({"file": "a", "dims": []})j"), "descriptions[1].dims must be an object"));
  CHECK(contains(entry(R"j({"file": "a", "dims": {"N": true}})j"), "descriptions[1].dims.N must be a whole number"));
  CHECK(contains(entry(R"j({"file": "a", "dims": {"N": []}})j"), "descriptions[1].dims.N must be a whole number"));
  CHECK(contains(entry(R"j({"file": "a", "dims": {"N": [1, 1.5]}})j"), "descriptions[1].dims.N[1] must be a whole number"));
  CHECK(contains(entry(R"j({"file": "a", "dims": {"N": "5..x"}})j"), "descriptions[1].dims.N: 'x' is not"));
  CHECK(contains(entry(R"j({"file": "a", "targets": "sm_90a"})j"), "descriptions[1].targets must be a list"));
  CHECK(contains(entry(R"j({"file": "a", "targets": ["sm_90b"]})j"), "descriptions[1].targets[0]: "));
  CHECK(manifest_error(R"j({"descriptions": [{"file": "/a.json"}]})j") == "no error");
}

TEST_CASE("tune places: devices of one model share its problems, another model has its own", "[tools]") {
  auto place = [](const char* device, const char* target) {
    Place p;
    p.device = device;
    p.target = value(parse_target(target));
    return p;
  };
  const std::vector<Place> places{place("A", "sm_90a"), place("B", "sm_90a"), place("A", "sm_90a"), place("B", "sm_100a")};
  CHECK(models_of(places) == std::vector<std::vector<std::size_t>>{{0, 2}, {1}, {3}});
  CHECK(models_of({}).empty());
}

TEST_CASE("tune display: best so far, floor, candidates and time left", "[tools]") {
  TuneProgress progress;
  progress.tried = 12;
  progress.in_flight = 3;
  progress.best_us = 10.2;
  progress.default_us = 11;
  progress.seconds = 37.2;
  progress.budget_s = 60;
  CHECK(progress_text(progress, 8.1, true) == "12 tried, 3 compiling, best 10.20 us (floor 8.10, default 11.00), 23 s left");
  progress.phase = "final";
  CHECK(progress_text(progress, 0, false) == "12 tried, 3 compiling, best 10.20 us (default 11.00), settling");
  CHECK(progress_text({}, 8.1, false) == "0 tried");
  progress.seconds = 61;
  CHECK(contains(progress_text(progress, 0, true), ", 0 s left"));
}
