// The writer; the reader is in lmdb.cc. Only this file uses liblmdb.
#include <fcntl.h>
#include <lmdb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/data_set_folder.h"
#include "data/records/lmdb.h"
#include "data/records/lmdb_file.h"
#include "format/file.h"

namespace crema {
namespace {

constexpr mdb_mode_t kFileMode = 0644;
constexpr size_t kCommitRecords = 1000;
constexpr size_t kCommitBytes = size_t{64} << 20;  // bounds uncommitted data
constexpr size_t kFirstMapBytes = size_t{1} << 20;

struct EnvironmentCloser {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
struct TransactionAborter {
  void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
};
using Environment = std::unique_ptr<MDB_env, EnvironmentCloser>;
using Transaction = std::unique_ptr<MDB_txn, TransactionAborter>;

// LMDB never writes to the values it takes.
MDB_val Val(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

// Returns the cause of LMDB's EIO after a partial write.
int ReasonOfShortWrite(const std::string& path) {
  struct stat file {};
  rlimit limit{};
  if (stat((path + "/data.mdb").c_str(), &file) == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      static_cast<rlim_t>(file.st_size) >= limit.rlim_cur) {
    return EFBIG;
  }
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) == 0 && disk.f_bavail == 0) return ENOSPC;
  return EIO;
}

// Throws the Error for a code of liblmdb or errno.
[[noreturn]] void FailLmdb(const std::string& path, const char* doing, int code) {
  if (code == EIO) code = ReasonOfShortWrite(path);
  switch (code) {
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_VERSION_MISMATCH:
    case MDB_BAD_TXN:
      Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is not an LMDB that can be read (",
                                        mdb_strerror(code), "): write the data set again"));
    case EACCES:
    case EPERM:
      Fail(ErrorCode::kIoFailure,
           StrCat("no permission to use the data set '", path, "' while ", doing));
    case EFBIG:
    case ENOSPC:
    case EDQUOT:
      FailWrite(path, code, 0);
    case ENOMEM:
      Fail(ErrorCode::kOutOfMemory, StrCat("no memory left while ", doing, " '", path, "'"));
    default:
      Fail(ErrorCode::kIoFailure, StrCat("'", path, "': ", mdb_strerror(code), " while ", doing));
  }
}

void CheckLmdb(int code, const std::string& path, const char* doing) {
  if (code != MDB_SUCCESS) FailLmdb(path, doing, code);
}

// liblmdb maps the lock file and writes to it. On a full disk that would end the process.
void AllocateLockFile(const std::string& path) {
  constexpr off_t kBytes = 8192;  // enough for liblmdb's 126 readers
  const std::string file = path + "/lock.mdb";
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, kFileMode);
  if (descriptor < 0) FailLmdb(path, "opening its lock file", errno);
  const int error = posix_fallocate(descriptor, 0, kBytes);
  close(descriptor);
  if (error != 0 && error != EINVAL && error != EOPNOTSUPP) FailWrite(file, error, kBytes);
}

// `map_bytes` 0: the size stored in the data set.
Environment OpenForWriting(const std::string& path, size_t map_bytes) {
  AllocateLockFile(path);
  MDB_env* raw = nullptr;
  CheckLmdb(mdb_env_create(&raw), path, "starting LMDB");
  Environment env(raw);
  if (map_bytes > 0) CheckLmdb(mdb_env_set_mapsize(raw, map_bytes), path, "sizing it");
  CheckLmdb(mdb_env_open(raw, path.c_str(), 0, kFileMode), path, "opening it");
  int dead = 0;  // killed readers of other programs keep pages from being reused
  CheckLmdb(mdb_reader_check(raw, &dead), path, "opening it");
  return env;
}

// Verifies the pages that liblmdb trusts when it appends: the path to the last record, and the
// lists of free pages. Returns the last key, empty without records.
std::string VerifyForAppending(const std::string& path) {
  const LmdbFile file(path);
  LmdbPage leaf;
  LmdbWalker lists(&file, file.free_pages());
  while (lists.NextLeaf(&leaf)) {
    for (unsigned n = 0; n < leaf.count(); ++n) {
      const LmdbRecord list = file.Record(file.Place(leaf, n));
      uint64_t pages = 0;  // their numbers follow, 8 bytes each
      if (list.value.size() >= sizeof pages) std::memcpy(&pages, list.value.data(), sizeof pages);
      if (list.key.size() != sizeof(uint64_t) || list.value.size() / sizeof pages <= pages) {
        file.FailDamaged("a list of free pages is none");
      }
    }
  }
  if (file.records().entries == 0) return "";
  LmdbWalker(&file, file.records()).LastLeaf(&leaf);
  return std::string(leaf.Key(leaf.count() - 1));
}

}  // namespace

struct LmdbWriter::Impl {
  std::string path;
  Environment env;
  std::vector<std::pair<std::string, std::string>> pending;
  size_t pending_bytes = 0;
  size_t map_bytes = kFirstMapBytes;
  bool closed = false;
  bool appends = false;  // to existing records

  // One attempt; writes nothing unless it returns MDB_SUCCESS.
  int TryCommit() {
    MDB_txn* raw = nullptr;
    if (int code = mdb_txn_begin(env.get(), nullptr, 0, &raw)) return code;
    Transaction txn(raw);
    MDB_dbi dbi = 0;
    if (int code = mdb_dbi_open(raw, nullptr, 0, &dbi)) return code;
    for (const auto& [key, value] : pending) {
      MDB_val k = Val(key);
      MDB_val v = Val(value);
      const int code = mdb_put(raw, dbi, &k, &v, MDB_NOOVERWRITE);
      if (code == MDB_KEYEXIST) {
        Fail(ErrorCode::kInvalidArgument,
             StrCat("the key '", key, "' is put twice into '", path, "'"));
      }
      if (code != MDB_SUCCESS) return code;
    }
    return mdb_txn_commit(txn.release());
  }

  void Commit() {
    if (pending.empty()) return;
    int code = TryCommit();
    while (code == MDB_MAP_FULL) {
      map_bytes *= 2;
      CheckLmdb(mdb_env_set_mapsize(env.get(), map_bytes), path, "enlarging it");
      code = TryCommit();
    }
    CheckLmdb(code, path, "writing records");
    pending.clear();
    pending_bytes = 0;
  }
};

LmdbWriter::LmdbWriter(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->closed = true;  // until the folder is created
  MakeDataSetFolder(path);
  impl_->closed = false;
  try {
    impl_->env = OpenForWriting(path, impl_->map_bytes);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    throw;
  }
}

LmdbWriter::LmdbWriter(const std::string& path, std::string* last_key)
    : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->appends = true;
  *last_key = VerifyForAppending(path);
  impl_->env = OpenForWriting(path, 0);
  MDB_envinfo info{};
  CheckLmdb(mdb_env_info(impl_->env.get(), &info), path, "examining it");
  impl_->map_bytes = std::max(kFirstMapBytes, info.me_mapsize);
}

LmdbWriter::~LmdbWriter() {
  if (impl_->closed || impl_->appends) return;
  impl_->env.reset();
  std::error_code ignored;
  for (const char* file : {"/data.mdb", "/lock.mdb", ""}) {
    std::filesystem::remove(impl_->path + file, ignored);
  }
}

void LmdbWriter::Put(std::string_view key, std::string_view value) {
  CREMA_CHECK(!impl_->closed);
  const auto longest = static_cast<size_t>(mdb_env_get_maxkeysize(impl_->env.get()));
  if (key.empty() || key.size() > longest) {
    Fail(ErrorCode::kInvalidArgument, StrCat("a key of ", key.size(), " bytes for '", impl_->path,
                                             "': 1 to ", longest, " are allowed"));
  }
  impl_->pending.emplace_back(key, value);
  impl_->pending_bytes += key.size() + value.size();
  if (impl_->pending.size() >= kCommitRecords || impl_->pending_bytes >= kCommitBytes) {
    impl_->Commit();
  }
}

void LmdbWriter::Close() {
  CREMA_CHECK(!impl_->closed);
  impl_->Commit();
  CheckLmdb(mdb_env_sync(impl_->env.get(), 1), impl_->path, "syncing it");
  impl_->env.reset();
  impl_->closed = true;
}

}  // namespace crema
