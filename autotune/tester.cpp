#include "autotune/tester.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"

extern "C" char** environ;

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

std::string line_of(llvm::json::Object object) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::json::Value(std::move(object));
  os.flush();
  return text + "\n";
}

// False: the other side is gone.
bool send_all(int fd, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    const ssize_t count = sent < 0 && errno == ENOTSOCK ? ::write(fd, bytes.data(), bytes.size()) : sent;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.drop_front(static_cast<std::size_t>(count));
  }
  return true;
}

enum class Read : std::uint8_t { kLine, kEnd, kLate };

// One line without its end; `buffer` keeps what came after it. No limit for limit_s <= 0.
Read read_line(int fd, std::string& buffer, std::string& line, double limit_s) {
  const auto limit = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  while (true) {
    if (const std::size_t end = buffer.find('\n'); end != std::string::npos) {
      line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      return Read::kLine;
    }
    int wait_ms = -1;
    if (limit_s > 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
      if (left <= 0) return Read::kLate;
      wait_ms = static_cast<int>(left) + 1;
    }
    pollfd wanted{fd, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, wait_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) continue;
    char bytes[4096];
    const ssize_t count = ::read(fd, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Read::kEnd;
    buffer.append(bytes, static_cast<std::size_t>(count));
  }
}

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

void refuse_tester(llvm::StringRef reason, int out) { send_all(out, line_of(llvm::json::Object{{"error", reason}})); }

llvm::Error serve_tester(CandidateTester& tester, int in, int out) {
  if (!send_all(out, line_of(llvm::json::Object{{"ready", true}}))) return llvm::Error::success();
  std::string buffer, line;
  while (read_line(in, buffer, line, 0) == Read::kLine) {
    auto request = llvm::json::parse(line);
    if (!request) return make_error(Status::kCorrupt, "request: {}", llvm::toString(request.takeError()));
    const llvm::json::Object* object = request->getAsObject();
    if (object == nullptr) return make_error(Status::kCorrupt, "request: not an object");
    auto config = parse_config_json(object->get("config"));
    if (!config) return config.takeError();
    const bool timing = object->getString("do") == llvm::StringRef("time");
    auto trial = timing ? tester.time(*config, static_cast<unsigned>(object->getInteger("samples").value_or(1))) : tester.verify(*config);
    llvm::json::Object answer;
    if (trial) {
      answer = trial_json(*trial);
    } else {
      answer["error"] = take_error_facts(trial.takeError()).message;
    }
    if (!send_all(out, line_of(std::move(answer)))) return llvm::Error::success();
  }
  return llvm::Error::success();
}

HelperTester::~HelperTester() { stop(); }

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
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return make_error(Status::kIo, "helper: no socket pair: {}", std::strerror(errno));
  std::vector<std::string> words{options_.program};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  // A group of its own: an interrupt from the terminal is the search's to handle.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, options_.program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    return make_error(Status::kIo, "helper: cannot start {}: {}", options_.program, std::strerror(failed));
  }
  pid_ = pid;
  to_ = from_ = ends[0];
  buffer_.clear();
  ++starts_;
  std::string line;
  switch (read_line(from_, buffer_, line, options_.start_limit_s)) {
    case Read::kEnd:
      return wait_for_end();
    case Read::kLate:
      stop();
      return fmt::format("nothing within {:.0f} s", options_.start_limit_s);
    case Read::kLine:
      break;
  }
  auto json = llvm::json::parse(line);
  if (!json) {
    stop();
    return make_error(Status::kCorrupt, "helper: {}", llvm::toString(json.takeError()));
  }
  const llvm::json::Object* greeting = json->getAsObject();
  if (greeting != nullptr && greeting->getBoolean("ready") == true) return "";
  const std::string reason = greeting != nullptr ? greeting->getString("error").value_or("").str() : "";
  stop();
  if (reason.empty()) return make_error(Status::kCorrupt, "helper: it begins with {}", line);
  return reason;
}

std::string HelperTester::stop() {
  if (pid_ < 0) return "";
  ::close(to_);
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = to_ = from_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

// The end of the stream comes just before the process is gone; its own end is the reason, not our kill.
std::string HelperTester::wait_for_end() {
  for (int i = 0; i < 200; ++i) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) break;
    ::usleep(5000);
  }
  return stop();
}

// The trial, if a fresh helper can begin: else it was not the candidate that failed.
llvm::Expected<Trial> HelperTester::blame(Trial trial) {
  stop();
  if (llvm::Error error = start()) return prefix_error(std::move(error), fmt::format("after \"{}\": ", trial.reason));
  return trial;
}

llvm::Expected<Trial> HelperTester::ask(llvm::json::Object request, double limit_s) {
  if (pid_ < 0) {
    if (llvm::Error error = start()) return error;
  }
  std::string line;
  const Read read = send_all(to_, line_of(std::move(request))) ? read_line(from_, buffer_, line, limit_s) : Read::kEnd;
  if (read == Read::kLine) {
    auto trial = parse_trial(line);
    // After a fault of the kernel the helper's context is no longer of use.
    if (trial && trial->fate == Fate::kCrashed) return blame(std::move(*trial));
    return trial;
  }
  Trial trial;
  if (read == Read::kLate) {
    trial.fate = Fate::kTimedOut;
    trial.reason = fmt::format("no answer within {:.1f} s; the helper was ended", limit_s);
  } else {
    trial.fate = Fate::kCrashed;
    trial.reason = "the helper ended: " + wait_for_end();
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
