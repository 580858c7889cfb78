// Kernels kept: a memory layer, one writable directory, read-only layers. An entry is one checksummed file, written by rename; nothing that
// goes wrong here keeps a kernel from its caller: every failure is a miss and a line in the log.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright {

// File format of an entry, <key>.twk, all integers little-endian: "TWKERNEL", u32 version, u32 flags (bit 0: PTX), key (32 bytes), u64
// sizes of provenance, source and binary, these three, BLAKE3 of all before. The version is part of every key, so that a key never names
// two formats.
inline constexpr std::uint32_t kStoreFormatVersion = 1;

struct StoreEntry {
  std::string key;         // 64 hexadecimal digits
  std::string provenance;  // JSON object: what made this, for people and tools
  std::string source;      // the translation unit
  std::string binary;      // cubin or PTX
  bool is_ptx = false;
  std::uint64_t bytes() const { return provenance.size() + source.size() + binary.size(); }
};

// The bytes of an entry's file, and back. Decoding checks everything: error kCorrupt says what is wrong.
std::string encode_entry(const StoreEntry& entry);
llvm::Expected<StoreEntry> decode_entry(llvm::StringRef bytes);

enum class Origin : std::uint8_t { kMemory, kDirectory, kLayer, kCompiled };
llvm::StringRef origin_name(Origin origin);  // "memory", "directory", "layer", "compiled"

struct StoreOptions {
  std::string directory;            // writable; "" = memory only
  std::vector<std::string> layers;  // read-only, searched in order
  std::uint64_t memory_limit_bytes = std::uint64_t{256} << 20;
  std::chrono::milliseconds lock_wait{10000};  // then the caller compiles without the lock

  // TILEWRIGHT_CACHE_DIR, else XDG_CACHE_HOME/tilewright, else HOME/.cache/tilewright; TILEWRIGHT_CACHE_LAYERS separated by ':'.
  static StoreOptions from_environment();
};

struct StoreCounters {
  std::uint64_t lookups = 0, memory_hits = 0, directory_hits = 0, layer_hits = 0, misses = 0;
  std::uint64_t corrupt = 0, writes = 0, write_failures = 0;
};

struct StoreListing {
  std::string key;
  std::string path;
  std::string layer;            // the directory it lies in
  std::uint64_t bytes = 0;      // of the file
  std::int64_t modified_s = 0;  // seconds since 1970
};

struct StoreProblem {
  StoreListing entry;
  std::string what;
};

// Thread-safe; many stores, in many processes, may share a directory.
class Store {
 public:
  explicit Store(StoreOptions options);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const StoreOptions& options() const { return options_; }

  struct Hit {
    std::shared_ptr<const StoreEntry> entry;
    Origin origin;
  };
  // Memory, directory, layers, in this order; a hit moves into memory. nullopt is a miss; a damaged file is one, and is moved into
  // directory/quarantine (the 16 newest are kept). `again`: a second look under the key's lock, which is not counted unless it hits.
  std::optional<Hit> lookup(llvm::StringRef key, bool again = false);

  // Keeps an entry in memory and, where possible, in the directory. Failures to write are logged once per store.
  void insert(const std::shared_ptr<const StoreEntry>& entry);
  // A compiler's error. Source that did not compile (kCompileFailed) is written to directory/failed/<key>.cu (the 16 newest are kept),
  // and the error then says so.
  llvm::Error with_kept_source(llvm::Error error, llvm::StringRef key, llvm::StringRef source);

  // Exclusive among all processes that use this directory, until destroyed. Not held when there is no directory to lock in or when another
  // holder did not finish within options().lock_wait.
  class KeyLock {
   public:
    KeyLock() = default;
    KeyLock(KeyLock&& other) noexcept;
    KeyLock& operator=(KeyLock&&) = delete;
    ~KeyLock();
    bool held() const { return fd_ >= 0; }
    bool waited() const { return waited_; }  // somebody else held it first: look again before compiling

   private:
    friend class Store;
    int fd_ = -1;
    bool waited_ = false;
    std::string path_;
  };
  KeyLock lock(llvm::StringRef key);

  // For the command line. Entries of the directory and all layers, by key; a directory that is not there has none. Error kIo: one that
  // cannot be read.
  llvm::Expected<std::vector<StoreListing>> list() const;
  // The entry of a listing. Error kCorrupt, kIo.
  static llvm::Expected<StoreEntry> read(const StoreListing& listing);
  // The entry whose key begins with `prefix`. Error kInvalidArgument: none or several; kCorrupt; kIo.
  llvm::Expected<std::pair<StoreListing, StoreEntry>> read(llvm::StringRef prefix) const;
  // Every entry that is not what its checksum and name say. Moves nothing. Error kIo as list().
  llvm::Expected<std::vector<StoreProblem>> verify() const;

  StoreCounters counters() const;

 private:
  std::shared_ptr<const StoreEntry> lookup_memory(llvm::StringRef key);
  std::shared_ptr<const StoreEntry> lookup_file(llvm::StringRef key, const std::string& directory, bool writable);
  void remember(const std::shared_ptr<const StoreEntry>& entry);
  bool quarantine(const std::string& path, llvm::StringRef key, std::uint64_t inode);
  void write_failed(llvm::StringRef what);
  // The file's path, "" when it cannot be written.
  std::string keep_failed_source(llvm::StringRef key, llvm::StringRef source);

  StoreOptions options_;
  std::mutex mutex_;                                    // guards memory_, order_, memory_bytes_
  std::list<std::shared_ptr<const StoreEntry>> order_;  // least recently used first
  std::unordered_map<std::string, std::list<std::shared_ptr<const StoreEntry>>::iterator> memory_;
  std::uint64_t memory_bytes_ = 0;
  std::atomic<bool> warned_{false};
  enum Count { kLookups, kMemoryHits, kDirectoryHits, kLayerHits, kMisses, kCorrupt, kWrites, kWriteFailures, kCountOfCounts };
  std::array<std::atomic<std::uint64_t>, kCountOfCounts> counts_{};
};

}  // namespace tilewright
