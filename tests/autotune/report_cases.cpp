#include "tests/autotune/report_cases.h"

#include <cmath>
#include <limits>

namespace tilewright_tests {

using namespace tilewright;

namespace {

// SplitMix64 in [0, 1).
class Random {
 public:
  double next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() * static_cast<double>(count)); }

 private:
  std::uint64_t state_ = 1;
};

ReportProblem problem_named(const std::string& name) {
  ReportProblem problem;
  problem.problem.name = name;
  problem.problem.signature = "1344402ff184c5c3af3a2e7d3bd1802f";
  problem.problem.dims = {128};
  problem.problem.device = "NVIDIA H200";
  problem.problem.target = "sm_90a";
  problem.problem.policy = "cold";
  problem.space = "8125dace4ad0b630";
  problem.build = "5f0c2f7b1f7e4d0a";
  problem.environment = llvm::json::Object{{"driver", "580.65"},
                                           {"nvrtc", "13.0"},
                                           {"sizes", "N=128"},
                                           {"ended", "settled"},
                                           {"floor", floor_json(Cost{96000000, 4000000000}, DeviceRates{})}};
  return problem;
}

Candidate measured(ConfigOverrides config, std::vector<double> samples) {
  Candidate candidate;
  candidate.config = std::move(config);
  candidate.fate = Fate::kMeasured;
  candidate.samples_us = std::move(samples);
  candidate.normwise_error = 1.25e-7;
  candidate.resources = {64, 0, 49152, 256, 4};
  candidate.compile_ms = 412;
  candidate.predicted_us = 31;
  return candidate;
}

Candidate failed(ConfigOverrides config, Fate fate, const std::string& reason) {
  Candidate candidate;
  candidate.config = std::move(config);
  candidate.fate = fate;
  candidate.reason = reason;
  return candidate;
}

VerificationReport agreement(const ConfigOverrides& config) {
  VerificationReport report;
  report.config = config;
  for (const char* name : {"tails", "one", "misaligned", "special", "real"})
    report.cases.push_back({name, true, 1.25e-7, "y: 1.25e-7", true});
  return report;
}

}  // namespace

ReportProblem many_candidates(std::size_t count) {
  ReportProblem problem = problem_named("conv3d_min_softmax");
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> space{{"warps", {2, 4, 6, 8, 12, 16}},
                                                                             {"m_tiles", {1, 2, 4}},
                                                                             {"n_tiles", {1, 2, 3, 4, 6, 8, 16}},
                                                                             {"tile_y", {1, 2, 4, 6, 8, 12, 16}},
                                                                             {"tile_x", {16, 32, 64, 128}},
                                                                             {"chunk_channels", {1, 2, 4}},
                                                                             {"planes_per_block", {1, 2, 4, 8}},
                                                                             {"unroll", {1, 2, 4, 8}},
                                                                             {"row_threads", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
                                                                             {"prefetch", {0, 1}},
                                                                             {"min_blocks_per_sm", {0, 1, 2, 3, 4}}};
  const std::pair<Fate, const char*> failures[] = {
      {Fate::kWrong, "case real: y differs from the reference in 96 of 98304 elements, first at [0, 3, 31]: got 0.125, want 0.25"},
      {Fate::kPruned, "local memory: 1,024 bytes a thread"},
      {Fate::kCrashed, "the helper ended: an illegal memory access was encountered"},
      {Fate::kTimedOut, "no end within 10 s"},
      {Fate::kCompileFailed, "compilation took longer than 20 s"},
      {Fate::kDuplicate, "the same kernels as another candidate"}};
  Random random;
  for (std::size_t i = 0; i < count; ++i) {
    ConfigOverrides config;
    double us = 30;
    for (const auto& [name, values] : space) {
      const std::size_t index = random.below(values.size());
      config[name] = values[index];
      us *= 1 + 0.05 * std::fabs(static_cast<double>(index) - 1) * (name.size() % 3 == 0 ? 2 : 1);
    }
    if (i % 10 == 7) {
      const auto& [fate, reason] = failures[random.below(6)];
      problem.candidates.push_back(failed(std::move(config), fate, reason));
      continue;
    }
    std::vector<double> samples;
    for (std::size_t k = 0; k < (i % 8 == 0 ? 27u : 3u); ++k) samples.push_back(us * (1 + 0.02 * random.next()));
    problem.candidates.push_back(measured(std::move(config), std::move(samples)));
  }
  const Candidate* best = &problem.candidates.front();
  for (const Candidate& candidate : problem.candidates) {
    if (candidate.fate == Fate::kMeasured && median_interval(candidate.samples_us).median < median_interval(best->samples_us).median)
      best = &candidate;
  }
  problem.winner = best->config;
  problem.fallback = problem.candidates.front().config;
  problem.verification = agreement(best->config);
  problem.verification->skipped = {"real: the reference would take 3.1e10 operations"};
  return problem;
}

ReportProblem one_candidate() {
  ReportProblem problem = problem_named("single");
  problem.fallback = {{"block_threads", 128}};
  problem.winner = problem.fallback;
  problem.candidates = {measured(problem.fallback, {25})};
  problem.verification = agreement(problem.fallback);
  return problem;
}

ReportProblem all_failed() {
  ReportProblem problem = problem_named("all_failed");
  problem.fallback = {{"block_threads", 128}};
  problem.candidates = {failed(problem.fallback, Fate::kCrashed, "the helper ended: killed by signal 9"),
                        failed({{"block_threads", 256}}, Fate::kWrong, "case one: y is NaN, want 1"),
                        failed({{"block_threads", 512}}, Fate::kWaiting, "")};
  return problem;
}

ReportProblem nothing_tried() {
  ReportProblem problem = problem_named("nothing_tried");
  problem.environment = {};
  problem.problem.dims.clear();
  return problem;
}

ReportProblem hostile() {
  const std::string evil = "<script>alert(1)</script>\" onload='x' &amp; ]]> \x01\xff\xfe </svg></title></style>";
  ReportProblem problem = problem_named(evil);
  problem.problem.device = evil;
  problem.problem.target = evil;
  problem.problem.policy = evil;
  problem.problem.signature = evil;
  problem.space = evil;
  problem.build = evil;
  problem.environment["sizes"] = "<script>alert(2)</script>";
  problem.environment["<b>\"key\"</b>"] = llvm::json::Object{{"<i>", llvm::json::Array{"<u>", nullptr, true}}};
  problem.environment["floor"] = llvm::json::Object{{"bytes", -1}, {"flops", "many"}, {"bytes_per_s", 1e300}};
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  problem.fallback = {{"<img src=x onerror=alert(3)>", 1}};
  Candidate odd = measured({{"<img src=x onerror=alert(3)>", 2}}, {kNan, 3, -1, 0, kInfinity, 1e12, 1e-9});
  odd.normwise_error = kNan;
  odd.compile_ms = kNan;
  odd.predicted_us = kInfinity;
  problem.candidates = {measured(problem.fallback, {5, 5, 6}), odd, measured({{"<img src=x onerror=alert(3)>", 3}}, {kNan}),
                        failed({{"<img src=x onerror=alert(3)>", 4}}, Fate::kWrong, evil)};
  problem.winner = problem.fallback;
  problem.verification = agreement(problem.fallback);
  problem.verification->cases.push_back({evil, false, kInfinity, evil, true});
  problem.verification->skipped = {evil};
  return problem;
}

ReportProblem crowded_labels() {
  ReportProblem problem = problem_named("crowded");
  problem.fallback = {{"block_threads", 128}};
  problem.winner = ConfigOverrides{{"block_threads", 256}};
  problem.candidates = {measured(problem.fallback, {20.01, 20.02, 20.03}), measured(*problem.winner, {20.01, 20.02, 20.03})};
  problem.verification = agreement(*problem.winner);
  return problem;
}

ReportProblem with_intensity(double flops_per_byte) {
  ReportProblem problem = crowded_labels();
  constexpr double kBytes = 96e6;
  const Cost cost{static_cast<std::uint64_t>(kBytes), static_cast<std::uint64_t>(kBytes * flops_per_byte)};
  problem.environment["floor"] = floor_json(cost, DeviceRates{});
  const double bound = std::max(kBytes / 4.8e12, kBytes * flops_per_byte / 6.7e13) * 1e6;
  problem.candidates[0].samples_us = {bound * 1.5, bound * 1.6, bound * 1.7};
  problem.candidates[1].samples_us = {bound * 0.9, bound * 1.1, bound * 1.2};
  return problem;
}

}  // namespace tilewright_tests
