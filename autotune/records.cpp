#include "autotune/records.h"

#include "codegen/embedded_templates.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace tilewright {
namespace {

llvm::json::Object problem_json(const RecordProblem& problem) {
  llvm::json::Array splits;
  for (const BucketSplit& split : problem.splits) splits.push_back(split_json(split));
  return llvm::json::Object{{"name", problem.name},
                            {"signature", problem.signature},
                            {"dims", llvm::json::Array(llvm::ArrayRef<std::int64_t>(problem.dims))},
                            {"bucket", bucket_json(problem.bucket)},
                            {"splits", std::move(splits)},
                            {"device", problem.device},
                            {"target", problem.target},
                            {"policy", problem.policy},
                            {"fuse", problem.fuse}};
}

llvm::Expected<RecordProblem> parse_problem(const llvm::json::Object* object) {
  if (object == nullptr) return make_error(Status::kCorrupt, "record: no problem");
  RecordProblem problem;
  auto text = [&](llvm::StringRef key) { return object->getString(key).value_or("").str(); };
  problem.name = text("name");
  problem.signature = text("signature");
  problem.device = text("device");
  problem.target = text("target");
  problem.policy = text("policy");
  problem.fuse = object->getBoolean("fuse").value_or(true);
  auto dims = parse_dims(object->getArray("dims"));
  if (!dims) return dims.takeError();
  problem.dims = std::move(*dims);
  auto bucket = parse_bucket(object->get("bucket"));
  if (!bucket) return bucket.takeError();
  problem.bucket = std::move(*bucket);
  if (const llvm::json::Array* splits = object->getArray("splits")) {
    for (const llvm::json::Value& value : *splits) {
      auto split = parse_split(value);
      if (!split) return split.takeError();
      problem.splits.push_back(std::move(*split));
    }
  }
  if (problem.signature.empty() || problem.device.empty() || problem.policy.empty())
    return make_error(Status::kCorrupt, "record: signature, device or policy is missing");
  return problem;
}

}  // namespace

RecordProblem record_problem(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, llvm::StringRef device, const Target& target,
                             llvm::StringRef policy, bool fuse, llvm::ArrayRef<BucketSplit> splits) {
  RecordProblem problem;
  problem.name = graph.name();
  problem.signature = signature(graph);
  problem.dims.assign(dims.begin(), dims.end());
  problem.bucket = bucket_of(graph.symbols(), dims, splits);
  problem.splits = splits_on_the_way(graph.symbols(), dims, splits);
  problem.device = device.str();
  problem.target = target.name();
  problem.policy = policy.str();
  problem.fuse = fuse;
  return problem;
}

// The one door into a TuningRecord from inside the process.
struct RecordMaker {
  static TuningRecord make(RecordProblem problem, const Verified& winner, RecordFacts facts) {
    TuningRecord record;
    record.problem_ = std::move(problem);
    record.winner_ = winner.config();
    record.fallback_ = std::move(facts.fallback);
    record.candidates_ = std::move(facts.candidates);
    record.space_ = std::move(facts.space);
    record.build_ = build_identity().str();
    record.environment_ = std::move(facts.environment);
    record.verification_ = report_json(winner.report());
    return record;
  }
};

llvm::Expected<TuningRecord> make_record(RecordProblem problem, const Verified& winner, RecordFacts facts) {
  TuningRecord record = RecordMaker::make(std::move(problem), winner, std::move(facts));
  const Candidate* candidate = record.find(winner.config());
  if (candidate == nullptr || candidate->fate != Fate::kMeasured)
    return make_error(Status::kInvalidArgument, "record: {} was not measured", config_text(winner.config()));
  return record;
}

const Candidate* TuningRecord::find(const ConfigOverrides& config) const { return find_candidate(candidates_, config); }

double TuningRecord::winner_us() const {
  const Candidate* candidate = find(winner_);
  return candidate != nullptr ? median_interval(candidate->samples_us).median : 0;
}

std::string record_file_name(const RecordProblem& problem) {
  std::string device;
  for (char c : problem.device) device += llvm::isAlnum(c) ? llvm::toLower(c) : '_';
  return fmt::format("{}-{}{}-{}-{}.json", problem.signature, fmt::join(problem.dims, "_"), problem.fuse ? "" : "-unfused", device,
                     problem.policy);
}

std::string TuningRecord::text() const {
  llvm::json::Array candidates;
  for (const Candidate& candidate : candidates_) candidates.push_back(candidate_json(candidate));
  llvm::json::Object object{{"format", kRecordFormatVersion},
                            {"problem", problem_json(problem_)},
                            {"winner", config_json(winner_)},
                            {"default", config_json(fallback_)},
                            {"space", space_},
                            {"build", build_},
                            {"environment", llvm::json::Object(environment_)},
                            {"verification", llvm::json::Object(verification_)},
                            {"candidates", std::move(candidates)}};
  std::string out;
  llvm::raw_string_ostream os(out);
  llvm::json::OStream writer(os, 1);
  writer.value(std::move(object));
  writer.flush();
  os << '\n';
  return os.str();
}

llvm::Expected<TuningRecord> TuningRecord::parse(llvm::StringRef text) {
  auto json = llvm::json::parse(text);
  if (!json) return make_error(Status::kCorrupt, "record is not JSON: {}", llvm::toString(json.takeError()));
  const llvm::json::Object* object = json->getAsObject();
  if (object == nullptr) return make_error(Status::kCorrupt, "record is not an object");
  const std::int64_t format = object->getInteger("format").value_or(0);
  if (format != kRecordFormatVersion)
    return make_error(Status::kCorrupt, "record of format {}, this library reads {}", format, kRecordFormatVersion);
  TuningRecord record;
  auto problem = parse_problem(object->getObject("problem"));
  if (!problem) return problem.takeError();
  record.problem_ = std::move(*problem);
  auto winner = parse_config_json(object->get("winner"));
  if (!winner) return winner.takeError();
  record.winner_ = std::move(*winner);
  auto fallback = parse_config_json(object->get("default"));
  if (!fallback) return fallback.takeError();
  record.fallback_ = std::move(*fallback);
  const llvm::json::Array* candidates = object->getArray("candidates");
  if (candidates == nullptr) return make_error(Status::kCorrupt, "record: no candidates");
  for (const llvm::json::Value& value : *candidates) {
    auto candidate = parse_candidate(value);
    if (!candidate) return candidate.takeError();
    record.candidates_.push_back(std::move(*candidate));
  }
  record.space_ = object->getString("space").value_or("").str();
  record.build_ = object->getString("build").value_or("").str();
  if (const llvm::json::Object* environment = object->getObject("environment")) record.environment_ = *environment;
  const llvm::json::Object* verification = object->getObject("verification");
  auto report = verification != nullptr ? parse_report(llvm::json::Object(*verification)) : parse_report(nullptr);
  if (!report) return report.takeError();
  const bool passed = !report->cases.empty() && llvm::all_of(report->cases, [](const CaseReport& c) { return c.passed; });
  const Candidate* best = record.find(record.winner_);
  if (!passed || report->config != record.winner_ || best == nullptr || best->fate != Fate::kMeasured || best->samples_us.empty())
    return make_error(Status::kCorrupt, "record: its winner {} was not verified and measured", config_text(record.winner_));
  record.verification_ = *verification;
  return record;
}

llvm::StringRef match_name(Match match) {
  switch (match) {
    case Match::kExact:
      return "exact";
    case Match::kBucket:
      return "bucket";
    case Match::kNearest:
      return "nearest";
    case Match::kOtherDevice:
      return "other device";
    case Match::kNone:
      return "none";
  }
  return "";
}

std::string record_text(const TuningRecord& record) {
  const RecordProblem& problem = record.problem();
  std::string text = fmt::format("{} [{}] on {} ({}), policy {}\n  winner  {}  {:.2f} us\n", problem.name, fmt::join(problem.dims, ", "),
                                 problem.device, problem.target, problem.policy, config_text(record.winner()), record.winner_us());
  if (!problem.dims.empty())
    text += fmt::format("  bucket  [{}] to [{}], {}\n", fmt::join(problem.bucket.low, ", "), fmt::join(problem.bucket.high, ", "),
                        problem.splits.empty() ? "not split" : "after " + count_text(problem.splits.size(), "split"));
  if (const Candidate* fallback = record.find(record.fallback()))
    text += fmt::format("  default {}  {:.2f} us\n", config_text(record.fallback()), median_interval(fallback->samples_us).median);
  std::vector<Candidate> sorted(record.candidates());
  llvm::stable_sort(sorted, [](const Candidate& a, const Candidate& b) {
    const bool first = a.fate == Fate::kMeasured, second = b.fate == Fate::kMeasured;
    if (first != second) return first;
    return median_interval(a.samples_us).median < median_interval(b.samples_us).median;
  });
  for (const Candidate& c : sorted) {
    const Interval time = median_interval(c.samples_us);
    text += c.fate == Fate::kMeasured
                ? fmt::format("  {:>9.2f} us [{:.2f}, {:.2f}] of {:<3} error {:.1e}  {} registers  {}\n", time.median, time.low, time.high,
                              c.samples_us.size(), c.normwise_error, c.resources.registers, c.name())
                : fmt::format("  {:>12} {}: {}\n", fate_name(c.fate), c.name(), llvm::StringRef(c.reason).split('\n').first);
  }
  return text;
}

std::string record_diff(const TuningRecord& before, const TuningRecord& after) {
  std::string text;
  auto line = [&](llvm::StringRef what, const std::string& a, const std::string& b) {
    if (a != b) text += fmt::format("  {:<8} {} -> {}\n", what, a, b);
  };
  line("device", before.problem().device, after.problem().device);
  line("policy", before.problem().policy, after.problem().policy);
  line("winner", config_text(before.winner()), config_text(after.winner()));
  line("time", fmt::format("{:.2f} us", before.winner_us()), fmt::format("{:.2f} us", after.winner_us()));
  line("space", before.space(), after.space());
  line("build", before.build().substr(0, 16), after.build().substr(0, 16));
  for (const Candidate& c : after.candidates()) {
    const Candidate* old = before.find(c.config);
    if (old == nullptr) {
      text += fmt::format("  new      {} {}\n", c.name(), fate_name(c.fate));
    } else if (old->fate != c.fate) {
      line("fate", fmt::format("{} {}", c.name(), fate_name(old->fate)), fate_name(c.fate).str());
    }
  }
  return text;
}

}  // namespace tilewright
