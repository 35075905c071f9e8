#include "data/records/lmdb_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/data_set_folder.h"

namespace crema {
namespace {

static_assert(std::endian::native == std::endian::little);

// Page: number (8 bytes), unused (2), flags (2), then end of the nodes' offsets (2) and begin of
// the nodes (2), or the number of pages of an overflow run (4); then the offsets, 2 bytes each.
constexpr size_t kFlagsAt = 10;
constexpr size_t kLowerAt = 12;
constexpr size_t kUpperAt = 14;
constexpr size_t kRunAt = 12;
constexpr size_t kHeaderBytes = 16;
constexpr uint16_t kOverflow = 0x04;
constexpr uint16_t kMeta = 0x08;
constexpr uint64_t kMetaPages = 2;

// Node: lower and upper half of the value's length (2 bytes each), flags (2), length of the key
// (2), key, value. A branch has a page number in place of length and flags.
constexpr size_t kNodeBytes = 8;
constexpr size_t kLeastRecordBytes = 12;  // its offset, a key of one byte, rounded up
constexpr uint16_t kBigValue = 0x01;      // the value is the number of its first overflow page
constexpr uint16_t kNamed = 0x02;         // the value is a tree

// Meta page, after the header.
constexpr size_t kMagicAt = 16;
constexpr size_t kVersionAt = 20;
constexpr size_t kFreePagesAt = 40;
constexpr size_t kRecordsAt = 88;
constexpr size_t kLastPageAt = 136;
constexpr size_t kTransactionAt = 144;
constexpr size_t kMetaEnd = 152;
constexpr uint32_t kMagic = 0xBEEFC0DE;
constexpr uint32_t kVersion = 1;

// Tree: page size (4 bytes, of the first tree), flags (2), depth (2), numbers of branch, leaf and
// overflow pages (8 each), entries (8), root (8).
constexpr size_t kTreeFlagsAt = 4;
constexpr size_t kDepthAt = 6;
constexpr size_t kEntriesAt = 32;
constexpr size_t kRootAt = 40;
constexpr uint16_t kReverseKeys = 0x02;
constexpr uint16_t kIntegerKeys = 0x08;
constexpr unsigned kMostLevels = 32;

constexpr uint64_t kLeastPageBytes = 512;
constexpr uint64_t kMostPageBytes = 32768;

template <typename T>
T Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Loads the current value: other processes write to the file.
uint64_t LoadNow(const char* at) {
  return *reinterpret_cast<const volatile uint64_t*>(at);  // the address is a multiple of 8
}

uint32_t ValueBytes(const char* node) { return Load<uint32_t>(node); }

struct stat ExamineLmdbFolder(const std::string& path) {
  struct stat status = ExamineDataSet(path);
  if (!S_ISDIR(status.st_mode)) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path, "' is an ordinary file; an LMDB is a folder that holds data.mdb"));
  }
  if (stat((path + "/data.mdb").c_str(), &status) != 0) {
    if (errno != ENOENT) {
      Fail(ErrorCode::kIoFailure,
           StrCat("the data set '", path, "' cannot be opened: ", std::strerror(errno)));
    }
    Fail(ErrorCode::kDataLoss,
         StrCat("the folder '", path, "' is not an LMDB: it holds no data.mdb"));
  }
  if (!S_ISREG(status.st_mode)) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path, "/data.mdb' is not a file, so this is not an LMDB"));
  }
  if (status.st_size == 0) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "/data.mdb' is empty: write the data set again"));
  }
  return status;
}

[[noreturn]] void FailCut(const std::string& path, uint64_t bytes, uint64_t needed) {
  Fail(ErrorCode::kDataLoss, StrCat("'", path, "/data.mdb' is cut short: it has ", bytes,
                                    " bytes, ", needed, " are needed; copy or write it again"));
}

[[noreturn]] void FailForeign(const std::string& path, const std::string& what) {
  Fail(ErrorCode::kDataLoss,
       StrCat("'", path, "/data.mdb' is ", what,
              ": write the data set again on this machine, or dump it with `mdb_dump` where it "
              "was made and read that with `mdb_load` here"));
}

}  // namespace

std::string_view LmdbPage::Key(unsigned index) const {
  const char* const node = Node(index);
  return {node + kNodeBytes, Load<uint16_t>(node + 6)};
}

uint64_t LmdbPage::Child(unsigned index) const {
  return Load<uint64_t>(Node(index)) & ((uint64_t{1} << 48) - 1);
}

const char* LmdbPage::Node(unsigned index) const {
  return bytes_.data() + Load<uint16_t>(bytes_.data() + kHeaderBytes + size_t{2} * index);
}

struct LmdbFile::Meta {
  uint64_t page_bytes;
  uint64_t last_page;
  uint64_t transaction;
};

LmdbFile::LmdbFile(const std::string& path) : path_(path) {
  ExamineLmdbFolder(path);
  descriptor_ = open((path + "/data.mdb").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    if (errno == EACCES || errno == EPERM) {
      Fail(ErrorCode::kIoFailure, StrCat("no permission to read the data set '", path, "'"));
    }
    Fail(ErrorCode::kIoFailure,
         StrCat("the data set '", path, "' cannot be opened: ", std::strerror(errno)));
  }
  try {
    ReadMetas();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

LmdbFile::~LmdbFile() { close(descriptor_); }

LmdbFile::Meta LmdbFile::ParseMeta(uint64_t number, const char* page) const {
  constexpr uint32_t kSwapped = 0xDEC0EFBE;
  constexpr size_t kMagicOf32Bits = 12;
  if (Load<uint32_t>(page + kMagicAt) != kMagic) {
    for (const size_t at : {kMagicAt, kMagicOf32Bits}) {
      if (Load<uint32_t>(page + at) == kSwapped) {
        FailForeign(path_, "an LMDB of a machine with another order of bytes");
      }
    }
    if (Load<uint32_t>(page + kMagicOf32Bits) == kMagic) {
      FailForeign(path_, "an LMDB of a 32-bit machine");
    }
    FailDamaged("a meta page is none");
  }
  const auto version = Load<uint32_t>(page + kVersionAt);
  if (version != kVersion) FailForeign(path_, StrCat("an LMDB of format version ", version));
  if (Load<uint64_t>(page) != number || Load<uint16_t>(page + kFlagsAt) != kMeta) {
    FailDamaged("a meta page is none");
  }
  const Meta meta{.page_bytes = Load<uint32_t>(page + kFreePagesAt),
                  .last_page = Load<uint64_t>(page + kLastPageAt),
                  .transaction = Load<uint64_t>(page + kTransactionAt)};
  if (meta.page_bytes < kLeastPageBytes || meta.page_bytes > kMostPageBytes ||
      !std::has_single_bit(meta.page_bytes)) {
    FailDamaged(StrCat("pages of ", meta.page_bytes, " bytes"));
  }
  return meta;
}

void LmdbFile::ReadMetas() {
  const auto read = [&](uint64_t offset) {
    std::array<char, kMetaEnd> page{};
    const ssize_t count = pread(descriptor_, page.data(), page.size(), static_cast<off_t>(offset));
    if (count < 0) {
      Fail(ErrorCode::kIoFailure,
           StrCat("'", path_, "/data.mdb' cannot be read: ", std::strerror(errno)));
    }
    if (static_cast<size_t>(count) < page.size()) {
      FailCut(path_, FileBytes(), offset + page.size());
    }
    return page;
  };
  // Retries until two readings agree: a writer may be in the middle of a commit.
  constexpr int kMostReadings = 100;
  std::array<std::array<char, kMetaEnd>, 2> pages{};
  for (int n = 0; n < kMostReadings; ++n) {
    const auto first = read(0);
    const auto second = read(ParseMeta(0, first.data()).page_bytes);
    const std::array again{first, second};
    if (again == pages) break;
    pages = again;
  }
  const std::array metas{ParseMeta(0, pages[0].data()), ParseMeta(1, pages[1].data())};
  transactions_ = {metas[0].transaction, metas[1].transaction};
  const uint64_t newer = transactions_[1] > transactions_[0] ? 1 : 0;
  const Meta& meta = metas[newer];
  // Transaction n writes meta page n % 2; both start with 0.
  if (metas[0].page_bytes != metas[1].page_bytes ||
      transactions_[newer] - transactions_[1 - newer] > 1 ||
      (transactions_[newer] > 0 && transactions_[newer] % 2 != newer)) {
    FailDamaged("the meta pages do not belong together");
  }
  page_bytes_ = meta.page_bytes;
  constexpr uint64_t kMostPages = uint64_t{1} << 48;
  if (meta.last_page < kMetaPages - 1 || meta.last_page >= kMostPages) {
    FailDamaged(StrCat("a last page ", meta.last_page));
  }
  pages_ = meta.last_page + 1;
  const uint64_t bytes = FileBytes();
  if (bytes < pages_ * page_bytes_) FailCut(path_, bytes, pages_ * page_bytes_);
  free_pages_ = ParseTree(pages[newer].data() + kFreePagesAt);
  records_ = ParseTree(pages[newer].data() + kRecordsAt);
  const auto flags = Load<uint16_t>(pages[newer].data() + kRecordsAt + kTreeFlagsAt);
  if ((flags & ~(kReverseKeys | kIntegerKeys)) != 0) {
    FailDamaged("it holds several values of a key (MDB_DUPSORT), which no data set does");
  }
  records_.sorted = flags == 0;
  map_ = std::make_unique<GuardedMap>(descriptor_, pages_ * page_bytes_, path_ + "/data.mdb");
}

LmdbTree LmdbFile::ParseTree(const char* bytes) const {
  const LmdbTree tree{.root = Load<uint64_t>(bytes + kRootAt),
                      .entries = Load<uint64_t>(bytes + kEntriesAt),
                      .depth = Load<uint16_t>(bytes + kDepthAt)};
  const bool empty = tree.root == LmdbTree::kNoRoot;
  if (empty != (tree.entries == 0) || empty != (tree.depth == 0) || tree.depth > kMostLevels ||
      tree.entries > pages_ * page_bytes_ / kLeastRecordBytes) {
    FailDamaged(StrCat("a tree of ", tree.entries, " entries in ", tree.depth, " levels"));
  }
  return tree;
}

// The second commit after the snapshot overwrites its meta page. From then on its pages may be
// reused. The first commit writes the other meta page.
bool LmdbFile::committed_over() const {
  const uint64_t newest = std::max(transactions_[0], transactions_[1]);
  for (const uint64_t number : {0, 1}) {
    const uint64_t now = LoadNow(PageAt(number) + kTransactionAt);
    const bool next = now == newest + 1 && now % 2 == number;
    if (now != transactions_[number] && !next) return true;
  }
  return false;
}

uint64_t LmdbFile::FileBytes() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) {
    Fail(ErrorCode::kIoFailure,
         StrCat("the data set '", path_, "' cannot be examined: ", std::strerror(errno)));
  }
  return static_cast<uint64_t>(status.st_size);
}

void LmdbFile::CheckUnchanged() const {
  const uint64_t bytes = FileBytes();
  const uint64_t needed = pages_ * page_bytes_;
  if (bytes < needed) FailCut(path_, bytes, needed);
  const bool changed = committed_over();
  if (map_->lost()) {
    Fail(ErrorCode::kIoFailure, StrCat("a part of '", path_,
                                       "/data.mdb' could not be read: the disk failed, or the file "
                                       "was cut meanwhile; copy or write the data set again"));
  }
  if (changed) {
    Fail(ErrorCode::kDataLoss, StrCat("the data set '", path_,
                                      "' was changed while it was read: start again when no "
                                      "program writes to it, and write new sets under a new name"));
  }
}

void LmdbFile::FailDamaged(const std::string& damage) const {
  if (map_ != nullptr) CheckUnchanged();
  Fail(ErrorCode::kDataLoss, StrCat("'", path_, "' is not an LMDB that can be read (", damage,
                                    "): write the data set again"));
}

void LmdbFile::ReadPage(uint64_t number, uint16_t kind, bool sorted, LmdbPage* page) const {
  page->clear();
  const auto fail = [&](const std::string& fault) {
    FailDamaged(StrCat("page ", number, " ", fault));
  };
  if (number < kMetaPages || number >= pages_) fail(StrCat("of ", pages_));
  page->bytes_.assign(PageAt(number), PageAt(number) + page_bytes_);
  if (committed_over() || map_->lost()) CheckUnchanged();
  const char* const bytes = page->bytes_.data();
  page->number_ = number;
  if (Load<uint64_t>(bytes) != number || Load<uint16_t>(bytes + kFlagsAt) != kind) {
    fail(kind == kLeaf ? "is no leaf page" : "is no branch page");
  }
  const size_t lower = Load<uint16_t>(bytes + kLowerAt);
  const size_t upper = Load<uint16_t>(bytes + kUpperAt);
  const size_t least = kind == kLeaf ? 1 : 2;
  if (lower < kHeaderBytes + 2 * least || lower % 2 != 0 || lower > upper || upper > page_bytes_) {
    fail("has wrong bounds");
  }
  const auto count = static_cast<unsigned>((lower - kHeaderBytes) / 2);
  for (unsigned n = 0; n < count; ++n) {
    const char* const fault = FindNodeFault(*page, n, kind);
    if (fault != nullptr) fail(StrCat("has ", fault));
    if (sorted && n > 0 && page->Key(n - 1) >= page->Key(n)) fail("has keys that do not ascend");
  }
  page->count_ = count;
}

// Returns null without a fault.
const char* LmdbFile::FindNodeFault(const LmdbPage& page, unsigned index, uint16_t kind) const {
  const char* const bytes = page.bytes_.data();
  const size_t upper = Load<uint16_t>(bytes + kUpperAt);
  const char* const node = page.Node(index);
  const auto at = static_cast<size_t>(node - bytes);
  if (at < upper || at % 2 != 0 || at + kNodeBytes > page_bytes_) return "a node outside of it";
  const size_t room = page_bytes_ - at - kNodeBytes;
  const size_t key_bytes = Load<uint16_t>(node + 6);
  if (key_bytes > room) return "a key outside of it";
  if (kind == kBranch) return nullptr;
  if (key_bytes == 0) return "an empty key";
  const auto flags = Load<uint16_t>(node + 4);
  if (flags == kNamed) return "named databases, which no data set has";
  if ((flags & ~kBigValue) != 0) return "a node of no known kind";
  const size_t stored = flags == kBigValue ? sizeof(uint64_t) : ValueBytes(node);
  return stored > room - key_bytes ? "a value outside of it" : nullptr;
}

LmdbPlace LmdbFile::Place(const LmdbPage& leaf, unsigned index) const {
  const std::string_view key = leaf.Key(index);
  const char* const node = leaf.Node(index);
  const uint64_t key_at =
      leaf.number_ * page_bytes_ + static_cast<uint64_t>(key.data() - leaf.bytes_.data());
  LmdbPlace place{.key = key_at,
                  .value = key_at + key.size(),
                  .value_bytes = ValueBytes(node),
                  .key_bytes = static_cast<uint16_t>(key.size()),
                  .own_pages = Load<uint16_t>(node + 4) == kBigValue};
  if (place.own_pages) {
    place.value = Load<uint64_t>(key.data() + key.size());
    if (place.value < kMetaPages || place.value >= pages_) {
      FailDamaged(StrCat("a value at page ", place.value, " of ", pages_));
    }
  }
  return place;
}

LmdbRecord LmdbFile::Record(const LmdbPlace& place) const {
  const std::string_view key(map_->data() + place.key, place.key_bytes);
  if (!place.own_pages) return {key, {map_->data() + place.value, place.value_bytes}};
  const char* const run = PageAt(place.value);
  const uint64_t run_pages = Load<uint32_t>(run + kRunAt);
  if (Load<uint64_t>(run) != place.value || Load<uint16_t>(run + kFlagsAt) != kOverflow ||
      run_pages > pages_ - place.value ||
      run_pages * page_bytes_ < kHeaderBytes + place.value_bytes) {
    FailDamaged(StrCat("page ", place.value, " begins no value of ", place.value_bytes, " bytes"));
  }
  return {key, {run + kHeaderBytes, place.value_bytes}};
}

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
