// The leaves of an LMDB one after the other. For lmdb*.cc only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/records/lmdb_file.h"

namespace crema {

// Walks the leaves of a tree in the order of their keys. Once it has thrown, it throws again.
// Thread safety: one thread at a time.
class LmdbWalker {
 public:
  LmdbWalker(const LmdbFile* file, const LmdbTree& tree) : file_(file), tree_(tree) {}

  // Reads the leaf after the last one, at first the first; false after all of them. Throws
  // kDataLoss also for keys that do not ascend, and another number of records than the tree says.
  bool NextLeaf(LmdbPage* leaf);

  // Reads the last leaf without the others. Requires: records.
  void LastLeaf(LmdbPage* leaf);

 private:
  struct Level {
    LmdbPage page;
    unsigned next = 0;  // child
  };
  uint64_t Descend();

  const LmdbFile* file_;
  LmdbTree tree_;
  std::vector<Level> branches_;  // from the root down
  std::string last_key_;
  uint64_t records_ = 0;  // of the leaves that were read
  bool failed_ = false;
};

}  // namespace crema
