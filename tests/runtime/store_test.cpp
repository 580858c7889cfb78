#include "runtime/store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "runtime/hash.h"
#include "tests/runtime/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

std::shared_ptr<StoreEntry> sample(const std::string& name, std::size_t binary_bytes = 300) {
  auto entry = std::make_shared<StoreEntry>();
  entry->key = digest_hex(blake3(name));
  entry->provenance = "{\"name\":\"" + name + "\"}";
  entry->source = "// " + name + "\n";
  for (std::size_t i = 0; i < binary_bytes; ++i) entry->binary.push_back(static_cast<char>(i * 37));
  return entry;
}

StoreOptions in(const std::string& directory) {
  StoreOptions options;
  options.directory = directory;
  return options;
}

std::string path_of(const std::string& directory, const StoreEntry& entry) { return directory + "/" + entry.key + ".twk"; }

}  // namespace

TEST_CASE("store: an entry's bytes come back", "[runtime]") {
  auto entry = sample("a");
  entry->is_ptx = GENERATE(false, true);
  const StoreEntry back = must(decode_entry(encode_entry(*entry)));
  CHECK(back.key == entry->key);
  CHECK(back.provenance == entry->provenance);
  CHECK(back.source == entry->source);
  CHECK(back.binary == entry->binary);
  CHECK(back.is_ptx == entry->is_ptx);
}

TEST_CASE("store: every truncation of an entry is refused", "[runtime]") {
  const std::string bytes = encode_entry(*sample("a"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    REQUIRE(failure_of(decode_entry(bytes.substr(0, size))).status == Status::kCorrupt);
  }
  CHECK(failure_of(decode_entry(bytes + "x")).status == Status::kCorrupt);
}

TEST_CASE("store: every flipped bit of an entry is refused", "[runtime]") {
  const std::string bytes = encode_entry(*sample("a", 40));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    CAPTURE(bit);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    REQUIRE(failure_of(decode_entry(flipped)).status == Status::kCorrupt);
  }
}

TEST_CASE("store: an entry is found in memory, then by another store in the directory", "[runtime]") {
  const ScratchDirectory directory;
  const auto entry = sample("a");
  Store store(in(directory.path()));
  CHECK_FALSE(store.lookup(entry->key));
  store.insert(entry);
  CHECK(store.lookup(entry->key)->origin == Origin::kMemory);
  CHECK(store.counters().misses == 1);
  CHECK(store.counters().writes == 1);

  Store other(in(directory.path()));
  const auto hit = other.lookup(entry->key);
  REQUIRE(hit);
  CHECK(hit->origin == Origin::kDirectory);
  CHECK(hit->entry->binary == entry->binary);
  CHECK(other.lookup(entry->key)->origin == Origin::kMemory);
  CHECK(other.counters().directory_hits == 1);
  CHECK(files_in(directory.path()).size() == 1);  // no temporary file is left
}

TEST_CASE("store: layers are read, in order, and never written", "[runtime]") {
  const ScratchDirectory first, second, own;
  const auto entry = sample("a");
  Store(in(second.path())).insert(entry);
  StoreOptions options = in(own.path());
  options.layers = {first.path(), second.path(), "/nonexistent"};
  Store store(options);
  CHECK(store.lookup(entry->key)->origin == Origin::kLayer);
  CHECK(store.counters().layer_hits == 1);
  CHECK(files_in(first.path()).empty());

  second.write(entry->key + ".twk", "damaged");
  LogCapture capture;
  CHECK_FALSE(Store(options).lookup(entry->key));
  CHECK(file_text(path_of(second.path(), *entry)) == "damaged");
  CHECK(capture.contains("left where it is"));
}

TEST_CASE("store: a damaged file is a miss, is moved aside and can be written again", "[runtime]") {
  const ScratchDirectory directory;
  const auto entry = sample("a");
  Store(in(directory.path())).insert(entry);
  const std::string good = file_text(path_of(directory.path(), *entry));
  std::string bad = good;
  bad[good.size() / 2] = static_cast<char>(bad[good.size() / 2] ^ 1);
  const std::string other_entry = encode_entry(*sample("b"));
  const int which = GENERATE(0, 1, 2, 3);
  const std::string content = std::vector<std::string>{"", good.substr(0, good.size() / 2), bad, other_entry}[which];
  directory.write(entry->key + ".twk", content);

  LogCapture capture;
  Store store(in(directory.path()));
  CHECK_FALSE(store.lookup(entry->key));
  CHECK(store.counters().corrupt == 1);
  CHECK(capture.contains("quarantine"));
  CHECK_FALSE(llvm::sys::fs::exists(path_of(directory.path(), *entry)));
  CHECK(files_in(directory.path() + "/quarantine").size() == 1);
  store.insert(entry);
  CHECK(file_text(path_of(directory.path(), *entry)) == good);
}

TEST_CASE("store: the quarantine keeps the newest files alone", "[runtime]") {
  const ScratchDirectory directory;
  Store store(in(directory.path()));
  for (int i = 0; i < 25; ++i) {
    const auto entry = sample(std::to_string(i));
    directory.write(entry->key + ".twk", "damaged");
    CHECK_FALSE(store.lookup(entry->key));
  }
  CHECK(files_in(directory.path() + "/quarantine").size() == 16);
}

TEST_CASE("store: where nothing can be written the kernel stays in memory, with one warning", "[runtime]") {
  const ScratchDirectory directory;
  directory.write("file", "in the way");
  const int which = GENERATE(0, 1, 2);
  const std::string place = std::vector<std::string>{directory.path("file"), directory.path("file/below"), "/proc/tilewright"}[which];
  CAPTURE(place);
  LogCapture capture;
  Store store(in(place));
  for (const char* name : {"a", "b", "c"}) {
    const auto entry = sample(name);
    CHECK_FALSE(store.lookup(entry->key));
    CHECK_FALSE(store.lock(entry->key).held());
    store.insert(entry);
    CHECK(store.lookup(entry->key)->origin == Origin::kMemory);
  }
  CHECK(store.counters().write_failures == 3);
  CHECK(capture.messages().size() == 1);
}

TEST_CASE("store: memory alone works without a directory", "[runtime]") {
  Store store(in(""));
  store.insert(sample("a"));
  CHECK(store.lookup(sample("a")->key));
  CHECK(must(store.list()).empty());
  CHECK(store.counters().write_failures == 0);
}

TEST_CASE("store: the memory layer forgets what was not used for longest", "[runtime]") {
  StoreOptions options = in("");
  options.memory_limit_bytes = 2500;
  Store store(options);
  for (const char* name : {"a", "b"}) store.insert(sample(name, 1000));
  CHECK(store.lookup(sample("a")->key));
  store.insert(sample("c", 1000));
  CHECK(store.lookup(sample("a")->key));
  CHECK_FALSE(store.lookup(sample("b")->key));
}

TEST_CASE("store: threads that write and read the same keys see whole entries", "[runtime]") {
  const ScratchDirectory directory;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        Store store(in(directory.path()));
        const auto entry = sample(std::to_string(round % 4), 20000);
        const auto hit = store.lookup(entry->key);
        if (hit && hit->entry->binary != entry->binary) ++wrong;
        store.insert(entry);
        if (store.counters().corrupt != 0 || store.counters().write_failures != 0) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(files_in(directory.path()).size() == 4);
}

TEST_CASE("store: processes that write and read the same keys see whole entries", "[runtime]") {
  const ScratchDirectory directory;
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      bool good = true;
      for (int round = 0; round < 40; ++round) {
        Store store(in(directory.path()));
        const auto entry = sample(std::to_string(round % 3), 50000);
        const auto hit = store.lookup(entry->key);
        good = good && (!hit || hit->entry->binary == entry->binary);
        store.insert(entry);
        good = good && store.counters().corrupt == 0 && store.counters().write_failures == 0;
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = -1;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  CHECK(must(Store(in(directory.path())).verify()).empty());
}

TEST_CASE("store: a key's lock is exclusive, waits for a while only and leaves no file", "[runtime]") {
  const ScratchDirectory directory;
  StoreOptions options = in(directory.path());
  options.lock_wait = std::chrono::milliseconds(30);
  Store store(options), other(options);
  const std::string key = sample("a")->key;
  {
    const Store::KeyLock lock = store.lock(key);
    CHECK(lock.held());
    CHECK_FALSE(lock.waited());
    LogCapture capture;
    const Store::KeyLock second = other.lock(key);
    CHECK_FALSE(second.held());
    CHECK(second.waited());
    CHECK(capture.contains("still locked"));
    CHECK(other.lock(sample("b")->key).held());
  }
  CHECK(files_in(directory.path()).empty());
  CHECK(other.lock(key).held());
}

TEST_CASE("store: of many lockers one at a time is inside", "[runtime]") {
  const ScratchDirectory directory;
  std::atomic<int> inside{0}, most{0}, held{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      Store store(in(directory.path()));
      for (int i = 0; i < 10; ++i) {
        const Store::KeyLock lock = store.lock(std::string(64, 'a'));
        if (lock.held()) ++held;
        const int now = ++inside;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(held == 60);
  CHECK(most == 1);
}

TEST_CASE("store: list, read by prefix and verify", "[runtime]") {
  const ScratchDirectory directory;
  Store store(in(directory.path()));
  const auto a = sample("a"), b = sample("b");
  store.insert(a);
  store.insert(b);
  directory.write("README", "not an entry");
  const auto listing = must(store.list());
  REQUIRE(listing.size() == 2);
  CHECK(listing[0].key < listing[1].key);
  CHECK(must(store.read(a->key.substr(0, 8))).second.source == a->source);
  CHECK(failure_of(store.read("")).status == Status::kInvalidArgument);
  CHECK(failure_of(store.read("zz")).status == Status::kInvalidArgument);
  CHECK(must(store.verify()).empty());

  directory.write(a->key + ".twk", "damaged");
  const auto problems = must(store.verify());
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].entry.key == a->key);
  CHECK(failure_of(store.read(a->key)).status == Status::kCorrupt);
  CHECK(llvm::sys::fs::exists(path_of(directory.path(), *a)));
}

TEST_CASE("store: what is no entry is not listed, and a directory that cannot be read is an error", "[runtime]") {
  const ScratchDirectory directory;
  Store store(in(directory.path()));
  const auto a = sample("a"), b = sample("b");
  store.insert(a);
  // A directory named like an entry hides nothing and breaks nothing.
  REQUIRE_FALSE(llvm::sys::fs::create_directories(path_of(directory.path(), *b)));
  CHECK(must(store.list()).size() == 1);
  CHECK(must(store.verify()).empty());
  {
    LogCapture capture;
    Store other(in(directory.path()));
    CHECK_FALSE(other.lookup(b->key));
    other.insert(b);
    CHECK(other.lookup(b->key)->origin == Origin::kMemory);
  }

  CHECK(must(Store(in(directory.path("absent"))).list()).empty());
  directory.write("file", "");
  const ErrorFacts facts = failure_of(Store(in(directory.path("file"))).list());
  CHECK(facts.status == Status::kIo);
  CHECK(contains(facts.message, directory.path("file")));
  CHECK(failure_of(Store(in(directory.path("file"))).verify()).status == Status::kIo);
}

TEST_CASE("store: where the environment puts it", "[runtime]") {
  const ScopedEnvironment cache("TILEWRIGHT_CACHE_DIR", std::nullopt), layers("TILEWRIGHT_CACHE_LAYERS", std::string("/x::/y"));
  {
    const ScopedEnvironment xdg("XDG_CACHE_HOME", std::nullopt), home("HOME", std::string("/home/u"));
    CHECK(StoreOptions::from_environment().directory == "/home/u/.cache/tilewright");
  }
  const ScopedEnvironment home("HOME", std::nullopt), xdg("XDG_CACHE_HOME", std::string("/xdg"));
  CHECK(StoreOptions::from_environment().directory == "/xdg/tilewright");
  CHECK(StoreOptions::from_environment().layers == std::vector<std::string>{"/x", "/y"});
  {
    const ScopedEnvironment relative("XDG_CACHE_HOME", std::string("not/absolute"));
    CHECK(StoreOptions::from_environment().directory.empty());
  }
  const ScopedEnvironment named("TILEWRIGHT_CACHE_DIR", std::string("/mine"));
  CHECK(StoreOptions::from_environment().directory == "/mine");
}
