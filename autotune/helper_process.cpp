#include "autotune/helper_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

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

// One line without its end; `buffer` keeps what came after it. No limit for limit_s <= 0.
LineRead read_line(int fd, std::string& buffer, std::string& line, double limit_s) {
  const auto limit = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  while (true) {
    if (const std::size_t end = buffer.find('\n'); end != std::string::npos) {
      line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      return LineRead::kLine;
    }
    int wait_ms = -1;
    if (limit_s > 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
      if (left <= 0) return LineRead::kLate;
      wait_ms = static_cast<int>(left) + 1;
    }
    pollfd wanted{fd, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, wait_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) continue;
    char bytes[4096];
    const ssize_t count = ::read(fd, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return LineRead::kEnd;
    buffer.append(bytes, static_cast<std::size_t>(count));
  }
}

}  // namespace

llvm::Error HelperProcess::spawn(const std::string& program, llvm::ArrayRef<std::string> arguments) {
  stop();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return make_error(Status::kIo, "no socket pair: {}", std::strerror(errno));
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    return make_error(Status::kIo, "cannot start {}: {}", program, std::strerror(failed));
  }
  pid_ = pid;
  socket_ = ends[0];
  buffer_.clear();
  return llvm::Error::success();
}

llvm::Expected<std::string> HelperProcess::greet(double limit_s) {
  std::string line;
  switch (read_line(socket_, buffer_, line, limit_s)) {
    case LineRead::kEnd:
      return wait_for_end();
    case LineRead::kLate:
      stop();
      return fmt::format("nothing within {:g} s", limit_s);
    case LineRead::kLine:
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

LineRead HelperProcess::ask(llvm::json::Object request, std::string& answer, double limit_s) {
  if (!send_all(socket_, line_of(std::move(request)))) return LineRead::kEnd;
  return read_line(socket_, buffer_, answer, limit_s);
}

bool HelperProcess::running() const {
  siginfo_t ended{};
  return pid_ >= 0 && ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
}

void HelperProcess::kill() {
  const std::lock_guard lock(mutex_);
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

std::string HelperProcess::stop() {
  const std::lock_guard lock(mutex_);
  if (pid_ < 0) return "";
  ::close(socket_);
  ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  socket_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

// The end of the stream comes just before the process is gone; its own end is the reason, not our kill.
std::string HelperProcess::wait_for_end() {
  for (int i = 0; i < 200 && running(); ++i) ::usleep(5000);
  return stop();
}

void refuse_requests(llvm::StringRef reason, int out) { send_all(out, line_of(llvm::json::Object{{"error", reason}})); }

llvm::Error serve_requests(
    int in, int out,
    llvm::function_ref<llvm::Expected<llvm::json::Object>(const llvm::json::Object& request, const ConfigOverrides& config)> answer) {
  if (!send_all(out, line_of(llvm::json::Object{{"ready", true}}))) return llvm::Error::success();
  std::string buffer, line;
  while (read_line(in, buffer, line, 0) == LineRead::kLine) {
    auto request = llvm::json::parse(line);
    if (!request) return make_error(Status::kCorrupt, "request: {}", llvm::toString(request.takeError()));
    const llvm::json::Object* object = request->getAsObject();
    if (object == nullptr) return make_error(Status::kCorrupt, "request: not an object");
    auto config = parse_config_json(object->get("config"));
    if (!config) return config.takeError();
    auto answered = answer(*object, *config);
    if (!answered) answered = llvm::json::Object{{"error", take_error_facts(answered.takeError()).message}};
    if (!send_all(out, line_of(std::move(*answered)))) return llvm::Error::success();
  }
  return llvm::Error::success();
}

void become_helper() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGINT, SIG_IGN);
}

}  // namespace tilewright
