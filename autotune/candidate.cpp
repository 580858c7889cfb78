#include "autotune/candidate.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

constexpr Fate kFates[] = {Fate::kWaiting, Fate::kRefused, Fate::kCompileFailed, Fate::kPruned,  Fate::kDuplicate,
                           Fate::kWrong,   Fate::kCrashed, Fate::kTimedOut,      Fate::kMeasured};

std::int64_t number(const llvm::json::Object& object, llvm::StringRef key) { return object.getInteger(key).value_or(0); }

}  // namespace

llvm::StringRef fate_name(Fate fate) {
  switch (fate) {
    case Fate::kWaiting:
      return "waiting";
    case Fate::kRefused:
      return "refused";
    case Fate::kCompileFailed:
      return "compile_failed";
    case Fate::kPruned:
      return "pruned";
    case Fate::kDuplicate:
      return "duplicate";
    case Fate::kWrong:
      return "wrong";
    case Fate::kCrashed:
      return "crashed";
    case Fate::kTimedOut:
      return "timed_out";
    case Fate::kMeasured:
      return "measured";
  }
  return "";
}

Interval median_interval(llvm::ArrayRef<double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  llvm::sort(sorted);
  const auto count = static_cast<double>(sorted.size());
  const double median = sorted[(sorted.size() - 1) / 2];
  if (sorted.size() < 6) return {sorted.front(), median, sorted.back()};
  // Ranks of a 95 % interval of the median: the binomial distribution's normal approximation.
  const double reach = 1.96 * std::sqrt(count) / 2;
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(count / 2 - reach)));
  const auto high = static_cast<std::size_t>(std::min(count - 1, std::ceil(count / 2 + reach)));
  return {sorted[low], median, sorted[high]};
}

bool prefers(const Candidate& a, const Candidate& b) {
  auto rank = [](const Candidate& c) {
    const Resources& r = c.resources;
    return std::make_tuple(r.local_bytes, r.shared_bytes, r.registers, r.block_threads);
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  return a.config < b.config;
}

llvm::json::Object config_json(const ConfigOverrides& config) {
  llvm::json::Object object;
  for (const auto& [name, value] : config) object[name] = value;
  return object;
}

llvm::Expected<ConfigOverrides> parse_config_json(const llvm::json::Value* json) {
  const llvm::json::Object* object = json != nullptr ? json->getAsObject() : nullptr;
  if (object == nullptr) return make_error(Status::kCorrupt, "config is not an object");
  ConfigOverrides config;
  for (const auto& [name, value] : *object) {
    const auto integer = value.getAsInteger();
    if (!integer) return make_error(Status::kCorrupt, "config: {} is not an integer", name.str());
    config[name.str()] = *integer;
  }
  return config;
}

const Candidate* find_candidate(llvm::ArrayRef<Candidate> candidates, const ConfigOverrides& config) {
  const auto* found = llvm::find_if(candidates, [&](const Candidate& c) { return c.config == config; });
  return found == candidates.end() ? nullptr : found;
}

llvm::json::Object candidate_json(const Candidate& c) {
  const Interval interval = median_interval(c.samples_us);
  llvm::json::Object resources{{"registers", c.resources.registers},
                               {"local_bytes", c.resources.local_bytes},
                               {"shared_bytes", c.resources.shared_bytes},
                               {"block_threads", c.resources.block_threads},
                               {"blocks_per_sm", c.resources.blocks_per_sm}};
  return llvm::json::Object{
      {"config", config_json(c.config)},   {"fate", fate_name(c.fate)},         {"reason", c.reason},
      {"keys", llvm::json::Array(c.keys)}, {"resources", std::move(resources)}, {"predicted_us", c.predicted_us},
      {"compile_ms", c.compile_ms},        {"median_us", interval.median},      {"samples_us", llvm::json::Array(c.samples_us)},
      {"normwise_error", c.normwise_error}};
}

llvm::Expected<Candidate> parse_candidate(const llvm::json::Value& json) {
  const llvm::json::Object* object = json.getAsObject();
  if (object == nullptr) return make_error(Status::kCorrupt, "candidate is not an object");
  Candidate candidate;
  auto config = parse_config_json(object->get("config"));
  if (!config) return config.takeError();
  candidate.config = std::move(*config);
  const llvm::StringRef fate = object->getString("fate").value_or("");
  const auto* known = llvm::find_if(kFates, [&](Fate f) { return fate_name(f) == fate; });
  const llvm::json::Object* resources = object->getObject("resources");
  const llvm::json::Array* keys = object->getArray("keys");
  const llvm::json::Array* samples = object->getArray("samples_us");
  if (known == std::end(kFates) || resources == nullptr || keys == nullptr || samples == nullptr)
    return make_error(Status::kCorrupt, "candidate {}: fate, resources, keys or samples are missing", candidate.name());
  candidate.fate = *known;
  candidate.reason = object->getString("reason").value_or("").str();
  candidate.resources = {number(*resources, "registers"), number(*resources, "local_bytes"), number(*resources, "shared_bytes"),
                         number(*resources, "block_threads"), number(*resources, "blocks_per_sm")};
  for (const llvm::json::Value& key : *keys) candidate.keys.push_back(key.getAsString().value_or("").str());
  for (const llvm::json::Value& sample : *samples) {
    const auto us = sample.getAsNumber();
    if (!us || !(*us > 0)) return make_error(Status::kCorrupt, "candidate {}: a sample is no positive number", candidate.name());
    candidate.samples_us.push_back(*us);
  }
  candidate.predicted_us = object->getNumber("predicted_us").value_or(0);
  candidate.compile_ms = object->getNumber("compile_ms").value_or(0);
  candidate.normwise_error = object->getNumber("normwise_error").value_or(0);
  return candidate;
}

}  // namespace tilewright
