// Finds the config of a problem: proposes candidates, has them compiled, verified and timed, and settles which is the best.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autotune/candidate.h"
#include "autotune/compile_pool.h"
#include "autotune/conditions.h"
#include "autotune/tester.h"
#include "autotune/verifier.h"
#include "codegen/space.h"

namespace tilewright {

struct TuneProgress {
  std::size_t tried = 0, in_flight = 0;
  double best_us = 0, default_us = 0;  // 0: not known yet
  double seconds = 0, budget_s = 0;
  std::string phase;  // "search" or "final"
};

struct TuneOptions {
  double budget_s = 60;
  std::size_t budget_candidates = 0;   // 0: as many as the time allows
  std::int64_t exhaustive_limit = 64;  // spaces of up to so many accepted configs are tried whole
  std::uint64_t seed = 1;              // of the search's random restarts
  double tie_band = kTieBand;
  unsigned screen_samples = 3;  // a candidate gets when it is first timed
  unsigned most_rounds = 24;    // of the final comparison, a sample each
  std::size_t finalists = 12;
  std::vector<ConfigOverrides> hints;  // winners of related records, tried after the default
  std::vector<Candidate> known;        // of an interrupted run: not tried again
  std::function<void(const TuneProgress&)> progress = {};
  std::function<void(llvm::ArrayRef<Candidate>)> save = {};  // after each candidate; those known and not yet come to are among them
  std::function<bool()> interrupted = {};                    // true: stop and take the best so far
  std::function<void(const std::string&)> say = {};          // trouble that a user should know of, once each
  std::function<void(double seconds)> wait = {};             // before samples are taken again; empty: sleeps
};

struct TuneResult {
  std::vector<Candidate> candidates;  // the default first, then in the order tried
  std::optional<Verified> winner;     // empty: no candidate passed
  std::string strategy;               // "exhaustive" or "local search"
  std::string ended;                  // "settled", "budget", "interrupted", "busy", "device lost"
  std::string lost;                   // why nothing can be run any more; empty unless the device was lost
  llvm::json::Object conditions;      // SteadyTester::json()
  double seconds = 0;
  double waited_s = 0;  // of these, for the compiler, with nothing to run meanwhile
};

class Search {
 public:
  // What the cost model says of a config before it is compiled, in microseconds; nothing for one that the lowering does not take. Of what
  // is proposed together the lowest goes first.
  using Predict = std::function<std::optional<double>(const ConfigOverrides&)>;
  // References must outlive the search.
  Search(const Space& space, Predict predict, CompilePool& pool, CandidateTester& tester, const Verifier& verifier, TuneOptions options);

  // A device that is lost after the first candidate ends the search with what was found so far (`lost`, no error). Other errors of the
  // tester are errors.
  llvm::Expected<TuneResult> run();

 private:
  struct Proposal {
    ConfigOverrides config;
    double predicted_us = 0;
  };
  bool propose(const ConfigOverrides& config);  // false: seen before or refused
  bool propose(ConfigOverrides config, std::optional<double> predicted_us);
  void propose_all();
  void order_queue(std::size_t from);
  bool propose_more();
  void propose_neighbours(const ConfigOverrides& config);
  llvm::Error test_next();
  llvm::Error test(Candidate candidate);
  void keep(Candidate candidate);
  void save() const;
  llvm::Error search();
  llvm::Error settle();
  llvm::Error add_sample(std::size_t index);
  llvm::Expected<Round> sample_round(std::vector<std::size_t>& left, bool forwards);
  llvm::Error choose_winner();
  double median_us(std::size_t index) const;
  std::vector<std::size_t> by_time() const;  // measured candidates, the fastest first
  bool out_of_budget(double share);
  double seconds() const;
  void report(const char* phase) const;
  std::uint64_t random();

  const Space& space_;
  Predict predict_;
  CompilePool& pool_;
  const Verifier& verifier_;
  TuneOptions options_;
  SteadyTester tester_;
  TuneResult result_;
  std::set<ConfigOverrides> seen_;
  std::map<ConfigOverrides, std::size_t> known_;  // not yet come to
  std::map<ConfigOverrides, Verified> verified_;
  std::map<std::vector<std::string>, ConfigOverrides> by_keys_;
  std::set<ConfigOverrides> expanded_;  // whose neighbours were proposed
  std::vector<Proposal> queue_;         // those from next_ on are not yet submitted
  std::size_t next_ = 0;
  std::uint64_t random_state_;
  double start_s_ = 0;
};

}  // namespace tilewright
