// Where candidates run: in this process, or in a spawned helper that may crash or hang without harm.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotune/candidate.h"
#include "autotune/helper_process.h"
#include "autotune/verifier.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace tilewright {

// What came of one try of one candidate. fate is kMeasured when it went well.
struct Trial {
  Fate fate = Fate::kMeasured;
  std::string reason;
  std::optional<VerificationReport> report;  // of verify()
  TimedSamples timed;                        // of time()
};
llvm::json::Object reading_json(const DeviceReading& reading);  // the members that are not empty, by their names
DeviceReading parse_reading(const llvm::json::Object& json);

// Errors end the search: what concerns one candidate is its fate.
class CandidateTester {
 public:
  virtual ~CandidateTester() = default;
  virtual llvm::Expected<Trial> verify(const ConfigOverrides& config) = 0;
  virtual llvm::Expected<Trial> time(const ConfigOverrides& config, unsigned samples) = 0;
};

// In this process. References must outlive it.
class LocalTester : public CandidateTester {
 public:
  LocalTester(Verifier& verifier, CandidateRunner& runner) : verifier_(verifier), runner_(runner) {}
  llvm::Expected<Trial> verify(const ConfigOverrides& config) override;
  llvm::Expected<Trial> time(const ConfigOverrides& config, unsigned samples) override;

 private:
  Verifier& verifier_;
  CandidateRunner& runner_;
};

// Answers the requests of a HelperTester, as serve_requests.
llvm::Error serve_tester(CandidateTester& tester, int in, int out);

struct HelperOptions {
  std::string program;                 // absolute path
  std::vector<std::string> arguments;  // without the program's name
  double verify_limit_s = 120;         // of one verification, the first also making the references
  double time_limit_s = 10;            // of one timing
  double start_limit_s = 120;          // until a helper says that it can run candidates: opening a device, making its inputs
  unsigned most_failed_starts = 3;     // in a row
  double pause_s = 1;                  // between them, doubled each time
};

// Requests to a helper process, started at the first. After a candidate that failed in it or took too long, a fresh helper must open the
// device before the candidate is blamed: where none can any more, the device is lost, and that is error kMissing, as is a first helper that
// cannot.
class HelperTester : public CandidateTester {
 public:
  explicit HelperTester(HelperOptions options) : options_(std::move(options)) {}
  llvm::Expected<Trial> verify(const ConfigOverrides& config) override;
  llvm::Expected<Trial> time(const ConfigOverrides& config, unsigned samples) override;
  // Process id of the helper, -1 without one.
  int process() const { return process_.process(); }
  unsigned starts() const { return starts_; }

 private:
  llvm::Error start();                      // a helper that can run candidates, after some tries
  llvm::Expected<std::string> start_one();  // why it cannot; "" where it can. Error kIo: no process can be made
  llvm::Expected<Trial> blame(Trial trial);
  llvm::Expected<Trial> ask(llvm::json::Object request, double limit_s);

  HelperOptions options_;
  HelperProcess process_;
  unsigned starts_ = 0;
};

}  // namespace tilewright
