#include "runtime/artifact.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/parallel.h"

namespace tilewright {

// One compilation that several callers wait for.
struct Builder::Flight {
  std::mutex mutex;
  std::condition_variable landed;
  bool done = false;
  ArtifactPtr artifact;  // null: failure
  ErrorFacts failure{Status::kInternal, "the compilation of this kernel on another thread ended with an exception"};
};

// Lands a flight at the end of a scope, also when that ends by an exception (of an allocation, of the log's callback): whoever waits for
// the flight goes on, and the next caller begins a new one.
class Builder::Landing {
 public:
  Landing(Builder& builder, const std::string& key, Flight& flight) : builder_(builder), key_(key), flight_(flight) {}
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;
  ~Landing() {
    {
      const std::lock_guard lock(builder_.mutex_);
      builder_.flights_.erase(key_);
    }
    const std::lock_guard lock(flight_.mutex);
    flight_.done = true;
    flight_.landed.notify_all();
  }

 private:
  Builder& builder_;
  const std::string& key_;
  Flight& flight_;
};

namespace {

constexpr unsigned kMostCompilers = 4;     // tried when NVRTC is missing
constexpr unsigned kMostEntriesRead = 32;  // to learn which compilers filled a store

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

std::string json_text(llvm::json::Object object) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::json::Value(std::move(object));
  return text;
}

// The caller's provenance as a value; text that is no JSON is kept as text.
llvm::json::Value parse_or_text(const std::string& text) {
  auto value = llvm::json::parse(text);
  if (value) return std::move(*value);
  llvm::consumeError(value.takeError());
  return llvm::json::fixUTF8(text);
}

std::string compiler_of(const StoreEntry& entry) {
  auto value = llvm::json::parse(entry.provenance);
  if (!value) {
    llvm::consumeError(value.takeError());
    return {};
  }
  const llvm::json::Object* object = value->getAsObject();
  const llvm::json::Object* compiler = object ? object->getObject("nvrtc") : nullptr;
  return compiler ? compiler->getString("identity").value_or("").str() : std::string();
}

// Compilers that made the newest entries of a store.
std::vector<std::string> compilers_of(const Store& store) {
  auto listed = store.list();
  if (!listed) {
    llvm::consumeError(listed.takeError());
    return {};
  }
  std::vector<StoreListing>& entries = *listed;
  std::sort(entries.begin(), entries.end(), [](const StoreListing& a, const StoreListing& b) { return a.modified_s > b.modified_s; });
  if (entries.size() > kMostEntriesRead) entries.resize(kMostEntriesRead);
  std::vector<std::string> found;
  for (const StoreListing& listing : entries) {
    auto entry = Store::read(listing);
    if (!entry) {
      llvm::consumeError(entry.takeError());
      continue;
    }
    std::string compiler = compiler_of(*entry);
    if (!compiler.empty() && std::find(found.begin(), found.end(), compiler) == found.end()) found.push_back(std::move(compiler));
    if (found.size() == kMostCompilers) break;
  }
  return found;
}

std::string hash_ingredients(llvm::ArrayRef<KeyIngredient> ingredients) {
  KeyHasher hasher;
  for (const KeyIngredient& ingredient : ingredients) hasher.add(ingredient.name, ingredient.value);
  return hasher.hex();
}

llvm::Expected<std::shared_ptr<const Artifact>> artifact_of(const StoreEntry& entry, const KernelSource& source, const Target& target,
                                                            Origin origin) {
  auto artifact = std::make_shared<Artifact>();
  artifact->key = entry.key;
  artifact->entry = source.entry;
  artifact->target = target;
  artifact->binary = entry.binary;
  artifact->source = entry.source;
  artifact->provenance = entry.provenance;
  artifact->origin = origin;
  if (auto value = llvm::json::parse(entry.provenance)) {
    if (const llvm::json::Object* object = value->getAsObject()) {
      artifact->log = object->getString("log").value_or("").str();
      artifact->compile_ms = object->getNumber("compile_ms").value_or(0.0);
    }
  } else {
    llvm::consumeError(value.takeError());
  }
  if (!entry.is_ptx) {
    auto facts = read_cubin_facts(entry.binary, source.entry);
    if (!facts) return facts.takeError();
    artifact->facts = *facts;
  }
  return artifact;
}

}  // namespace

Builder::Builder(std::shared_ptr<Store> store, BuilderOptions options) : store_(std::move(store)), options_(std::move(options)) {}
Builder::~Builder() {
  if (preparation_.joinable()) preparation_.join();
}

void Builder::prepare_compiler() {
  const std::lock_guard lock(mutex_);
  if (preparation_.joinable()) return;
  preparation_ = std::thread([this] {
    auto compiler = nvrtc();
    if (!compiler) return llvm::consumeError(compiler.takeError());
    const Target target{.major = 8, .minor = 0, .architecture_specific = false};  // every compiler we take knows it
    auto compiled = (*compiler)->compile("extern \"C\" __global__ void tw_empty() {}\n", "tw_empty.cu", {}, target);
    if (!compiled) llvm::consumeError(compiled.takeError());
  });
}

llvm::Expected<std::shared_ptr<Nvrtc>> Builder::nvrtc() {
  const std::lock_guard lock(mutex_);
  if (nvrtc_) return nvrtc_;
  auto found = Nvrtc::find();
  if (!found) return found.takeError();
  nvrtc_ = std::move(*found);
  return nvrtc_;
}

std::vector<KeyIngredient> Builder::ingredients(const KernelSource& source, const Target& target, llvm::StringRef compiler) const {
  return {{"format", std::to_string(kStoreFormatVersion)},       {"build", options_.build_identity}, {"source", source.text},
          {"options", llvm::join(compile_options(target), " ")}, {"target", target.name()},          {"nvrtc", compiler.str()}};
}

llvm::Expected<std::vector<KeyIngredient>> Builder::key_ingredients(const KernelSource& source, const Target& target) {
  auto compiler = nvrtc();
  if (!compiler) return compiler.takeError();
  return ingredients(source, target, (*compiler)->identity());
}

llvm::Expected<std::string> Builder::key(const KernelSource& source, const Target& target) {
  auto parts = key_ingredients(source, target);
  if (!parts) return parts.takeError();
  return hash_ingredients(*parts);
}

llvm::Expected<std::shared_ptr<const Artifact>> Builder::get(const KernelSource& source, const Target& target, const GetOptions& options) {
  auto made_key = key(source, target);
  if (!made_key) return get_without_compiler(source, target, made_key.takeError());
  return get_by_key(source, target, *made_key, options.may_compile);
}

llvm::Expected<Builder::ArtifactPtr> Builder::get_without_compiler(const KernelSource& source, const Target& target, llvm::Error missing) {
  for (const std::string& compiler : compilers_of(*store_)) {
    if (auto hit = store_->lookup(hash_ingredients(ingredients(source, target, compiler)))) {
      llvm::consumeError(std::move(missing));
      return artifact_of(*hit->entry, source, target, hit->origin);
    }
  }
  const ErrorFacts facts = take_error_facts(std::move(missing));
  return make_error(facts.status, "kernel {} for {} is not in the store and cannot be compiled: {}", source.entry, target.name(),
                    facts.message);
}

llvm::Expected<Builder::ArtifactPtr> Builder::get_by_key(const KernelSource& source, const Target& target, const std::string& key,
                                                         bool may_compile) {
  // While capturing nothing may wait for somebody else's compilation.
  if (!may_compile) return look_up_or_compile(source, target, key, false);
  std::shared_ptr<Flight> flight;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Flight>& slot = flights_[key];
    first = !slot;
    if (first) slot = std::make_shared<Flight>();
    flight = slot;
  }
  if (!first) {
    std::unique_lock lock(flight->mutex);
    flight->landed.wait(lock, [&] { return flight->done; });
    if (flight->artifact) return flight->artifact;
    return make_error_text(flight->failure.status, flight->failure.message);
  }
  {
    const Landing landing(*this, key, *flight);
    auto result = look_up_or_compile(source, target, key, true);
    // Nobody reads these before the landing.
    if (result) {
      flight->artifact = *result;
    } else {
      flight->failure = take_error_facts(result.takeError());
    }
  }
  if (flight->artifact) return flight->artifact;
  return make_error_text(flight->failure.status, flight->failure.message);
}

llvm::Expected<Builder::ArtifactPtr> Builder::look_up_or_compile(const KernelSource& source, const Target& target, const std::string& key,
                                                                 bool may_compile) {
  if (auto hit = store_->lookup(key)) return artifact_of(*hit->entry, source, target, hit->origin);
  if (!may_compile) {
    return make_error(Status::kCompileInCapture,
                      "kernel {} for {} is not in the store, and nothing may be compiled while the stream is captured", source.entry,
                      target.name());
  }
  const Store::KeyLock lock = store_->lock(key);
  // Somebody may have finished it between the look-up and the lock.
  if (auto hit = store_->lookup(key, /*again=*/true)) return artifact_of(*hit->entry, source, target, hit->origin);
  return compile(source, target, key);
}

llvm::Expected<Builder::ArtifactPtr> Builder::compile(const KernelSource& source, const Target& target, const std::string& key) {
  auto compiler = nvrtc();
  if (!compiler) return compiler.takeError();
  auto compiled = (*compiler)->compile(source.text, source.entry + ".cu", options_.headers, target);
  if (!compiled) return store_->with_kept_source(compiled.takeError(), key, source.text);
  if (!compiled->log.empty()) log(LogLevel::kWarning, "kernel {} for {}: {}", source.entry, target.name(), compiled->log);
  log(LogLevel::kInfo, "kernel {} for {}: compiled in {:.1f} ms", source.entry, target.name(), compiled->milliseconds);

  auto version = (*compiler)->version();
  if (!version) return version.takeError();
  llvm::json::Object provenance{
      {"kernel", source.entry},
      {"target", target.name()},
      {"options", llvm::json::Array(compile_options(target))},
      {"nvrtc", llvm::json::Object{{"version", *version}, {"identity", (*compiler)->identity()}}},
      {"library", llvm::json::Object{{"version", options_.library_version}, {"build", options_.build_identity}}},
      {"created", utc_now()},
      {"compile_ms", compiled->milliseconds},
      {"log", llvm::json::fixUTF8(compiled->log)},
      {"made_from", parse_or_text(source.provenance)},
  };
  auto entry = std::make_shared<StoreEntry>();
  entry->key = key;
  entry->provenance = json_text(std::move(provenance));
  entry->source = source.text;
  entry->binary = std::move(compiled->binary);
  entry->is_ptx = target.ptx;
  // Read first: what the facts refuse (no such kernel in the source) is not stored.
  auto artifact = artifact_of(*entry, source, target, Origin::kCompiled);
  if (artifact) store_->insert(std::move(entry));
  return artifact;
}

llvm::Expected<std::vector<std::shared_ptr<const Artifact>>> Builder::get_all(llvm::ArrayRef<KernelSource> sources, const Target& target,
                                                                              unsigned threads) {
  return parallel_results(sources.size(), threads, [&](std::size_t i) { return get(sources[i], target); });
}

}  // namespace tilewright
