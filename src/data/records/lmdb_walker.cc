#include "data/records/lmdb_walker.h"

#include <utility>

#include "core/strings.h"

namespace crema {

// Returns the leaf below the next child of the deepest branch, or below the root.
uint64_t LmdbWalker::Descend() {
  uint64_t number = tree_.root;
  if (!branches_.empty()) number = branches_.back().page.Child(branches_.back().next++);
  while (branches_.size() + 1 < tree_.depth) {
    Level level;
    file_->ReadBranch(number, &level.page);
    number = level.page.Child(level.next++);
    branches_.push_back(std::move(level));
  }
  return number;
}

bool LmdbWalker::NextLeaf(LmdbPage* leaf) {
  leaf->clear();
  if (failed_) file_->FailDamaged("a page before this one");
  failed_ = true;
  while (!branches_.empty() && branches_.back().next == branches_.back().page.count()) {
    branches_.pop_back();
  }
  if (tree_.entries == 0 || (records_ > 0 && branches_.empty())) {
    if (records_ != tree_.entries) {
      file_->FailDamaged(StrCat(records_, " records, not ", tree_.entries));
    }
    failed_ = false;
    return false;
  }
  const uint64_t number = Descend();
  file_->ReadLeaf(number, tree_, leaf);
  const bool ascends = !tree_.sorted || records_ == 0 || last_key_ < leaf->Key(0);
  last_key_ = leaf->Key(leaf->count() - 1);
  records_ += leaf->count();
  if (!ascends || records_ > tree_.entries) {
    leaf->clear();
    file_->FailDamaged(ascends ? StrCat("more than ", tree_.entries, " records")
                               : StrCat("page ", number, " has keys that do not ascend"));
  }
  failed_ = false;
  return true;
}

void LmdbWalker::LastLeaf(LmdbPage* leaf) {
  uint64_t number = tree_.root;
  for (unsigned level = 1; level < tree_.depth; ++level) {
    LmdbPage branch;
    file_->ReadBranch(number, &branch);
    number = branch.Child(branch.count() - 1);
  }
  file_->ReadLeaf(number, tree_, leaf);
}

}  // namespace crema
