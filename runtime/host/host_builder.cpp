#include "runtime/host/host_builder.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/error.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/parallel.h"

namespace tilewright {

llvm::Expected<HostCompiler> HostBuilder::compiler() {
  const std::lock_guard lock(mutex_);
  if (compiler_) return *compiler_;
  auto found = HostCompiler::find();
  if (!found) return found.takeError();
  compiler_ = *found;
  return *compiler_;
}

llvm::Expected<std::shared_ptr<const HostArtifact>> HostBuilder::get(const KernelSource& source, llvm::StringRef sanitize) {
  auto found = compiler();
  if (!found) return found.takeError();
  const std::string options = llvm::join(found->options(sanitize), " ");
  KeyHasher hasher;
  hasher.add("format", std::to_string(kStoreFormatVersion));
  hasher.add("build", options_.build_identity);
  hasher.add("source", source.text);
  hasher.add("options", options);
  hasher.add("target", "host");
  hasher.add("compiler", found->identity());
  auto artifact = std::make_shared<HostArtifact>();
  artifact->key = hasher.hex();
  artifact->entry = source.entry;
  artifact->source = source.text;
  const auto take = [&](const Store::Hit& hit) {
    artifact->object = hit.entry->binary;
    artifact->origin = hit.origin;
    return artifact;
  };
  if (auto hit = store_->lookup(artifact->key)) return take(*hit);
  const Store::KeyLock lock = store_->lock(artifact->key);
  if (auto hit = store_->lookup(artifact->key, /*again=*/true)) return take(*hit);
  auto compiled = found->compile(source.text, source.entry, options_.headers, sanitize);
  if (!compiled) return store_->with_kept_source(compiled.takeError(), artifact->key, source.text);
  log(LogLevel::kInfo, "kernel {} for the CPU: compiled in {:.1f} ms", source.entry, compiled->milliseconds);
  llvm::json::Value made_from = nullptr;
  if (auto value = llvm::json::parse(source.provenance)) {
    made_from = std::move(*value);
  } else {
    llvm::consumeError(value.takeError());
  }
  auto entry = std::make_shared<StoreEntry>();
  llvm::raw_string_ostream os(entry->provenance);
  os << llvm::json::Value(
      llvm::json::Object{{"kernel", source.entry},
                         {"target", "host"},
                         {"options", options},
                         {"compiler", found->identity()},
                         {"library", llvm::json::Object{{"version", options_.library_version}, {"build", options_.build_identity}}},
                         {"compile_ms", compiled->milliseconds},
                         {"made_from", std::move(made_from)}});
  os.flush();
  entry->key = artifact->key;
  entry->source = source.text;
  entry->binary = compiled->object;
  store_->insert(std::move(entry));
  artifact->object = std::move(compiled->object);
  artifact->compile_ms = compiled->milliseconds;
  return artifact;
}

llvm::Expected<std::vector<std::shared_ptr<const HostArtifact>>> HostBuilder::get_all(llvm::ArrayRef<KernelSource> sources,
                                                                                      llvm::StringRef sanitize, unsigned threads) {
  return parallel_results(sources.size(), threads, [&](std::size_t i) { return get(sources[i], sanitize); });
}

}  // namespace tilewright
