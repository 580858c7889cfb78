// Programs that tuning records say the config of. Without a GPU: records are made here, programs are compiled and looked at.
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "autotune/records.h"
#include "codegen/space.h"
#include "ops/json.h"
#include "runtime/error.h"
#include "tests/api/api_support.h"
#include "tests/scratch.h"

using namespace tilewright_tests;
using namespace tilewright;
using tests::value_of;

namespace {

// A graph with its space on one target.
struct Tunable {
  explicit Tunable(std::string_view json, const char* target_name = "sm_90a")
      : graph(value_of(parse_description(llvm::StringRef(json.data(), json.size())))), target(value_of(parse_target(target_name))) {
    options.device = device_model(target);
    space = value_of(make_space(graph, options));
  }
  std::int64_t workspace(const ConfigOverrides& config, std::int64_t n) const {
    CompileOptions chosen = options;
    chosen.overrides = config;
    return value_of(workspace_bytes(value_of(prepare_program(graph, chosen)).lowered.recipe, {n}));
  }
  // The first config the lowering takes for which `wanted` holds.
  ConfigOverrides find(const std::function<bool(const ConfigOverrides&)>& wanted) const {
    for (std::int64_t i = 0; i < space.combinations(); ++i) {
      ConfigOverrides config = space.combination(i);
      if (llvm::Error error = check_config(graph, options, space, config)) {
        llvm::consumeError(std::move(error));
      } else if (wanted(config)) {
        return config;
      }
    }
    FAIL("no such config");
    return {};
  }
  // As a tuning at N = n writes it. `space_identity` "": that of the space as it is now.
  void record(const std::string& directory, std::int64_t n, const ConfigOverrides& config, llvm::ArrayRef<BucketSplit> splits = {},
              std::string space_identity = "") const {
    const Verifier verifier(graph, {n});
    VerificationReport report;
    report.config = config;
    for (const VerifyCase& c : verifier.cases()) report.cases.push_back({c.name, true, 1e-7, ""});
    const Verified verified = value_of(verifier.accept(config, report));
    Candidate candidate;
    candidate.config = config;
    candidate.fate = Fate::kMeasured;
    candidate.samples_us = {5, 5, 5};
    if (space_identity.empty()) space_identity = space.identity();
    const TuningRecord made = value_of(make_record(record_problem(graph, {n}, "GPU A", target, "cold", true, splits), verified,
                                                   {{candidate}, space.default_config(), std::move(space_identity), {}}));
    if (llvm::Error error = RecordStore({directory, {}}).write(made)) FAIL(take_error_facts(std::move(error)).message);
  }
  Graph graph;
  Target target;
  CompileOptions options;
  Space space;
};

// Unset for the time of a test: records lie in records/ of the store's directory.
class WithoutRecordsVariable {
 public:
  WithoutRecordsVariable() {
    if (const char* old = std::getenv("TILEWRIGHT_RECORDS_DIR")) old_ = old;
    unsetenv("TILEWRIGHT_RECORDS_DIR");
  }
  ~WithoutRecordsVariable() {
    if (old_) setenv("TILEWRIGHT_RECORDS_DIR", old_->c_str(), 1);
  }

 private:
  std::optional<std::string> old_;
};

ContextHandle context_in(const std::string& directory, int ignore_records = 0, size_t size = sizeof(tw_context_options)) {
  const std::string path = directory;
  const tw_context_options options{size, path.c_str(), 0, ignore_records};
  tw_context* context = nullptr;
  REQUIRE(tw_context_create(&options, &context, nullptr) == TW_OK);
  return ContextHandle(context);
}

ProgramHandle program_of(const ContextHandle& context, std::string_view json, const char* target = "sm_90a") {
  tw_program* program = nullptr;
  tw_error* error = nullptr;
  const tw_status status = tw_program_create(context.get(), make_graph(json).get(), target, &program, &error);
  const ErrorHandle owner(error);
  INFO(tw_error_message(error));
  REQUIRE(status == TW_OK);
  return ProgramHandle(program);
}

std::string match(const ProgramHandle& program, std::int64_t n) { return tw_program_record_match(program.get(), &n); }

std::string path(const ProgramHandle& program, std::int64_t n) {
  const char* found = tw_program_record_path(program.get(), &n);
  return found != nullptr ? found : "";
}

std::string key(const ProgramHandle& program) { return tw_program_kernel_key(program.get(), 0); }

}  // namespace

TEST_CASE("api: a program goes by the tuning record that suits the sizes, and says by which", "[api]") {
  const WithoutRecordsVariable unset;
  const ScratchDirectory directory;
  const Tunable tunable(kSoftmax);
  const std::string untuned = key(program_of(context_in(directory.path()), kSoftmax));
  CHECK(match(program_of(context_in(directory.path()), kSoftmax), 16) == "none");
  CHECK(tw_program_record_path(program_of(context_in(directory.path()), kSoftmax).get(), nullptr) == nullptr);

  const ConfigOverrides other = tunable.find([&](const ConfigOverrides& config) { return config != tunable.space.default_config(); });
  tunable.record(directory.path("records"), 16, other);
  tunable.record(directory.path("records"), 128, tunable.space.default_config());
  const ProgramHandle tuned = program_of(context_in(directory.path()), kSoftmax);
  CHECK(std::string(tw_program_record_match(tuned.get(), nullptr)) == "exact");
  CHECK(match(tuned, 9) == "bucket");
  CHECK(match(tuned, 8) == "nearest");
  CHECK(match(tuned, 128) == "exact");
  CHECK(contains(path(tuned, 16), "-16-"));
  CHECK(contains(path(tuned, 100), "-128-"));
  CHECK(key(tuned) != untuned);

  const ProgramHandle ignoring = program_of(context_in(directory.path(), 1), kSoftmax);
  CHECK(match(ignoring, 16) == "none");
  CHECK(key(ignoring) == untuned);
  // A caller built before the field: what lies behind its struct is not read.
  CHECK(match(program_of(context_in(directory.path(), 1, offsetof(tw_context_options, ignore_records)), kSoftmax), 16) == "exact");

  const ProgramHandle elsewhere = program_of(context_in(directory.path()), kSoftmax, "sm_100a");
  CHECK(match(elsewhere, 16) == "other device");
  CHECK(path(elsewhere, 16).empty());
  CHECK(std::string(tw_program_record_match(nullptr, nullptr)) == "none");
  CHECK(tw_program_record_path(nullptr, nullptr) == nullptr);
}

TEST_CASE("api: each launch takes the kernels of its own bucket, splits included", "[api]") {
  const WithoutRecordsVariable unset;
  const ScratchDirectory directory;
  const Tunable tunable(kSum);
  const std::int64_t usual = tunable.workspace(tunable.space.default_config(), 3000);
  const ConfigOverrides other = tunable.find([&](const ConfigOverrides& config) { return tunable.workspace(config, 3000) != usual; });
  // By distance 3000 is nearer to 2896 than to 4096; by the split it belongs to the latter.
  const std::vector<BucketSplit> splits{{Bucket{{2049}, {4096}}, 0, 2896}};
  tunable.record(directory.path("records"), 4096, other, splits);
  tunable.record(directory.path("records"), 2896, tunable.space.default_config(), splits);
  const ProgramHandle program = program_of(context_in(directory.path()), kSum);
  for (const auto& [n, config] :
       std::array<std::pair<std::int64_t, ConfigOverrides>, 3>{{{3000, other}, {2900, other}, {2800, tunable.space.default_config()}}}) {
    INFO(n);
    CHECK(match(program, n) == "bucket");
    std::size_t bytes = 0;
    REQUIRE(tw_program_workspace_bytes(program.get(), &n, &bytes, nullptr) == TW_OK);
    CHECK(static_cast<std::int64_t>(bytes) == tunable.workspace(config, n));
  }
}

TEST_CASE("api: a record over a space that has changed is passed over, and the log says so", "[api]") {
  const WithoutRecordsVariable unset;
  const ScratchDirectory directory;
  const Tunable tunable(kSoftmax);
  tunable.record(directory.path("records"), 16, tunable.space.default_config(), {}, "another space");
  std::string messages;
  auto keep = [](tw_log_level level, const char* message, void* user) {
    CHECK(level == TW_LOG_WARNING);
    *static_cast<std::string*>(user) += message + std::string("\n");
  };
  tw_set_log(TW_LOG_WARNING, keep, &messages);
  const ProgramHandle program = program_of(context_in(directory.path()), kSoftmax);
  tw_set_log(TW_LOG_WARNING, nullptr, nullptr);
  const std::string said = messages;
  CHECK(match(program_of(context_in(directory.path()), kSoftmax), 16) == "none");
  CHECK(messages == said);  // nobody listens any more
  CHECK(match(program, 16) == "none");
  CHECK(contains(messages, "its template's space has changed"));
  CHECK(tw_program_kernel_count(program.get()) == 1);
}
