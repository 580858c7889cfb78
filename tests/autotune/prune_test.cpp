#include "autotune/prune.h"

#include "ops/json.h"
#include "runtime/error.h"
#include "tests/catch.h"

using namespace tilewright;

TEST_CASE("prune: blocks a multiprocessor follow threads, registers and shared memory", "[autotune]") {
  const SmModel sm = sm_model(Target{});
  CHECK(blocks_per_sm(sm, 256, 32, 0) == 8);
  CHECK(blocks_per_sm(sm, 256, 64, 0) == 4);
  CHECK(blocks_per_sm(sm, 32, 32, 0) == 32);
  CHECK(blocks_per_sm(sm, 256, 32, 100 << 10) == 2);
  CHECK(blocks_per_sm(sm, 1024, 255, 0) == 0);
  CHECK(blocks_per_sm(sm_model(Target{8, 6, false, false}), 1024, 32, 0) == 1);
}

TEST_CASE("prune: the reason names what is too much", "[autotune]") {
  const SmModel sm;
  Resources good{32, 0, 0, 256, 8};
  CHECK(prune_reason(good, sm, {"", "warning C7519"}).empty());
  CHECK(prune_reason(good, sm, {"", "warning C7510: potential"}).find("C7510") != std::string::npos);
  Resources spills = good;
  spills.local_bytes = 4096;
  CHECK(prune_reason(spills, sm, {}).find("4096 bytes of local memory") != std::string::npos);
  Resources large = good;
  large.blocks_per_sm = 0;
  CHECK(prune_reason(large, sm, {}).find("no block fits") != std::string::npos);
}

TEST_CASE("prune: the cost model ranks a grid of one block behind a full one", "[autotune]") {
  auto graph = parse_description(R"j({"name": "g", "inputs": {"x": {"dtype": "f32", "shape": [4096, 4096]}},
    "ops": [{"op": "relu", "in": ["x"], "out": "y"}], "outputs": ["y"]})j");
  REQUIRE(static_cast<bool>(graph));
  auto predicted = [&](const ConfigOverrides& overrides, unsigned local_bytes = 0) {
    CompileOptions options;
    options.overrides = overrides;
    auto prepared = prepare_program(*graph, options);
    REQUIRE(static_cast<bool>(prepared));
    CubinFacts facts;
    facts.registers = 32;
    facts.local_bytes = local_bytes;
    return predict_us(*graph, *prepared, {}, options.device, SmModel(), DeviceRates(), {facts});
  };
  CHECK(predicted({}) > 28);  // 128 MiB at 4.8 TB/s
  CHECK(predicted({}) < 40);
  CHECK(predicted({}, 256) > predicted({}));
}

TEST_CASE("candidate: the interval of a median holds it and narrows with samples", "[autotune]") {
  std::vector<double> few{3, 1, 2}, many;
  CHECK(median_interval(few).median == 2);
  CHECK(median_interval(few).low == 1);
  for (int i = 1; i <= 101; ++i) many.push_back(i);
  const Interval interval = median_interval(many);
  CHECK(interval.median == 51);
  CHECK(interval.low > 35);
  CHECK(interval.high < 67);
}

TEST_CASE("candidate: survives the way to JSON and back; damage is refused", "[autotune]") {
  Candidate candidate;
  candidate.config = {{"block_threads", 128}};
  candidate.fate = Fate::kWrong;
  candidate.reason = "differs";
  candidate.keys = {"abc"};
  candidate.resources = {40, 8, 1024, 128, 6};
  candidate.samples_us = {1.5, 2.5};
  candidate.normwise_error = 1e-7;
  auto back = parse_candidate(candidate_json(candidate));
  REQUIRE(static_cast<bool>(back));
  CHECK(back->config == candidate.config);
  CHECK(back->fate == Fate::kWrong);
  CHECK(back->samples_us == candidate.samples_us);
  CHECK(back->resources.shared_bytes == 1024);
  for (const char* key : {"config", "fate", "samples_us"}) {
    llvm::json::Object damaged = candidate_json(candidate);
    damaged[key] = "?";
    auto refused = parse_candidate(std::move(damaged));
    REQUIRE_FALSE(static_cast<bool>(refused));
    CHECK(take_error_facts(refused.takeError()).status == Status::kCorrupt);
  }
}

TEST_CASE("candidate: a tie goes to fewer resources, then to the config", "[autotune]") {
  Candidate a, b;
  a.config = {{"x", 2}};
  b.config = {{"x", 1}};
  CHECK(prefers(b, a));
  a.resources.registers = 10;
  b.resources.registers = 20;
  CHECK(prefers(a, b));
  a.resources.shared_bytes = 1;
  CHECK(prefers(b, a));
}
