// What is kept of an unfinished tuning, beside the records.
#pragma once

#include <string>
#include <vector>

#include "autotune/candidate.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace tilewright::cli {

class SavedState {
 public:
  // `space`: identity of the space the candidates are from.
  SavedState(std::string directory, std::string name, std::string space)
      : directory_(std::move(directory)), path_(directory_ + "/" + name), space_(std::move(space)) {}
  // Candidates of an earlier run over the same space by the same library. Error kMissing: there is none; kIo, kCorrupt, kMismatch.
  llvm::Expected<std::vector<Candidate>> load() const;
  // A state that cannot be written costs the resumption, not the tuning.
  void save(llvm::ArrayRef<Candidate> candidates) const;
  void remove() const;

 private:
  std::string directory_, path_, space_;
};

}  // namespace tilewright::cli
