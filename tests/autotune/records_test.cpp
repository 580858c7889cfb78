#include "autotune/records.h"
#include "autotune/tester.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "runtime/error.h"
#include "tests/catch.h"
#include "tests/graphs.h"
#include "tests/scratch.h"

using namespace tilewright;
using tilewright::tests::graph_of;
using tilewright::tests::ScratchDirectory;

namespace {

const char* const kGraph = R"j({"name": "g", "dims": {"N": {"default": 100, "min": 1, "max": 4096}},
  "inputs": {"x": {"dtype": "f32", "shape": ["N", 40]}},
  "ops": [{"op": "softmax", "in": ["x"], "out": "y", "axis": 1}], "outputs": ["y"]})j";

const ConfigOverrides kWinner{{"block_threads", 128}};

// A record as a tuning at N makes it.
TuningRecord record_at(std::int64_t n, const std::string& device = "GPU A", double us = 5, const std::string& space = "space-1",
                       llvm::ArrayRef<BucketSplit> splits = {}) {
  const Graph graph = graph_of(kGraph);
  const std::vector<std::int64_t> dims{n};
  const Verifier verifier(graph, dims);
  VerificationReport report;
  report.config = kWinner;
  for (const VerifyCase& c : verifier.cases()) report.cases.push_back({c.name, true, 1e-7, ""});
  auto verified = verifier.accept(kWinner, report);
  if (!verified) FAIL(take_error_facts(verified.takeError()).message);
  Candidate candidate;
  candidate.config = kWinner;
  candidate.fate = Fate::kMeasured;
  candidate.samples_us = {us, us, us};
  auto record =
      make_record(record_problem(graph, dims, device, Target{}, "cold", true, splits), *verified, {{candidate}, kWinner, space, {}});
  if (!record) FAIL(take_error_facts(record.takeError()).message);
  return std::move(*record);
}

RecordHit look(const RecordStore& store, std::int64_t n, const std::string& device = "GPU A", const std::string& space = "space-1") {
  const Graph graph = graph_of(kGraph);
  const std::vector<std::int64_t> dims{n};
  return store.index(record_problem(graph, dims, device, Target{}, "cold"), graph.symbols(), space).hit(dims);
}

void write(const RecordStore& store, const TuningRecord& record) {
  if (llvm::Error error = store.write(record)) FAIL(take_error_facts(std::move(error)).message);
}

}  // namespace

TEST_CASE("records: a lookup says how it matched", "[autotune]") {
  const ScratchDirectory scratch;
  const RecordStore store({scratch.path(), {}});
  CHECK(look(store, 100).match == Match::kNone);
  write(store, record_at(100));
  CHECK(look(store, 100).match == Match::kExact);
  CHECK(look(store, 100).config == kWinner);
  CHECK(look(store, 65).match == Match::kBucket);
  CHECK(look(store, 64).match == Match::kNearest);
  CHECK(look(store, 100, "GPU B").match == Match::kOtherDevice);
  write(store, record_at(1000));
  CHECK(look(store, 2000).path.find("-1000-") != std::string::npos);
  CHECK(look(store, 20).path.find("-100-") != std::string::npos);
}

TEST_CASE("records: a lookup goes by the splits that records of the same device carry", "[autotune]") {
  const ScratchDirectory scratch;
  const RecordStore store({scratch.path(), {}});
  const Graph graph = graph_of(kGraph);
  const std::vector<BucketSplit> splits{{Bucket{{65}, {128}}, 0, 91}};
  write(store, record_at(128));
  CHECK(look(store, 70).match == Match::kBucket);
  const RecordProblem problem = record_problem(graph, {70}, "GPU A", Target{}, "cold");
  auto known_splits = [&] { return store.index(problem, graph.symbols(), "space-1").splits().vec(); };
  CHECK(known_splits().empty());
  // Another device's splits are its own.
  write(store, record_at(128, "GPU B", 5, "space-1", splits));
  CHECK(look(store, 70).match == Match::kBucket);
  write(store, record_at(128, "GPU A", 5, "space-1", splits));
  CHECK(look(store, 92).match == Match::kBucket);
  CHECK(look(store, 91).match == Match::kNearest);
  REQUIRE(known_splits().size() == 1);
  CHECK(known_splits()[0].at == 91);
  write(store, record_at(91, "GPU A", 5, "space-1", splits));
  CHECK(look(store, 70).match == Match::kBucket);
  CHECK(look(store, 70).path.find("-91-") != std::string::npos);
  // As the nearest by size 90 would go to 91; by bucket 92 goes to 128.
  CHECK(look(store, 92).path.find("-128-") != std::string::npos);
}

TEST_CASE("records: the bucket and its splits are read as they were written, and a split that cuts nothing is refused", "[autotune]") {
  const std::vector<BucketSplit> splits{{Bucket{{65}, {128}}, 0, 91}};
  const std::string text = record_at(91, "GPU A", 5, "space-1", splits).text();
  auto record = TuningRecord::parse(text);
  REQUIRE(static_cast<bool>(record));
  CHECK(record->problem().bucket == Bucket{{65}, {91}});
  REQUIRE(record->problem().splits.size() == 1);
  CHECK(record->problem().splits[0].upper() == Bucket{{92}, {128}});
  CHECK(record_text(*record).find("bucket  [65] to [91], after 1 split\n") != std::string::npos);
  for (const char* at : {"\"at\": 128", "\"at\": 64", "\"at\": true"}) {
    std::string bad = text;
    const std::string good = "\"at\": 91";
    bad.replace(bad.find(good), good.size(), at);
    auto refused = TuningRecord::parse(bad);
    REQUIRE_FALSE(static_cast<bool>(refused));
    CHECK(take_error_facts(refused.takeError()).message.find("does not cut") != std::string::npos);
  }
}

TEST_CASE("records: a corrupt file, another version and a changed space are ignored with a note", "[autotune]") {
  const ScratchDirectory scratch;
  const RecordStore store({scratch.path(), {}});
  const TuningRecord record = record_at(100);
  write(store, record);
  const RecordHit other = look(store, 100, "GPU A", "space-2");
  CHECK(other.match == Match::kNone);
  REQUIRE(other.notes.size() == 1);
  CHECK(other.notes[0].find("space has changed") != std::string::npos);
  const std::string path = scratch.path() + "/" + record.file_name();
  std::string text = record.text();
  auto rewrite = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; };
  for (const std::string& bad : {text.substr(0, text.size() / 2), std::string("{}"), std::string()}) {
    rewrite(bad);
    const RecordHit hit = look(store, 100);
    CHECK(hit.match == Match::kNone);
    CHECK(hit.notes.size() == 1);
  }
  const std::string version = "\"format\": 2";
  text.replace(text.find(version), version.size(), "\"format\": 9");
  rewrite(text);
  REQUIRE(look(store, 100).notes.size() == 1);
  CHECK(look(store, 100).notes[0].find("format 9") != std::string::npos);
}

TEST_CASE("records: an edited file whose winner was not verified is no record", "[autotune]") {
  std::string text = record_at(100).text();
  const std::string fate = "\"measured\"";
  text.replace(text.find(fate), fate.size(), "\"wrong\"");
  auto record = TuningRecord::parse(text);
  REQUIRE_FALSE(static_cast<bool>(record));
  CHECK(take_error_facts(record.takeError()).message.find("not verified") != std::string::npos);
}

TEST_CASE("records: the writable directory goes before the layers, and merging keeps the faster", "[autotune]") {
  const ScratchDirectory mine, theirs;
  const RecordStore layer({theirs.path(), {}});
  write(layer, record_at(100, "GPU A", 4));
  const RecordStore store({mine.path(), {theirs.path()}});
  CHECK(look(store, 100).path.find(theirs.path()) == 0);
  write(store, record_at(100, "GPU A", 5));
  CHECK(look(store, 100).path.find(mine.path()) == 0);
  auto lines = merge_records(store, theirs.path());
  REQUIRE(static_cast<bool>(lines));
  REQUIRE(lines->size() == 1);
  CHECK(lines->front().find("taken") != std::string::npos);
  auto merged = read_record(look(store, 100).path);
  REQUIRE(static_cast<bool>(merged));
  CHECK(merged->winner_us() == 4);
  CHECK(record_diff(*merged, record_at(100, "GPU A", 4)).empty());
  CHECK(record_diff(*merged, record_at(100, "GPU A", 5)).find("5.00 us") != std::string::npos);
}

TEST_CASE("verifier: a report on another config, with a failed or a missing case, verifies nothing", "[autotune]") {
  const Graph graph = graph_of(kGraph);
  const std::vector<std::int64_t> dims{100};
  const Verifier verifier(graph, dims);
  VerificationReport report;
  report.config = kWinner;
  auto accepted = [&](const VerificationReport& r) {
    auto verified = verifier.accept(kWinner, r);
    if (verified) return true;
    CHECK(take_error_facts(verified.takeError()).status == Status::kMismatch);
    return false;
  };
  for (const VerifyCase& c : verifier.cases()) report.cases.push_back({c.name, true, 1e-7, ""});
  CHECK(accepted(report));
  VerificationReport failed = report;
  failed.cases[1].passed = false;
  CHECK_FALSE(accepted(failed));
  VerificationReport missing = report;
  missing.cases.erase(missing.cases.begin());
  CHECK_FALSE(accepted(missing));
  VerificationReport other = report;
  other.config = {{"block_threads", 64}};
  CHECK_FALSE(accepted(other));
  auto back = parse_report(report_json(report));
  REQUIRE(static_cast<bool>(back));
  CHECK(accepted(*back));
}

namespace {

// A runner that is wrong in one way.
enum class Plant : std::uint8_t { kNone, kLastColumn, kNanOnly, kUnwritten, kUnstable, kError, kDriver };
class PlantedRunner : public CandidateRunner {
 public:
  PlantedRunner(const Graph& graph, Plant plant) : graph_(graph), plant_(plant) {}
  llvm::Expected<std::vector<HostTensor>> run(const ConfigOverrides&, llvm::ArrayRef<std::int64_t> dims, llvm::ArrayRef<HostTensor> inputs,
                                              std::uint32_t) override {
    auto wanted = evaluate_reference(graph_, inputs, dims);
    if (!wanted) return wanted.takeError();
    if (plant_ == Plant::kError) return make_error(Status::kKernelFault, "y: the kernel wrote outside of it");
    if (plant_ == Plant::kDriver) return make_error(Status::kDriver, "CUDA_ERROR_ILLEGAL_ADDRESS");
    HostTensor y = HostTensor::make(DType::kF32, (*wanted)[0].shape);
    for (std::int64_t i = 0; i < y.element_count(); ++i) {
      double value = (*wanted)[0].values[static_cast<std::size_t>(i)];
      if (plant_ == Plant::kLastColumn && i % 40 == 39) value *= 1.01;
      if (plant_ == Plant::kNanOnly && std::isnan(value)) value = 0;
      if (plant_ == Plant::kUnwritten && i == 7) value = std::nan("");
      if (plant_ == Plant::kUnstable && i == 3 && ++runs_ % 2 == 0) value *= 1 + 1e-6;
      y.set(i, value);
    }
    return std::vector<HostTensor>{std::move(y)};
  }
  llvm::Expected<TimedSamples> time(const ConfigOverrides&, unsigned samples) override {
    return TimedSamples{std::vector<double>(samples, 1.0), {}, {}};
  }

 private:
  const Graph& graph_;
  Plant plant_;
  int runs_ = 0;
};

// Keeps the inputs it was given first, as a device would, and lets one candidate spoil them after it is done.
class KeepingRunner : public CandidateRunner {
 public:
  KeepingRunner(const Graph& graph, ConfigOverrides spoiler) : graph_(graph), spoiler_(std::move(spoiler)) {}
  llvm::Expected<std::vector<HostTensor>> run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                              llvm::ArrayRef<HostTensor> inputs, std::uint32_t) override {
    std::vector<HostTensor>& kept = kept_.try_emplace(inputs.data(), inputs.begin(), inputs.end()).first->second;
    auto wanted = evaluate_reference(graph_, kept, dims);
    if (!wanted) return wanted.takeError();
    HostTensor y = HostTensor::make(DType::kF32, (*wanted)[0].shape);
    for (std::int64_t i = 0; i < y.element_count(); ++i) y.set(i, (*wanted)[0].values[static_cast<std::size_t>(i)]);
    if (config == spoiler_) kept[0].set(3, 1e6);
    return std::vector<HostTensor>{std::move(y)};
  }
  llvm::Expected<bool> renew(llvm::ArrayRef<HostTensor> inputs) override {
    std::vector<HostTensor>& kept = kept_.at(inputs.data());
    const bool changed = kept[0].bytes != inputs[0].bytes;
    kept.assign(inputs.begin(), inputs.end());
    renewed += changed;
    return changed;
  }
  llvm::Expected<TimedSamples> time(const ConfigOverrides&, unsigned) override { return TimedSamples{}; }
  int renewed = 0;

 private:
  const Graph& graph_;
  ConfigOverrides spoiler_;
  std::map<const HostTensor*, std::vector<HostTensor>> kept_;
};

}  // namespace

TEST_CASE("verifier: a candidate that spoils kept inputs brings none of the next down", "[autotune]") {
  const Graph graph = graph_of(kGraph);
  const std::vector<std::int64_t> dims{100};
  Verifier verifier(graph, dims);
  const ConfigOverrides spoiler{{"a", 1}};
  KeepingRunner runner(graph, spoiler);
  auto passes = [&](const ConfigOverrides& config) {
    auto report = verifier.check(config, runner);
    REQUIRE(static_cast<bool>(report));
    return !take_error_facts(verifier.accept(config, *report).takeError()).message.size();
  };
  CHECK(passes(kWinner));
  passes(spoiler);
  CHECK(passes(kWinner));
  CHECK(runner.renewed > 0);
}

TEST_CASE("verifier: planted faults are found and named", "[autotune]") {
  const Graph graph = graph_of(kGraph);
  const std::vector<std::int64_t> dims{100};
  auto text = [&](Plant plant) {
    Verifier verifier(graph, dims);
    PlantedRunner runner(graph, plant);
    auto report = verifier.check(kWinner, runner);
    REQUIRE(static_cast<bool>(report));
    auto verified = verifier.accept(kWinner, *report);
    return verified ? std::string() : take_error_facts(verified.takeError()).message;
  };
  CHECK(text(Plant::kNone).empty());
  CHECK(text(Plant::kLastColumn).find("case tails: y: ") == 0);
  CHECK(text(Plant::kNanOnly).find("case special: y: ") == 0);
  CHECK(text(Plant::kUnwritten).find("NaN or infinity out of place") != std::string::npos);
  CHECK(text(Plant::kUnstable).find("different bits") != std::string::npos);
  CHECK(text(Plant::kError).find("wrote outside") != std::string::npos);
}

TEST_CASE("verifier: an error of the driver is a crash, so that the helper is not used again", "[autotune]") {
  const Graph graph = graph_of(kGraph);
  const std::vector<std::int64_t> dims{100};
  auto fate = [&](Plant plant) {
    Verifier verifier(graph, dims);
    PlantedRunner runner(graph, plant);
    LocalTester tester(verifier, runner);
    auto trial = tester.verify(kWinner);
    REQUIRE(static_cast<bool>(trial));
    return trial->fate;
  };
  CHECK(fate(Plant::kNone) == Fate::kMeasured);
  CHECK(fate(Plant::kError) == Fate::kWrong);
  CHECK(fate(Plant::kDriver) == Fate::kCrashed);
}
