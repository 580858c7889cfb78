#include "autotune/tester.h"

#include <chrono>
#include <thread>

#include "llvm/ADT/STLExtras.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

llvm::json::Object trial_json(const Trial& trial) {
  llvm::json::Object object{{"fate", fate_name(trial.fate)}, {"reason", trial.reason}, {"samples", llvm::json::Array(trial.timed.us)}};
  if (trial.timed.before) object["before"] = reading_json(*trial.timed.before);
  llvm::json::Array during;
  for (const DeviceReading& reading : trial.timed.during) during.push_back(reading_json(reading));
  if (!during.empty()) object["during"] = std::move(during);
  if (trial.report) object["report"] = report_json(*trial.report);
  return object;
}

llvm::Expected<Trial> parse_trial(llvm::StringRef line) {
  auto json = llvm::json::parse(line);
  if (!json) return make_error(Status::kCorrupt, "helper: {}", llvm::toString(json.takeError()));
  const llvm::json::Object* object = json->getAsObject();
  if (object == nullptr) return make_error(Status::kCorrupt, "helper: not an object");
  if (auto error = object->getString("error")) return make_error(Status::kInternal, "helper: {}", *error);
  const llvm::StringRef fate = object->getString("fate").value_or("");
  Trial trial;
  bool known = false;
  for (Fate f : {Fate::kWrong, Fate::kCrashed, Fate::kTimedOut, Fate::kMeasured}) {
    if (fate_name(f) == fate) trial.fate = f, known = true;
  }
  const llvm::json::Array* samples = object->getArray("samples");
  if (!known || samples == nullptr) return make_error(Status::kCorrupt, "helper: fate or samples are missing");
  trial.reason = object->getString("reason").value_or("").str();
  for (const llvm::json::Value& sample : *samples) trial.timed.us.push_back(sample.getAsNumber().value_or(0));
  if (const llvm::json::Object* before = object->getObject("before")) trial.timed.before = parse_reading(*before);
  if (const llvm::json::Array* during = object->getArray("during")) {
    for (const llvm::json::Value& reading : *during) {
      if (const llvm::json::Object* one = reading.getAsObject()) trial.timed.during.push_back(parse_reading(*one));
    }
  }
  if (const llvm::json::Value* report = object->get("report")) {
    auto parsed = parse_report(*report);
    if (!parsed) return parsed.takeError();
    trial.report = std::move(*parsed);
  }
  return trial;
}

}  // namespace

llvm::json::Object reading_json(const DeviceReading& reading) {
  llvm::json::Object json;
  auto add = [&](llvm::StringRef name, const auto& value) {
    if (value) json[name] = *value;
  };
  add("sm_mhz", reading.sm_mhz);
  add("memory_mhz", reading.memory_mhz);
  add("temperature_c", reading.temperature_c);
  add("power_w", reading.power_w);
  add("power_limit_w", reading.power_limit_w);
  add("busy_percent", reading.busy_percent);
  if (reading.clock_events) json["clock_events"] = static_cast<std::int64_t>(*reading.clock_events);
  if (reading.processes) json["processes"] = llvm::json::Array(*reading.processes);
  return json;
}

DeviceReading parse_reading(const llvm::json::Object& json) {
  auto number = [&](llvm::StringRef name) -> std::optional<unsigned> {
    const auto value = json.getInteger(name);
    return value ? std::optional<unsigned>(static_cast<unsigned>(*value)) : std::nullopt;
  };
  auto real = [&](llvm::StringRef name) -> std::optional<double> {
    const auto value = json.getNumber(name);
    return value ? std::optional<double>(*value) : std::nullopt;
  };
  DeviceReading reading;
  reading.sm_mhz = number("sm_mhz");
  reading.memory_mhz = number("memory_mhz");
  reading.temperature_c = number("temperature_c");
  reading.power_w = real("power_w");
  reading.power_limit_w = real("power_limit_w");
  reading.busy_percent = number("busy_percent");
  if (const auto events = json.getInteger("clock_events")) reading.clock_events = static_cast<std::uint64_t>(*events);
  if (const llvm::json::Array* processes = json.getArray("processes")) {
    reading.processes.emplace();
    for (const llvm::json::Value& process : *processes)
      reading.processes->push_back(static_cast<unsigned>(process.getAsInteger().value_or(0)));
  }
  return reading;
}

llvm::Expected<Trial> LocalTester::verify(const ConfigOverrides& config) {
  auto report = verifier_.check(config, runner_);
  if (!report) return report.takeError();
  Trial trial;
  auto verified = verifier_.accept(config, *report);
  if (!verified) {
    const bool launched = llvm::all_of(report->cases, [](const CaseReport& c) { return c.launched; });
    trial.fate = launched ? Fate::kWrong : Fate::kCrashed;
    trial.reason = take_error_facts(verified.takeError()).message;
  }
  trial.report = std::move(*report);
  return trial;
}

llvm::Expected<Trial> LocalTester::time(const ConfigOverrides& config, unsigned samples) {
  Trial trial;
  auto times = runner_.time(config, samples);
  if (times) {
    trial.timed = std::move(*times);
  } else {
    trial.fate = Fate::kCrashed;
    trial.reason = take_error_facts(times.takeError()).message;
  }
  return trial;
}

llvm::Error serve_tester(CandidateTester& tester, int in, int out) {
  return serve_requests(in, out,
                        [&](const llvm::json::Object& request, const ConfigOverrides& config) -> llvm::Expected<llvm::json::Object> {
                          const bool timing = request.getString("do") == llvm::StringRef("time");
                          const auto samples = static_cast<unsigned>(request.getInteger("samples").value_or(1));
                          auto trial = timing ? tester.time(config, samples) : tester.verify(config);
                          if (!trial) return trial.takeError();
                          return trial_json(*trial);
                        });
}

llvm::Error HelperTester::start() {
  double pause_s = options_.pause_s;
  for (unsigned failed = 0;;) {
    auto reason = start_one();
    if (!reason) return reason.takeError();
    if (reason->empty()) return llvm::Error::success();
    if (++failed >= options_.most_failed_starts)
      return make_error(Status::kMissing, "candidates cannot be run: {} helper processes could not begin, the last: {}", failed, *reason);
    std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
    pause_s *= 2;
  }
}

llvm::Expected<std::string> HelperTester::start_one() {
  if (llvm::Error error = process_.spawn(options_.program, options_.arguments)) return error;
  ++starts_;
  return process_.greet(options_.start_limit_s);
}

// The trial, if a fresh helper can begin: else it was not the candidate that failed.
llvm::Expected<Trial> HelperTester::blame(Trial trial) {
  process_.stop();
  if (llvm::Error error = start()) return prefix_error(std::move(error), fmt::format("after \"{}\": ", trial.reason));
  return trial;
}

llvm::Expected<Trial> HelperTester::ask(llvm::json::Object request, double limit_s) {
  if (process_.process() < 0) {
    if (llvm::Error error = start()) return error;
  }
  std::string line;
  const LineRead read = process_.ask(std::move(request), line, limit_s);
  if (read == LineRead::kLine) {
    auto trial = parse_trial(line);
    // After a fault of the kernel the helper's context is no longer of use.
    if (trial && trial->fate == Fate::kCrashed) return blame(std::move(*trial));
    return trial;
  }
  Trial trial;
  if (read == LineRead::kLate) {
    trial.fate = Fate::kTimedOut;
    trial.reason = fmt::format("no answer within {:.1f} s; the helper was ended", limit_s);
  } else {
    trial.fate = Fate::kCrashed;
    trial.reason = "the helper ended: " + process_.wait_for_end();
  }
  return blame(std::move(trial));
}

llvm::Expected<Trial> HelperTester::verify(const ConfigOverrides& config) {
  return ask(llvm::json::Object{{"do", "verify"}, {"config", config_json(config)}}, options_.verify_limit_s);
}

llvm::Expected<Trial> HelperTester::time(const ConfigOverrides& config, unsigned samples) {
  return ask(llvm::json::Object{{"do", "time"}, {"config", config_json(config)}, {"samples", static_cast<std::int64_t>(samples)}},
             options_.time_limit_s);
}

}  // namespace tilewright
