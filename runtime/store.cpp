#include "runtime/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace tilewright {
namespace {

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;  // no kernel is this large; keeps a stray file from filling memory
constexpr std::size_t kMostKept = 16;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct FileBytes {
  std::string bytes;
  std::uint64_t inode = 0;
};

// nullopt with errno set: ENOENT when there is no such file.
std::optional<FileBytes> read_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) > kMostFileBytes) {
    errno = EINVAL;
    return std::nullopt;
  }
  FileBytes result;
  result.inode = status.st_ino;
  result.bytes.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < result.bytes.size()) {
    const ssize_t count = ::read(file.get(), result.bytes.data() + done, result.bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  result.bytes.resize(done);
  return result;
}

bool write_all(int fd, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.drop_front(static_cast<std::size_t>(count));
  }
  return ::fsync(fd) == 0;
}

std::string entry_path(const std::string& directory, llvm::StringRef key) { return fmt::format("{}/{}.twk", directory, key); }

llvm::Expected<StoreEntry> decode_named(llvm::StringRef bytes, llvm::StringRef key) {
  auto entry = decode_entry(bytes);
  if (entry && entry->key != key) return make_error(Status::kCorrupt, "store entry: holds key {}, its name says {}", entry->key, key);
  return entry;
}

bool is_key(llvm::StringRef text) {
  return text.size() == 64 && llvm::all_of(text, [](char c) { return llvm::isDigit(c) || (c >= 'a' && c <= 'f'); });
}

llvm::Expected<std::vector<StoreListing>> list_directory(const std::string& directory) {
  std::vector<StoreListing> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(directory, error), end; it != end && !error; it.increment(error)) {
    const llvm::StringRef path = it->path();
    if (llvm::sys::path::extension(path) != ".twk" || !is_key(llvm::sys::path::stem(path))) continue;
    struct stat status {};
    if (::stat(it->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    found.push_back(
        {llvm::sys::path::stem(path).str(), path.str(), directory, static_cast<std::uint64_t>(status.st_size), status.st_mtime});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return make_error(Status::kIo, "store: cannot read directory {}: {}", directory, error.message());
  }
  return found;
}

// Removes all but the newest files of a directory that is there for people to look into.
void keep_newest(const std::string& directory) {
  std::vector<std::pair<std::int64_t, std::string>> files;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(directory, error), end; it != end && !error; it.increment(error)) {
    struct stat status {};
    if (::stat(it->path().c_str(), &status) == 0)
      files.emplace_back(status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec, it->path());
  }
  if (files.size() <= kMostKept) return;
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + kMostKept < files.size(); ++i) ::unlink(files[i].second.c_str());
}

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace

StoreOptions StoreOptions::from_environment() {
  StoreOptions options;
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return text ? llvm::StringRef(text) : llvm::StringRef();
  };
  // The XDG base directory specification: a relative path is to be ignored.
  if (!value("TILEWRIGHT_CACHE_DIR").empty()) {
    options.directory = value("TILEWRIGHT_CACHE_DIR").str();
  } else if (value("XDG_CACHE_HOME").starts_with("/")) {
    options.directory = value("XDG_CACHE_HOME").str() + "/tilewright";
  } else if (value("HOME").starts_with("/")) {
    options.directory = value("HOME").str() + "/.cache/tilewright";
  }
  llvm::SmallVector<llvm::StringRef, 4> layers;
  value("TILEWRIGHT_CACHE_LAYERS").split(layers, ':', -1, /*KeepEmpty=*/false);
  for (const llvm::StringRef layer : layers) options.layers.push_back(layer.str());
  return options;
}

Store::Store(StoreOptions options) : options_(std::move(options)) {}

std::shared_ptr<const StoreEntry> Store::lookup_memory(llvm::StringRef key) {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(key.str());
  if (found == memory_.end()) return nullptr;
  order_.splice(order_.end(), order_, found->second);
  return *found->second;
}

void Store::remember(const std::shared_ptr<const StoreEntry>& entry) {
  const std::lock_guard lock(mutex_);
  if (memory_.contains(entry->key)) return;
  memory_bytes_ += entry->bytes();
  order_.push_back(entry);
  memory_[entry->key] = std::prev(order_.end());
  while (memory_bytes_ > options_.memory_limit_bytes && order_.size() > 1) {
    memory_bytes_ -= order_.front()->bytes();
    memory_.erase(order_.front()->key);
    order_.pop_front();
  }
}

std::shared_ptr<const StoreEntry> Store::lookup_file(llvm::StringRef key, const std::string& directory, bool writable) {
  const std::string path = entry_path(directory, key);
  auto file = read_file(path);
  if (!file) {
    if (errno != ENOENT && errno != ENOTDIR) log(LogLevel::kWarning, "store: cannot read {}: {}", path, error_text(errno));
    return nullptr;
  }
  auto entry = decode_named(file->bytes, key);
  if (entry) return std::make_shared<const StoreEntry>(std::move(*entry));
  ++counts_[kCorrupt];
  const ErrorFacts facts = take_error_facts(entry.takeError());
  const bool moved = writable && quarantine(path, key, file->inode);
  log(LogLevel::kWarning, "store: {}: {}; {}", path, facts.message, moved ? "moved into quarantine" : "left where it is, passed over");
  return nullptr;
}

bool Store::quarantine(const std::string& path, llvm::StringRef key, std::uint64_t inode) {
  // Another process may have rebuilt the entry since it was read: then there is nothing to move.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || status.st_ino != inode) return false;
  const std::string directory = options_.directory + "/quarantine";
  if (llvm::sys::fs::create_directories(directory)) return false;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  if (::rename(path.c_str(), fmt::format("{}/{}-{}.twk", directory, key, microseconds).c_str()) != 0) return false;
  keep_newest(directory);
  return true;
}

std::optional<Store::Hit> Store::lookup(llvm::StringRef key, bool again) {
  if (!again) ++counts_[kLookups];
  if (auto entry = lookup_memory(key)) {
    ++counts_[kMemoryHits];
    return Hit{std::move(entry), Origin::kMemory};
  }
  if (!options_.directory.empty()) {
    if (auto entry = lookup_file(key, options_.directory, true)) {
      ++counts_[kDirectoryHits];
      remember(entry);
      return Hit{std::move(entry), Origin::kDirectory};
    }
  }
  for (const std::string& layer : options_.layers) {
    if (auto entry = lookup_file(key, layer, false)) {
      ++counts_[kLayerHits];
      remember(entry);
      return Hit{std::move(entry), Origin::kLayer};
    }
  }
  if (!again) ++counts_[kMisses];
  return std::nullopt;
}

void Store::write_failed(llvm::StringRef what) {
  ++counts_[kWriteFailures];
  const bool first = !warned_.exchange(true);
  log(first ? LogLevel::kWarning : LogLevel::kDebug, "store: {}; kernels are kept in memory alone", what);
}

void Store::insert(const std::shared_ptr<const StoreEntry>& entry) {
  remember(entry);
  if (options_.directory.empty()) return;
  if (const std::error_code error = llvm::sys::fs::create_directories(options_.directory)) {
    return write_failed(fmt::format("cannot make directory {}: {}", options_.directory, error.message()));
  }
  int fd = -1;
  llvm::SmallString<256> temporary;
  if (const std::error_code error = llvm::sys::fs::createUniqueFile(options_.directory + "/tmp-%%%%%%%%%%%%", fd, temporary)) {
    return write_failed(fmt::format("cannot write in {}: {}", options_.directory, error.message()));
  }
  const FileDescriptor file(fd);
  const std::string path = entry_path(options_.directory, entry->key);
  // fsync before rename: after a crash of the machine the name holds the whole entry or none. Who loses a race overwrites equal bytes.
  if (!write_all(fd, encode_entry(*entry)) || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return write_failed(fmt::format("cannot write {}: {}", path, error_text(error)));
  }
  ++counts_[kWrites];
}

std::string Store::keep_failed_source(llvm::StringRef key, llvm::StringRef source) {
  const std::string directory = options_.directory + "/failed";
  if (options_.directory.empty() || llvm::sys::fs::create_directories(directory)) return {};
  std::string path = fmt::format("{}/{}.cu", directory, key);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0 || !write_all(file.get(), source)) return {};
  keep_newest(directory);
  return path;
}

llvm::Error Store::with_kept_source(llvm::Error error, llvm::StringRef key, llvm::StringRef source) {
  ErrorFacts facts = take_error_facts(std::move(error));
  const std::string path = facts.status == Status::kCompileFailed ? keep_failed_source(key, source) : std::string();
  if (!path.empty()) facts.message += fmt::format("\nThe source is in {}", path);
  return make_error_text(facts.status, facts.message);
}

Store::KeyLock::KeyLock(KeyLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), waited_(other.waited_), path_(std::move(other.path_)) {}

Store::KeyLock::~KeyLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());  // while it is held: who opened it before finds that it has no name any more and opens it anew
  ::close(fd_);
}

Store::KeyLock Store::lock(llvm::StringRef key) {
  KeyLock result;
  if (options_.directory.empty() || llvm::sys::fs::create_directories(options_.directory)) return result;
  result.path_ = fmt::format("{}/{}.lock", options_.directory, key);
  const auto deadline = std::chrono::steady_clock::now() + options_.lock_wait;
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    FileDescriptor file(::open(result.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (file.get() < 0) return result;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      struct stat mine {
      }, named{};
      const bool same = ::fstat(file.get(), &mine) == 0 && ::stat(result.path_.c_str(), &named) == 0 && mine.st_ino == named.st_ino;
      if (!same) continue;  // its holder finished and removed it between our open and our lock
      result.fd_ = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
      return result;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return result;  // a file system without locks
    result.waited_ = true;
    if (std::chrono::steady_clock::now() >= deadline) {
      log(LogLevel::kWarning, "store: {} is still locked after {} ms; compiling without it", result.path_, options_.lock_wait.count());
      return result;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(16));
  }
}

llvm::Expected<std::vector<StoreListing>> Store::list() const {
  std::vector<StoreListing> found;
  const auto by_key = [](const StoreListing& a, const StoreListing& b) { return a.key < b.key; };
  const auto add = [&](const std::string& directory) -> llvm::Error {
    auto more = list_directory(directory);
    if (!more) return more.takeError();
    std::sort(more->begin(), more->end(), by_key);
    // Of one key in several places, the one that a lookup takes comes first: merging keeps that order.
    std::vector<StoreListing> both;
    std::merge(std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()), std::make_move_iterator(more->begin()),
               std::make_move_iterator(more->end()), std::back_inserter(both), by_key);
    found = std::move(both);
    return llvm::Error::success();
  };
  if (!options_.directory.empty()) {
    if (llvm::Error error = add(options_.directory)) return error;
  }
  for (const std::string& layer : options_.layers) {
    if (llvm::Error error = add(layer)) return error;
  }
  return found;
}

llvm::Expected<StoreEntry> Store::read(const StoreListing& listing) {
  const auto file = read_file(listing.path);
  if (!file) return make_error(Status::kIo, "store: cannot read {}: {}", listing.path, error_text(errno));
  auto entry = decode_named(file->bytes, listing.key);
  if (!entry) return prefix_error(entry.takeError(), listing.path + ": ");
  return entry;
}

llvm::Expected<std::pair<StoreListing, StoreEntry>> Store::read(llvm::StringRef prefix) const {
  auto listings = list();
  if (!listings) return listings.takeError();
  std::optional<StoreListing> match;
  for (StoreListing& listing : *listings) {
    if (!llvm::StringRef(listing.key).starts_with(prefix) || (match && match->key == listing.key)) continue;
    if (match)
      return make_error(Status::kInvalidArgument, "store: several keys begin with \"{}\": {}, {}", prefix, match->key, listing.key);
    match = std::move(listing);
  }
  if (!match) return make_error(Status::kInvalidArgument, "store: no key begins with \"{}\"", prefix);
  auto entry = read(*match);
  if (!entry) return entry.takeError();
  return std::make_pair(std::move(*match), std::move(*entry));
}

llvm::Expected<std::vector<StoreProblem>> Store::verify() const {
  auto listings = list();
  if (!listings) return listings.takeError();
  std::vector<StoreProblem> problems;
  for (StoreListing& listing : *listings) {
    const auto file = read_file(listing.path);
    if (!file) {
      problems.push_back({std::move(listing), "cannot be read: " + error_text(errno)});
    } else if (auto entry = decode_named(file->bytes, listing.key); !entry) {
      problems.push_back({std::move(listing), take_error_facts(entry.takeError()).message});
    }
  }
  return problems;
}

StoreCounters Store::counters() const {
  const auto value = [&](Count which) { return counts_[which].load(); };
  return {value(kLookups), value(kMemoryHits), value(kDirectoryHits), value(kLayerHits),
          value(kMisses),  value(kCorrupt),    value(kWrites),        value(kWriteFailures)};
}

}  // namespace tilewright
