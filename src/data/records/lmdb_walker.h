// Walks the leaves of an LMDB. For lmdb*.cc only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/records/lmdb_file.h"

namespace crema {

// Walks the leaves of a tree in key order. After an error it keeps throwing. Thread safety: one
// thread at a time.
class LmdbWalker {
 public:
  LmdbWalker(const LmdbFile* file, const LmdbTree& tree) : file_(file), tree_(tree) {}

  // Reads the next leaf; false at the end. Also throws kDataLoss for keys that do not ascend, and
  // for a number of records other than the tree's.
  bool NextLeaf(LmdbPage* leaf);

  // Reads only the last leaf. Requires: records.
  void LastLeaf(LmdbPage* leaf);

 private:
  struct Level {
    LmdbPage page;
    unsigned next = 0;  // next child
  };
  uint64_t Descend();

  const LmdbFile* file_;
  LmdbTree tree_;
  std::vector<Level> branches_;  // from the root to the leaf
  std::string last_key_;
  uint64_t records_ = 0;  // in the leaves read
  bool failed_ = false;
};

}  // namespace crema
