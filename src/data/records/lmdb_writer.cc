#include <lmdb.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/data_set_folder.h"
#include "data/records/lmdb.h"
#include "data/records/lmdb_environment.h"

namespace crema {
namespace {

constexpr size_t kCommitRecords = 1000;
constexpr size_t kCommitBytes = size_t{64} << 20;  // bounds what waits for a commit
constexpr size_t kFirstMapBytes = size_t{1} << 20;

}  // namespace

struct LmdbWriter::Impl {
  std::string path;
  Environment env;
  std::vector<std::pair<std::string, std::string>> pending;
  size_t pending_bytes = 0;
  size_t map_bytes = kFirstMapBytes;
  bool closed = false;
  bool appends = false;  // to what was there before

  // One attempt; nothing is written unless it returns MDB_SUCCESS.
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

  // Empty without records.
  std::string LastKey() const {
    MDB_txn* raw = nullptr;
    CheckLmdb(mdb_txn_begin(env.get(), nullptr, MDB_RDONLY, &raw), path, "opening it");
    const Transaction txn(raw);
    MDB_dbi dbi = 0;
    CheckLmdb(mdb_dbi_open(raw, nullptr, 0, &dbi), path, "opening it");
    MDB_cursor* opened = nullptr;
    CheckLmdb(mdb_cursor_open(raw, dbi, &opened), path, "opening it");
    const Cursor cursor(opened);
    MDB_val key{};
    MDB_val value{};
    const int code = mdb_cursor_get(opened, &key, &value, MDB_LAST);
    if (code == MDB_NOTFOUND) return "";
    CheckLmdb(code, path, "reading its last key");
    return std::string(View(key));
  }
};

LmdbWriter::LmdbWriter(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->closed = true;  // until the folder is ours
  MakeDataSetFolder(path);
  impl_->closed = false;
  try {
    impl_->env = MakeEnvironment(path);
    CheckLmdb(mdb_env_set_mapsize(impl_->env.get(), impl_->map_bytes), path, "sizing it");
    CheckLmdb(mdb_env_open(impl_->env.get(), path.c_str(), 0, kLmdbFileMode), path, "creating it");
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
  ExamineLmdbFolder(path);
  impl_->env = MakeEnvironment(path);
  CheckLmdb(mdb_env_open(impl_->env.get(), path.c_str(), 0, kLmdbFileMode), path, "opening it");
  CheckWhole(impl_->env.get(), path, BytesInUse(impl_->env.get(), path));
  MDB_envinfo info{};
  CheckLmdb(mdb_env_info(impl_->env.get(), &info), path, "examining it");
  impl_->map_bytes = std::max(kFirstMapBytes, info.me_mapsize);
  *last_key = impl_->LastKey();
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
