// Reads the data file of an LMDB: format version 1, as liblmdb 0.9 writes it on 64-bit
// little-endian machines. Does not use liblmdb; verifies each page before use. For lmdb*.cc only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/records/guarded_map.h"
#include "data/records/lmdb.h"

namespace crema {

// A B+ tree of pages.
struct LmdbTree {
  static constexpr uint64_t kNoRoot = ~uint64_t{0};
  uint64_t root = kNoRoot;  // page number
  uint64_t entries = 0;
  unsigned depth = 0;   // levels, including the leaves
  bool sorted = false;  // keys are in memcmp order
};

// A verified copy of a branch or leaf page, since the file may change. Accessors require: index <
// count().
class LmdbPage {
 public:
  unsigned count() const { return count_; }
  void clear() { count_ = 0; }
  std::string_view Key(unsigned index) const;
  uint64_t Child(unsigned index) const;  // page number of a branch's child

 private:
  friend class LmdbFile;
  const char* Node(unsigned index) const;

  std::vector<char> bytes_;
  uint64_t number_ = 0;
  unsigned count_ = 0;  // nodes
};

// Verified location of a record in the file.
struct LmdbPlace {
  uint64_t key;    // offset in bytes
  uint64_t value;  // offset in bytes, or the number of its first page
  uint32_t value_bytes;
  uint16_t key_bytes;
  bool own_pages;  // the value is on overflow pages
};

// The newest snapshot at the time of opening. Takes no lock and writes nothing. After two later
// commits, pages of the snapshot may be reused, and reading throws. Functions that read throw
// kDataLoss (damaged, truncated, changed) and kIoFailure. Thread safety: any thread.
class LmdbFile {
 public:
  // Throws kNotFound (no such path), kDataLoss (not an LMDB, another version or machine, damaged,
  // truncated), kIoFailure (no permission).
  explicit LmdbFile(const std::string& path);
  ~LmdbFile();
  LmdbFile(const LmdbFile&) = delete;
  LmdbFile& operator=(const LmdbFile&) = delete;

  const std::string& path() const { return path_; }
  const LmdbTree& records() const { return records_; }
  const LmdbTree& free_pages() const { return free_pages_; }

  // Throws if the file changed since it was opened. One system call.
  void CheckUnchanged() const;
  void ReadBranch(uint64_t number, LmdbPage* page) const { ReadPage(number, kBranch, false, page); }
  void ReadLeaf(uint64_t number, const LmdbTree& tree, LmdbPage* page) const {
    ReadPage(number, kLeaf, tree.sorted, page);
  }
  LmdbPlace Place(const LmdbPage& leaf, unsigned index) const;
  // Views of the mapped file, valid while it is open.
  LmdbRecord Record(const LmdbPlace& place) const;

  // Throws kDataLoss: damaged, or changed if that is the cause.
  [[noreturn]] void FailDamaged(const std::string& damage) const;

 private:
  static constexpr uint16_t kBranch = 0x01;
  static constexpr uint16_t kLeaf = 0x02;

  struct Meta;
  Meta ParseMeta(uint64_t number, const char* page) const;
  void ReadMetas();
  uint64_t FileBytes() const;
  LmdbTree ParseTree(const char* bytes) const;
  void ReadPage(uint64_t number, uint16_t kind, bool sorted, LmdbPage* page) const;
  const char* FindNodeFault(const LmdbPage& page, unsigned index, uint16_t kind) const;
  bool committed_over() const;
  const char* PageAt(uint64_t number) const { return map_->data() + number * page_bytes_; }

  const std::string path_;
  int descriptor_ = -1;
  uint64_t page_bytes_ = 0;
  uint64_t pages_ = 0;                      // of the snapshot
  std::array<uint64_t, 2> transactions_{};  // of the two meta pages
  LmdbTree records_;
  LmdbTree free_pages_;
  std::unique_ptr<GuardedMap> map_;
};

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
