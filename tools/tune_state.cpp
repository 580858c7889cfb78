#include "tools/tune_state.h"

#include "codegen/embedded_templates.h"
#include "llvm/Support/FileSystem.h"
#include "runtime/error.h"
#include "tools/cli.h"

namespace tilewright::cli {

llvm::Expected<std::vector<Candidate>> SavedState::load() const {
  if (!llvm::sys::fs::exists(path_)) return make_error(Status::kMissing, "no tuning was interrupted");
  auto text = read_file(path_);
  if (!text) return text.takeError();
  auto json = llvm::json::parse(*text);
  if (!json) return make_error(Status::kCorrupt, "{}: {}", path_, llvm::toString(json.takeError()));
  const llvm::json::Object* object = json->getAsObject();
  const llvm::json::Array* array = object != nullptr ? object->getArray("candidates") : nullptr;
  if (array == nullptr) return make_error(Status::kCorrupt, "{}: candidates are missing", path_);
  if (object->getString("space") != llvm::StringRef(space_) || object->getString("build") != build_identity())
    return make_error(Status::kMismatch, "{}: of another space or another build of the library", path_);
  std::vector<Candidate> candidates;
  for (const llvm::json::Value& value : *array) {
    auto candidate = parse_candidate(value);
    if (!candidate) return prefix_error(candidate.takeError(), path_ + ": ");
    candidates.push_back(std::move(*candidate));
  }
  return candidates;
}

void SavedState::save(llvm::ArrayRef<Candidate> candidates) const {
  llvm::json::Array array;
  for (const Candidate& candidate : candidates) array.push_back(candidate_json(candidate));
  llvm::sys::fs::create_directories(directory_);
  llvm::consumeError(
      replace_file(path_, json_text(llvm::json::Object{{"space", space_}, {"build", build_identity()}, {"candidates", std::move(array)}})));
}

void SavedState::remove() const { llvm::sys::fs::remove(path_); }

}  // namespace tilewright::cli
