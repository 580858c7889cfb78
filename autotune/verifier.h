// Decides whether a candidate computes what its description says. Only here does a Verified come into being, and only a Verified becomes a
// record.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotune/verify.h"
#include "codegen/lower.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "ops/reference.h"
#include "runtime/nvml.h"

namespace tilewright {

// One set of data a candidate is tried on.
struct VerifyCase {
  enum class Data : std::uint8_t { kRandom, kSpecial };  // kSpecial: some NaN, infinities, denormals and large magnitudes among them
  std::string name;                                      // "tails", "one", "misaligned", "special", "real"
  llvm::SmallVector<std::int64_t, 4> dims;
  Data data = Data::kRandom;
  std::uint32_t shift_elements = 0;  // every buffer lies that many elements off its alignment
  bool twice = false;                // a second run must give the same bits
};

struct VerifyOptions {
  std::uint64_t seed = 1;
  // A case whose graph has more operations is left out, and the report says so: its reference would take too long.
  std::uint64_t most_reference_flops = std::uint64_t{20} << 30;
};

// Cases of a problem: sizes with tails, one of everything, misaligned, special values, and the real size. Those that are the same for want
// of named dimensions appear once.
std::vector<VerifyCase> verification_cases(const Graph& graph, llvm::ArrayRef<std::int64_t> dims);

// Seeded inputs of a case, in the order of graph.inputs().
std::vector<HostTensor> case_inputs(const Graph& graph, const VerifyCase& which, std::uint64_t seed);

// Samples of a candidate's time and what the device said meanwhile, where it says anything.
struct TimedSamples {
  std::vector<double> us;
  std::optional<DeviceReading> before;  // just before the first; its processes are those of others
  std::vector<DeviceReading> during;    // one a sample, while it ran
};

// Runs candidates: on a GPU, on the CPU, or something a test makes up. One thread.
class CandidateRunner {
 public:
  virtual ~CandidateRunner() = default;
  // Outputs of one launch into poisoned buffers. Who gives tensors in the same memory again has not changed them, so that they may be kept
  // on a device. Errors: kKernelFault (an access outside a buffer among them), kDriver, kCompileFailed.
  virtual llvm::Expected<std::vector<HostTensor>> run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                                      llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) = 0;
  // True: what was kept of these inputs had been changed by some candidate, and is as it should be again. Error kDriver.
  virtual llvm::Expected<bool> renew(llvm::ArrayRef<HostTensor> inputs);
  // That many samples of the time at the real size, in microseconds, by the policy the runner was made for.
  virtual llvm::Expected<TimedSamples> time(const ConfigOverrides& config, unsigned samples) = 0;
};

struct CaseReport {
  std::string name;
  bool passed = false;
  double normwise = 0;
  std::string text;      // what was wrong, or the errors found
  bool launched = true;  // false: the driver failed, and nothing more can be run in this process
};

struct VerificationReport {
  ConfigOverrides config;
  std::vector<CaseReport> cases;
  std::vector<std::string> skipped;  // "real: ..." with the reason
};
llvm::json::Object report_json(const VerificationReport& report);
llvm::Expected<VerificationReport> parse_report(const llvm::json::Value& json);  // error kCorrupt

// A config that was compared with the reference on every case of its problem, and agreed.
class Verified {
 public:
  const ConfigOverrides& config() const { return report_.config; }
  const VerificationReport& report() const { return report_; }
  double normwise() const;  // the largest of all cases

 private:
  friend class Verifier;
  explicit Verified(VerificationReport report) : report_(std::move(report)) {}
  VerificationReport report_;
};

// References are computed once a case, by the first check that needs them.
class Verifier {
 public:
  Verifier(const Graph& graph, llvm::ArrayRef<std::int64_t> dims, VerifyOptions options = {});

  // Runs the candidate on every case, up to the first that fails. Errors of the runner that concern the candidate alone are a failed case.
  // Error: the reference cannot be evaluated.
  llvm::Expected<VerificationReport> check(const ConfigOverrides& config, CandidateRunner& runner);

  // The verdict on a report, which may have been made in another process. Error kMismatch: a case failed, is missing, or the report is
  // about another config.
  llvm::Expected<Verified> accept(const ConfigOverrides& config, const VerificationReport& report) const;

  llvm::ArrayRef<VerifyCase> cases() const { return cases_; }

 private:
  struct Prepared {
    std::vector<HostTensor> inputs;
    std::vector<ReferenceTensor> wanted;
  };
  llvm::Expected<const Prepared*> prepared(std::size_t index);
  CaseReport check_case(std::size_t index, const Prepared& data, const ConfigOverrides& config, CandidateRunner& runner) const;
  bool affordable(const VerifyCase& which) const;

  const Graph& graph_;
  VerifyOptions options_;
  std::vector<VerifyCase> cases_;
  std::vector<std::optional<Prepared>> prepared_;
};

}  // namespace tilewright
