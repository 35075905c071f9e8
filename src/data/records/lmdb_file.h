// The data file of an LMDB: format version 1, as liblmdb 0.9 writes it on 64-bit little-endian
// machines. Only read here, without liblmdb, and each page is verified before it is used. For
// lmdb*.cc only.
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
  unsigned depth = 0;   // levels, the leaves among them
  bool sorted = false;  // the keys are in the order of memcmp
};

// A verified copy of a branch page or a leaf page: the file may change meanwhile. Accessors
// require: index < count().
class LmdbPage {
 public:
  unsigned count() const { return count_; }
  void clear() { count_ = 0; }
  std::string_view Key(unsigned index) const;
  uint64_t Child(unsigned index) const;  // of a branch: a page number

 private:
  friend class LmdbFile;
  const char* Node(unsigned index) const;

  std::vector<char> bytes_;
  uint64_t number_ = 0;
  unsigned count_ = 0;  // nodes
};

// Where a record lies in the file; inside of it for sure.
struct LmdbPlace {
  uint64_t key;    // offset in bytes
  uint64_t value;  // offset in bytes, or the number of its first page
  uint32_t value_bytes;
  uint16_t key_bytes;
  bool own_pages;  // the value has pages of its own
};

// One snapshot of a set: the newest when it was opened. Takes no lock and writes nothing. Where a
// writer commits twice after that, pages of the snapshot may be used anew, and reading throws.
// Functions that read throw kDataLoss (damaged, cut, changed) and kIoFailure. Thread safety: any
// thread.
class LmdbFile {
 public:
  // Throws kNotFound (no such path), kDataLoss (no LMDB, of another version or machine, damaged,
  // cut short), kIoFailure (may not be read).
  explicit LmdbFile(const std::string& path);
  ~LmdbFile();
  LmdbFile(const LmdbFile&) = delete;
  LmdbFile& operator=(const LmdbFile&) = delete;

  const std::string& path() const { return path_; }
  const LmdbTree& records() const { return records_; }
  const LmdbTree& free_pages() const { return free_pages_; }

  // Throws where the file is not what it was when it was opened. One system call.
  void CheckUnchanged() const;
  void ReadBranch(uint64_t number, LmdbPage* page) const { ReadPage(number, kBranch, false, page); }
  void ReadLeaf(uint64_t number, const LmdbTree& tree, LmdbPage* page) const {
    ReadPage(number, kLeaf, tree.sorted, page);
  }
  LmdbPlace Place(const LmdbPage& leaf, unsigned index) const;
  // Views of the mapped file, valid as long as it is open.
  LmdbRecord Record(const LmdbPlace& place) const;

  // Throws kDataLoss: damaged, or changed where that is the cause.
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
  std::array<uint64_t, 2> transactions_{};  // as the meta pages say
  LmdbTree records_;
  LmdbTree free_pages_;
  std::unique_ptr<GuardedMap> map_;
};

}  // namespace crema
