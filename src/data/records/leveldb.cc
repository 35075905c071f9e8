#include "data/records/leveldb.h"

#include <fcntl.h>
#include <leveldb/db.h>
#include <leveldb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "data/records/data_set_folder.h"
#include "format/file.h"

namespace crema {
namespace {

constexpr size_t kBatchRecords = 1000;
constexpr size_t kBatchBytes = size_t{64} << 20;
constexpr size_t kTableBlockBytes = size_t{64} << 10;  // as in Caffe

std::string_view View(const leveldb::Slice& slice) { return {slice.data(), slice.size()}; }
leveldb::Slice Slice(std::string_view text) { return {text.data(), text.size()}; }

[[noreturn]] void FailLevelDb(const std::string& path, const char* doing,
                              const leveldb::Status& status) {
  const std::string text = status.ToString();
  // LevelDB reports a truncated table as EINVAL.
  const bool cut = text.ends_with(StrCat(": ", std::strerror(EINVAL)));
  if (!status.IsIOError() || cut) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is not a LevelDB that can be read (", text,
                                      ") while ", doing, ": copy or write the data set again"));
  }
  if (text.find("/LOCK: ") != std::string::npos &&
      (text.find("already held") != std::string::npos ||
       text.find(std::strerror(EAGAIN)) != std::string::npos)) {
    Fail(ErrorCode::kIoFailure,
         StrCat("'", path,
                "' is in use: a LevelDB can be open in one process only; wait for the other one, "
                "or convert the data set to LMDB, which any number can read"));
  }
  if (faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    Fail(ErrorCode::kIoFailure,
         StrCat("the folder '", path, "' cannot be written (", std::strerror(errno),
                "), and a LevelDB keeps its lock and log there even when it is only read: copy it "
                "elsewhere, or convert the data set to LMDB"));
  }
  for (const int error : {EFBIG, ENOSPC, EDQUOT}) {
    if (text.ends_with(std::strerror(error))) FailWrite(path, error, 0);
  }
  Fail(ErrorCode::kIoFailure, StrCat("'", path, "': ", text, " while ", doing));
}

void Check(const leveldb::Status& status, const std::string& path, const char* doing) {
  if (!status.ok()) FailLevelDb(path, doing, status);
}

// LevelDB would block on a pipe.
void RefusePipes(const std::string& path) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       Advance(entry, error)) {
    std::error_code gone;
    const auto status = entry->status(gone);
    if (gone || std::filesystem::is_regular_file(status) || std::filesystem::is_directory(status)) {
      continue;
    }
    Fail(ErrorCode::kDataLoss, StrCat("'", entry->path().string(), "' is a pipe or a device, so '",
                                      path, "' is not a LevelDB"));
  }
}

std::unique_ptr<leveldb::DB> Open(const std::string& path, const leveldb::Options& options) {
  RefusePipes(path);
  leveldb::DB* db = nullptr;
  Check(leveldb::DB::Open(options, path, &db), path, "opening it");
  return std::unique_ptr<leveldb::DB>(db);
}

// An open database and its cached key index.
class LevelDb {
 public:
  explicit LevelDb(std::string path) : path_(std::move(path)) {
    leveldb::Options options;
    options.paranoid_checks = true;  // otherwise a damaged log silently loses its last records
    db_ = Open(path_, options);
    snapshot_ = db_->GetSnapshot();
  }
  ~LevelDb() { db_->ReleaseSnapshot(snapshot_); }
  LevelDb(const LevelDb&) = delete;
  LevelDb& operator=(const LevelDb&) = delete;

  const std::string& path() const { return path_; }

  std::unique_ptr<leveldb::Iterator> NewIterator() const {
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    options.fill_cache = false;  // sequential reads do not need the cache
    options.snapshot = snapshot_;
    return std::unique_ptr<leveldb::Iterator>(db_->NewIterator(options));
  }

  uint64_t Count() {
    const std::lock_guard lock(mutex_);
    if (count_ == 0) Walk(false);
    return count_;
  }

  // Key number `ordinal`. Requires: below Count(). Valid as long as this object.
  std::string_view Key(uint64_t ordinal) {
    const std::lock_guard lock(mutex_);
    if (ends_.empty()) Walk(true);
    CREMA_CHECK(ordinal < count_);
    const size_t begin = ordinal == 0 ? 0 : ends_[ordinal - 1];
    return std::string_view(keys_).substr(begin, ends_[ordinal] - begin);
  }

 private:
  void Walk(bool note_keys) {
    const auto walker = NewIterator();
    uint64_t count = 0;
    for (walker->SeekToFirst(); walker->Valid(); walker->Next(), ++count) {
      if (!note_keys) continue;
      keys_ += View(walker->key());
      ends_.push_back(keys_.size());
    }
    if (!walker->status().ok()) {
      keys_.clear();
      ends_.clear();
      FailLevelDb(path_, "counting its records", walker->status());
    }
    count_ = count;
  }

  const std::string path_;
  std::unique_ptr<leveldb::DB> db_;
  const leveldb::Snapshot* snapshot_ = nullptr;
  std::mutex mutex_;          // guards the members below
  uint64_t count_ = 0;        // 0: unknown yet
  std::string keys_;          // concatenated
  std::vector<size_t> ends_;  // of the keys; empty: unknown yet
};

using SharedLevelDb = SharedHandle<std::unique_ptr<LevelDb>>;

class LevelDbReader final : public RecordReader {
 public:
  explicit LevelDbReader(std::shared_ptr<SharedLevelDb> shared)
      : shared_(std::move(shared)), db_(shared_->get()), walker_(db_->NewIterator()) {
    ToFirst();
  }

  uint64_t count() const override { return db_->Count(); }

  KeyedRecord Next() override {
    if (!pending_) Step();
    pending_ = false;
    return {View(walker_->key()), View(walker_->value())};
  }

  // Wraps around without calling Count(), which would read a large data set to its end.
  void Seek(uint64_t ordinal) override {
    ToFirst();
    uint64_t at = 0;
    while (at < ordinal) {
      walker_->Next();
      if (walker_->Valid()) {
        ++at;
        continue;
      }
      CheckWalker();
      ordinal %= at + 1;
      at = 0;
      ToFirst();
    }
    CheckWalker();
  }

  void Skip(uint64_t records) override {
    for (; records > 0; --records) {
      if (!pending_) Step();
      pending_ = false;
    }
  }

  KeyedRecord At(uint64_t ordinal) override {
    const std::string_view key = db_->Key(ordinal);
    if (!finder_) finder_ = db_->NewIterator();
    finder_->Seek(Slice(key));
    if (!finder_->Valid() || View(finder_->key()) != key) {
      FailLevelDb(db_->path(), "reading a record",
                  finder_->status().ok() ? leveldb::Status::Corruption("a record is missing")
                                         : finder_->status());
    }
    return {key, View(finder_->value())};
  }

  std::unique_ptr<RecordReader> Clone() const override {
    return std::make_unique<LevelDbReader>(shared_);
  }

 private:
  // An iterator skips a damaged block silently but keeps the status.
  void CheckWalker() { Check(walker_->status(), db_->path(), "reading a record"); }

  void ToFirst() {
    walker_->SeekToFirst();
    pending_ = true;
    CheckWalker();
    if (walker_->Valid()) return;
    Fail(ErrorCode::kDataLoss, StrCat("the data set '", db_->path(), "' holds no records"));
  }

  void Step() {
    if (walker_->Valid()) walker_->Next();
    CheckWalker();
    if (!walker_->Valid()) ToFirst();
  }

  const std::shared_ptr<SharedLevelDb> shared_;  // destroyed last
  LevelDb* const db_;
  std::unique_ptr<leveldb::Iterator> walker_;
  std::unique_ptr<leveldb::Iterator> finder_;  // for At
  bool pending_ = true;                        // the walker is at the record that Next returns
};

class LevelDbWriter final : public RecordWriter {
 public:
  explicit LevelDbWriter(const std::string& path) : path_(path) {
    MakeDataSetFolder(path);
    leveldb::Options options;
    options.create_if_missing = true;
    options.error_if_exists = true;
    options.block_size = kTableBlockBytes;
    options.write_buffer_size = kBatchBytes;
    try {
      db_ = Open(path, options);
    } catch (...) {
      Remove();
      throw;
    }
  }

  LevelDbWriter(const std::string& path, std::string* last_key) : path_(path), appends_(true) {
    ExamineDataSet(path);
    leveldb::Options options;
    options.block_size = kTableBlockBytes;
    options.write_buffer_size = kBatchBytes;
    options.paranoid_checks = true;
    db_ = Open(path, options);
    const std::unique_ptr<leveldb::Iterator> last(db_->NewIterator({}));
    last->SeekToLast();
    Check(last->status(), path, "looking for its last key");
    if (last->Valid()) last_committed_ = View(last->key());
    *last_key = last_committed_;
  }

  ~LevelDbWriter() override {
    if (!db_) return;
    db_.reset();
    if (!appends_) Remove();
  }
  LevelDbWriter(const LevelDbWriter&) = delete;
  LevelDbWriter& operator=(const LevelDbWriter&) = delete;

  void Put(std::string_view key, std::string_view value) override {
    CREMA_CHECK(db_ != nullptr);
    if (key.empty()) {
      Fail(ErrorCode::kInvalidArgument, StrCat("a key of 0 bytes for '", path_, "'"));
    }
    if (!pending_keys_.emplace(key).second || Exists(key)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the key '", key, "' is put twice into '", path_, "'"));
    }
    batch_.Put(Slice(key), Slice(value));
    if (pending_keys_.size() >= kBatchRecords || batch_.ApproximateSize() >= kBatchBytes) {
      Commit(false);
    }
  }

  void Close() override {
    CREMA_CHECK(db_ != nullptr);
    Commit(true);
    db_.reset();
  }

 private:
  // Ascending keys, the usual case, need no lookup.
  bool Exists(std::string_view key) {
    if (key > last_committed_) return false;
    std::string ignored;
    const leveldb::Status status = db_->Get({}, Slice(key), &ignored);
    if (!status.IsNotFound()) Check(status, path_, "looking for a key");
    return status.ok();
  }

  void Commit(bool sync) {
    leveldb::WriteOptions options;
    options.sync = sync;
    Check(db_->Write(options, &batch_), path_, "writing records");
    batch_.Clear();
    if (pending_keys_.empty()) return;
    last_committed_ = std::max(last_committed_, *pending_keys_.rbegin());
    pending_keys_.clear();
  }

  void Remove() {
    leveldb::DestroyDB(path_, {});
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);  // removes the empty folder, if it is left
  }

  const std::string path_;
  const bool appends_ = false;
  std::unique_ptr<leveldb::DB> db_;
  leveldb::WriteBatch batch_;
  std::set<std::string, std::less<>> pending_keys_;
  std::string last_committed_;  // the largest committed key
};

}  // namespace

std::unique_ptr<RecordReader> OpenLevelDb(const std::string& path) {
  const struct stat status = ExamineDataSet(path);
  const auto open = [&] { return std::make_unique<LevelDb>(path); };
  return std::make_unique<LevelDbReader>(std::make_shared<SharedLevelDb>(status, open));
}

std::unique_ptr<RecordWriter> CreateLevelDb(const std::string& path) {
  return std::make_unique<LevelDbWriter>(path);
}

RecordAppender AppendLevelDb(const std::string& path) {
  RecordAppender appender;
  appender.writer = std::make_unique<LevelDbWriter>(path, &appender.last_key);
  return appender;
}

}  // namespace crema
