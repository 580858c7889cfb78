#include "autotune/search.h"

#include <algorithm>
#include <chrono>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"
#include "runtime/random.h"

namespace tilewright {
namespace {

// Of the budget, for proposing and screening; the rest settles which of the best it is.
constexpr double kSearchShare = 0.75;
constexpr std::size_t kRestarts = 8;   // random configs proposed when no neighbour is left
constexpr int kRestartTries = 400;     // to find that many the lowering accepts
constexpr unsigned kFewestRounds = 6;  // before anything is dropped: fewer samples give no interval

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Search::Search(const Space& space, Predict predict, CompilePool& pool, CandidateTester& tester, const Verifier& verifier,
               TuneOptions options)
    : space_(space),
      predict_(std::move(predict)),
      pool_(pool),
      verifier_(verifier),
      options_(std::move(options)),
      tester_(tester, {.wait = options_.wait,
                       .may_repeat =
                           [this](double wait_s) {
                             return !(options_.interrupted && options_.interrupted()) && seconds() + wait_s < options_.budget_s;
                           },
                       .say = options_.say}),
      random_state_(options_.seed) {
  for (auto [index, candidate] : llvm::enumerate(options_.known)) known_[candidate.config] = index;
}

double Search::seconds() const { return now_s() - start_s_; }

std::uint64_t Search::random() { return splitmix64(random_state_); }

bool Search::out_of_budget(double share) {
  if (options_.interrupted && options_.interrupted()) {
    result_.ended = "interrupted";
    return true;
  }
  if (seconds() < options_.budget_s * share) return false;
  result_.ended = "budget";
  return true;
}

void Search::report(const char* phase) const {
  if (!options_.progress) return;
  TuneProgress progress;
  progress.tried = result_.candidates.size();
  progress.in_flight = pool_.pending();
  progress.seconds = seconds();
  progress.budget_s = options_.budget_s;
  progress.phase = phase;
  if (const auto order = by_time(); !order.empty()) progress.best_us = median_us(order.front());
  if (!result_.candidates.empty()) progress.default_us = median_us(0);
  options_.progress(progress);
}

double Search::median_us(std::size_t index) const { return median_interval(result_.candidates[index].samples_us).median; }

std::vector<std::size_t> Search::by_time() const {
  std::vector<std::pair<double, std::size_t>> times;
  for (auto [index, candidate] : llvm::enumerate(result_.candidates)) {
    if (candidate.fate == Fate::kMeasured && !candidate.samples_us.empty()) times.emplace_back(median_us(index), index);
  }
  llvm::sort(times);  // equal medians in the order tried
  std::vector<std::size_t> order;
  for (const auto& [median, index] : times) order.push_back(index);
  return order;
}

bool Search::propose(const ConfigOverrides& config) { return seen_.count(config) == 0 && propose(config, predict_(config)); }

bool Search::propose(ConfigOverrides config, std::optional<double> predicted_us) {
  if (!seen_.insert(config).second || !predicted_us) return false;
  queue_.push_back({std::move(config), *predicted_us});
  return true;
}

// By the cost model; what it takes for equal stays as it was proposed.
void Search::order_queue(std::size_t from) {
  std::stable_sort(queue_.begin() + static_cast<std::ptrdiff_t>(from), queue_.end(),
                   [](const Proposal& a, const Proposal& b) { return a.predicted_us < b.predicted_us; });
}

// The whole space where it is small: counted first, so that a large one is left to the local search.
void Search::propose_all() {
  constexpr std::int64_t kMostLowered = 4096;  // combinations that are worth lowering just to count
  if (space_.combinations() > std::max(kMostLowered, options_.exhaustive_limit)) return;
  std::vector<Proposal> accepted;
  for (std::int64_t index = 0; index < space_.combinations(); ++index) {
    ConfigOverrides config = space_.combination(index);
    const std::optional<double> predicted_us = predict_(config);
    if (!predicted_us) continue;
    accepted.push_back({std::move(config), *predicted_us});
    if (static_cast<std::int64_t>(accepted.size()) > options_.exhaustive_limit) return;
  }
  result_.strategy = "exhaustive";
  const std::size_t from = queue_.size();  // behind the default and the hints
  for (Proposal& proposal : accepted) propose(std::move(proposal.config), proposal.predicted_us);
  order_queue(from);
}

// One step up and down in each parameter, and in two at once where one doubles what the other halves.
void Search::propose_neighbours(const ConfigOverrides& config) {
  auto stepped = [&](ConfigOverrides from, const SpaceParameter& parameter, int step) -> std::optional<ConfigOverrides> {
    const auto at = llvm::find(parameter.values, from.at(parameter.name)) - parameter.values.begin() + step;
    if (at < 0 || at >= static_cast<std::ptrdiff_t>(parameter.values.size())) return std::nullopt;
    from[parameter.name] = parameter.values[static_cast<std::size_t>(at)];
    return from;
  };
  for (const SpaceParameter& parameter : space_.parameters) {
    for (int step : {-1, 1}) {
      if (auto neighbour = stepped(config, parameter, step)) propose(*neighbour);
    }
  }
  for (const SpaceParameter& up : space_.parameters) {
    for (const SpaceParameter& down : space_.parameters) {
      if (&up == &down) continue;
      auto first = stepped(config, up, 1);
      if (!first) continue;
      if (auto second = stepped(*first, down, -1)) propose(*second);
    }
  }
}

// More candidates when the queue is empty; false when there is nothing left to propose.
bool Search::propose_more() {
  if (result_.strategy == "exhaustive") return false;
  for (std::size_t index : by_time()) {
    const ConfigOverrides config = result_.candidates[index].config;
    if (!expanded_.insert(config).second) continue;
    propose_neighbours(config);
    order_queue(next_);
    if (next_ < queue_.size()) return true;
  }
  std::size_t found = 0;
  for (int attempt = 0; attempt < kRestartTries && found < kRestarts; ++attempt) {
    ConfigOverrides config;
    for (const SpaceParameter& parameter : space_.parameters)
      config[parameter.name] = parameter.values[static_cast<std::size_t>(random() % parameter.values.size())];
    found += propose(config);
  }
  order_queue(next_);
  return found > 0;
}

void Search::keep(Candidate candidate) {
  result_.candidates.push_back(std::move(candidate));
  save();
  report("search");
}

// With those of the interrupted run that this one has not come to: it may be interrupted as well.
void Search::save() const {
  if (!options_.save) return;
  std::vector<Candidate> all = result_.candidates;
  for (const Candidate& candidate : options_.known) {
    if (known_.count(candidate.config) != 0) all.push_back(candidate);
  }
  options_.save(all);
}

llvm::Error Search::test(Candidate candidate) {
  if (candidate.fate == Fate::kWaiting && !candidate.keys.empty()) {
    auto [same, fresh] = by_keys_.emplace(candidate.keys, candidate.config);
    if (!fresh) {
      candidate.fate = Fate::kDuplicate;
      candidate.reason = "the same kernels as " + config_text(same->second);
    }
  }
  if (candidate.fate != Fate::kWaiting) {
    keep(std::move(candidate));
    return llvm::Error::success();
  }
  auto verdict = tester_.verify(candidate.config);
  if (!verdict) return verdict.takeError();
  candidate.fate = verdict->fate;
  candidate.reason = verdict->reason;
  if (candidate.fate == Fate::kMeasured) {
    auto verified = verifier_.accept(candidate.config, verdict->report.value_or(VerificationReport{}));
    if (verified) {
      candidate.normwise_error = verified->normwise();
      verified_.emplace(candidate.config, std::move(*verified));
      auto timed = tester_.time(candidate.config, options_.screen_samples);
      if (!timed) return timed.takeError();
      candidate.fate = timed->fate;
      candidate.reason = timed->reason;
      candidate.samples_us = std::move(timed->timed.us);
    } else {
      candidate.fate = Fate::kWrong;
      candidate.reason = take_error_facts(verified.takeError()).message;
    }
  }
  keep(std::move(candidate));
  return llvm::Error::success();
}

// Submits what the pool can take besides, then tests the oldest.
llvm::Error Search::test_next() {
  const std::size_t ahead = 2 * static_cast<std::size_t>(pool_.width()) + 1;
  for (; next_ < queue_.size() && pool_.pending() < ahead; ++next_) {
    const bool counted = options_.budget_candidates != 0;
    if (counted && result_.candidates.size() + pool_.pending() >= options_.budget_candidates) break;
    const ConfigOverrides& config = queue_[next_].config;
    const auto found = known_.find(config);
    if (found == known_.end()) {
      pool_.submit(config);
      continue;
    }
    const Candidate& known = options_.known[found->second];
    known_.erase(found);
    if (!known.keys.empty()) by_keys_.emplace(known.keys, known.config);
    keep(known);
  }
  if (pool_.pending() == 0) return llvm::Error::success();
  const double from = now_s();
  Candidate next = pool_.take();
  result_.waited_s += now_s() - from;
  return test(std::move(next));
}

llvm::Error Search::add_sample(std::size_t index) {
  Candidate& candidate = result_.candidates[index];
  auto timed = tester_.time(candidate.config, 1);
  if (!timed) return timed.takeError();
  candidate.fate = timed->fate;
  candidate.reason = timed->reason;
  candidate.samples_us.insert(candidate.samples_us.end(), timed->timed.us.begin(), timed->timed.us.end());
  return llvm::Error::success();
}

// One sample for each that is left, and what is wrong with them as a round taken back. Those that fail are left no more.
llvm::Expected<Round> Search::sample_round(std::vector<std::size_t>& left, bool forwards) {
  std::map<std::size_t, double> earlier_us;
  for (std::size_t index : left) earlier_us[index] = median_us(index);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (llvm::Error error = add_sample(left[forwards ? i : left.size() - 1 - i])) return error;
  }
  llvm::erase_if(left, [&](std::size_t index) { return result_.candidates[index].fate != Fate::kMeasured; });
  std::vector<double> ratios;
  for (std::size_t index : left) ratios.push_back(result_.candidates[index].samples_us.back() / earlier_us[index]);
  const Round round = tester_.end_round(ratios);
  for (std::size_t index : left) {
    std::vector<double>& samples = result_.candidates[index].samples_us;
    if (round == Round::kBusy) samples.pop_back();
    if (round == Round::kEarlierBusy) samples.erase(samples.begin(), samples.end() - 1);
  }
  return round;
}

// Rounds of one sample for each that is left, forwards and backwards in turn so that a drift of the clocks meets all alike. Who is slower
// than the best with confidence is dropped; the default stays, so that no winner is ever slower.
llvm::Error Search::settle() {
  std::vector<std::size_t> left = by_time();
  if (left.size() > options_.finalists) left.resize(options_.finalists);
  const bool default_measured = !result_.candidates.empty() && result_.candidates.front().fate == Fate::kMeasured;
  if (default_measured && !llvm::is_contained(left, std::size_t{0})) left.push_back(0);
  for (unsigned rounds = 0; rounds < options_.most_rounds && left.size() > 1;) {
    if (out_of_budget(1.0)) return llvm::Error::success();
    auto round = sample_round(left, rounds % 2 == 0);
    if (!round) return round.takeError();
    report("final");
    if (tester_.busy()) {
      result_.ended = "busy";
      return llvm::Error::success();
    }
    if (*round == Round::kBusy || ++rounds < kFewestRounds) continue;
    auto interval = [&](std::size_t index) { return median_interval(result_.candidates[index].samples_us); };
    const std::size_t best =
        *std::min_element(left.begin(), left.end(), [&](std::size_t a, std::size_t b) { return interval(a).median < interval(b).median; });
    const Interval fastest = interval(best);
    const double band = fastest.median * (1 + options_.tie_band);
    llvm::erase_if(left,
                   [&](std::size_t index) { return index != 0 && index != best && interval(index).low > std::max(fastest.high, band); });
    const bool settled = llvm::all_of(left, [&](std::size_t index) {
      return index == best || interval(index).high <= band || interval(index).low > std::max(fastest.high, band);
    });
    if (settled) break;
  }
  if (result_.ended.empty()) result_.ended = "settled";
  return llvm::Error::success();
}

// The first in the fixed order among those within the tie band of the fastest, verified in this process or once more.
llvm::Error Search::choose_winner() {
  while (true) {
    std::vector<std::size_t> order = by_time();
    // Nothing can be verified on a lost device: only what was verified before may win.
    if (!result_.lost.empty())
      llvm::erase_if(order, [&](std::size_t index) { return verified_.count(result_.candidates[index].config) == 0; });
    if (order.empty()) return llvm::Error::success();
    // Only as many samples make a median trustworthy as the longest-measured got half of.
    std::size_t most = 0;
    for (std::size_t index : order) most = std::max(most, result_.candidates[index].samples_us.size());
    std::vector<std::size_t> measured;
    for (std::size_t index : order) {
      if (2 * result_.candidates[index].samples_us.size() >= most) measured.push_back(index);
    }
    const double band = median_us(measured.front()) * (1 + options_.tie_band);
    std::size_t chosen = measured.front();
    for (std::size_t index : measured) {
      if (median_us(index) <= band && prefers(result_.candidates[index], result_.candidates[chosen])) chosen = index;
    }
    Candidate& candidate = result_.candidates[chosen];
    if (auto found = verified_.find(candidate.config); found != verified_.end()) {
      result_.winner = found->second;
      return llvm::Error::success();
    }
    auto verdict = tester_.verify(candidate.config);
    if (!verdict) return verdict.takeError();
    auto verified = verifier_.accept(candidate.config, verdict->report.value_or(VerificationReport{}));
    if (verified) {
      result_.winner = std::move(*verified);
      return llvm::Error::success();
    }
    candidate.reason = take_error_facts(verified.takeError()).message;
    candidate.fate = verdict->fate == Fate::kMeasured ? Fate::kWrong : verdict->fate;
  }
}

llvm::Error Search::search() {
  propose(space_.default_config());
  for (const ConfigOverrides& hint : options_.hints) propose(hint);
  propose_all();
  while (true) {
    if (next_ >= queue_.size() && pool_.pending() == 0 && !propose_more()) break;
    if (llvm::Error error = test_next()) return error;
    if (tester_.busy()) {
      result_.ended = "busy";
      return llvm::Error::success();
    }
    // The default is always tried: a budget of nothing still gives what there is.
    if (out_of_budget(kSearchShare)) break;
    if (options_.budget_candidates != 0 && result_.candidates.size() >= options_.budget_candidates) {
      result_.ended = "budget";
      break;
    }
  }
  const std::string search_ended = result_.ended;
  if (search_ended == "interrupted") return llvm::Error::success();
  result_.ended.clear();
  if (llvm::Error error = settle()) return error;
  if (result_.ended == "settled" && !search_ended.empty()) result_.ended = search_ended;
  return llvm::Error::success();
}

llvm::Expected<TuneResult> Search::run() {
  start_s_ = now_s();
  result_.strategy = "local search";
  llvm::Error error = search();
  if (!error) error = choose_winner();
  if (error) {
    ErrorFacts facts = take_error_facts(std::move(error));
    if (facts.status != Status::kMissing || result_.candidates.empty()) return make_error_text(facts.status, std::move(facts.message));
    result_.ended = "device lost";
    result_.lost = std::move(facts.message);
    if (llvm::Error none = choose_winner()) return none;
  }
  save();
  result_.conditions = tester_.json();
  result_.seconds = seconds();
  return std::move(result_);
}

}  // namespace tilewright
