// The only file that knows lmdb.h.
#include "data/lmdb.h"

#include <lmdb.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/data_set_folder.h"

namespace crema {
namespace {

constexpr mdb_mode_t kFileMode = 0644;
constexpr size_t kCommitRecords = 1000;
constexpr size_t kCommitBytes = size_t{64} << 20;  // bounds what waits for a commit
constexpr size_t kFirstMapBytes = size_t{1} << 20;

struct EnvironmentCloser {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
struct TransactionAborter {
  void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
};
struct CursorCloser {
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
using Environment = std::unique_ptr<MDB_env, EnvironmentCloser>;
using Transaction = std::unique_ptr<MDB_txn, TransactionAborter>;
using Cursor = std::unique_ptr<MDB_cursor, CursorCloser>;

std::string_view View(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

// LMDB never writes through the values that it is given.
MDB_val Val(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

[[noreturn]] void FailLmdb(const std::string& path, const char* doing, int code) {
  switch (code) {
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_VERSION_MISMATCH:
    case MDB_BAD_TXN:
      Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is not an LMDB that can be read (",
                                        mdb_strerror(code), "): write the data set again"));
    case MDB_READERS_FULL:
      Fail(ErrorCode::kIoFailure, StrCat("too many processes read '", path, "' at once"));
    case MDB_MAP_RESIZED:
      Fail(ErrorCode::kIoFailure,
           StrCat("'", path,
                  "' has grown since this process began to read it: start again when "
                  "nobody writes there"));
    case EACCES:
    case EPERM:
      Fail(ErrorCode::kIoFailure,
           StrCat("no permission to use the data set '", path, "' while ", doing));
    case ENOMEM:
      Fail(ErrorCode::kOutOfMemory, StrCat("no memory left while ", doing, " '", path, "'"));
    default:
      Fail(ErrorCode::kIoFailure, StrCat("'", path, "': ", mdb_strerror(code), " while ", doing));
  }
}

void Check(int code, const std::string& path, const char* doing) {
  if (code != MDB_SUCCESS) FailLmdb(path, doing, code);
}

Environment MakeEnvironment(const std::string& path) {
  MDB_env* env = nullptr;
  Check(mdb_env_create(&env), path, "starting LMDB");
  return Environment(env);
}

// Where an assertion of liblmdb about a damaged page goes on, in place of abort().
thread_local std::jmp_buf* t_escape = nullptr;

void OnAssertion(MDB_env*, const char*) {
  if (t_escape != nullptr) std::longjmp(*t_escape, 1);
}

// mdb_cursor_get, with MDB_CORRUPTED for assertions that fail in it. Owns nothing, since longjmp
// runs no destructors.
int Get(MDB_cursor* cursor, MDB_val* key, MDB_val* value, MDB_cursor_op operation) {
  std::jmp_buf escape;
  t_escape = &escape;
  if (setjmp(escape) != 0) {  // NOLINT: liblmdb is C
    t_escape = nullptr;
    return MDB_CORRUPTED;
  }
  const int code = mdb_cursor_get(cursor, key, value, operation);
  t_escape = nullptr;
  return code;
}

// The size of data.mdb, after checks whose messages LMDB's own could not match.
struct stat ExamineFolder(const std::string& path) {
  struct stat status = ExamineDataSet(path);
  if (!S_ISDIR(status.st_mode)) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path, "' is an ordinary file; an LMDB is a folder that holds data.mdb"));
  }
  if (stat((path + "/data.mdb").c_str(), &status) != 0) {
    if (errno != ENOENT) FailLmdb(path, "opening it", errno);
    Fail(ErrorCode::kDataLoss,
         StrCat("the folder '", path, "' is not an LMDB: it holds no data.mdb"));
  }
  if (!S_ISREG(status.st_mode)) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "/data.mdb' is not a file, so this is no LMDB"));
  }
  if (status.st_size == 0) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "/data.mdb' is empty: write the data set again"));
  }
  return status;
}

Environment OpenForReading(const std::string& path, uint64_t file_bytes) {
  // A folder on a read-only mount, or of another user, has no room for a lock file; nobody writes
  // there either, so reading without locks is sound.
  unsigned flags = MDB_RDONLY | MDB_NOTLS;
  Environment env = MakeEnvironment(path);
  int code = mdb_env_open(env.get(), path.c_str(), flags, kFileMode);
  if (code == EACCES || code == EROFS || code == EPERM) {
    flags |= MDB_NOLOCK;
    env = MakeEnvironment(path);
    code = mdb_env_open(env.get(), path.c_str(), flags, kFileMode);
  }
  if (code == ENOMEM) {  // it reserves what its writer did: a terabyte for those of Caffe
    env = MakeEnvironment(path);
    Check(mdb_env_set_mapsize(env.get(), file_bytes), path, "sizing it");
    code = mdb_env_open(env.get(), path.c_str(), flags, kFileMode);
  }
  Check(code, path, "opening it");
  mdb_env_set_assert(env.get(), OnAssertion);
  return env;
}

// LMDB forbids opening one environment twice in a process: its locks are POSIX record locks, which
// belong to the process, and closing one handle drops those of the other.
using SharedEnvironment = SharedHandle<Environment>;

// The bytes that the file must have.
uint64_t BytesInUse(MDB_env* env, const std::string& path) {
  MDB_envinfo info{};
  MDB_stat pages{};
  Check(mdb_env_info(env, &info), path, "examining it");
  Check(mdb_env_stat(env, &pages), path, "examining it");
  return (uint64_t{info.me_last_pgno} + 1) * pages.ms_psize;
}

// Reading a mapped page behind the end of the file would kill the process.
void CheckWhole(MDB_env* env, const std::string& path, uint64_t needed) {
  mdb_filehandle_t file = -1;
  struct stat status {};
  Check(mdb_env_get_fd(env, &file), path, "examining it");
  if (fstat(file, &status) != 0) FailLmdb(path, "examining it", errno);
  if (static_cast<uint64_t>(status.st_size) < needed) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "/data.mdb' is cut short: it has ", status.st_size,
                                      " bytes, ", needed, " are needed; copy or write it again"));
  }
}

// Where data.mdb is mapped, which liblmdb does not tell: each page begins with its number, and
// `key` lies in one.
uintptr_t MapOf(const MDB_val& key, uint64_t page_bytes) {
  const auto at = reinterpret_cast<uintptr_t>(key.mv_data);
  const uintptr_t page = at - at % page_bytes;
  uint64_t number = 0;
  std::memcpy(&number, reinterpret_cast<const void*>(page), sizeof number);
  return page - number * page_bytes;
}

// Where a record lies in the mapped file.
struct RecordPlace {
  const char* key;
  const char* value;
  uint32_t value_bytes;  // LMDB's values are below 4 GiB
  uint16_t key_bytes;    // and its keys below 512 bytes
};

}  // namespace

bool LooksLikeLmdb(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path + "/data.mdb", ignored);
}

struct LmdbReader::Impl {
  std::string path;
  std::unique_ptr<SharedEnvironment> env;  // destroyed last: cursor, transaction, environment
  Transaction txn;
  Cursor cursor;
  uint64_t count = 0;
  uint64_t bytes_in_use = 0;
  uintptr_t map = 0;                // where the file is mapped
  bool positioned = false;          // the cursor stands on the record that was read last
  std::vector<RecordPlace> places;  // empty: not looked for yet

  // liblmdb does not look whether what a page says lies in the file; what lies behind its end kills
  // who reads it.
  void CheckInside(const MDB_val& part) const {
    const uint64_t offset = reinterpret_cast<uintptr_t>(part.mv_data) - map;
    if (offset <= bytes_in_use && part.mv_size <= bytes_in_use - offset) return;
    FailLmdb(path, "reading a record", MDB_CORRUPTED);
  }

  void FindMap() {
    MDB_stat pages{};
    Check(mdb_env_stat(env->get(), &pages), path, "examining it");
    MDB_val key{};
    MDB_val value{};
    Check(Get(cursor.get(), &key, &value, MDB_FIRST), path, "reading a record");
    map = MapOf(key, pages.ms_psize);
  }

  // The record behind the last one.
  MDB_val Step(MDB_val* value) {
    const MDB_cursor_op operation = positioned ? MDB_NEXT : MDB_FIRST;
    positioned = true;
    MDB_val key{};
    int code = Get(cursor.get(), &key, value, operation);
    if (code == MDB_NOTFOUND) code = Get(cursor.get(), &key, value, MDB_FIRST);
    Check(code, path, "reading a record");
    CheckInside(key);
    CheckInside(*value);
    return key;
  }

  void FindPlaces() {
    MDB_cursor* raw = nullptr;
    Check(mdb_cursor_open(txn.get(), mdb_cursor_dbi(cursor.get()), &raw), path, "listing its keys");
    const Cursor walker(raw);
    std::vector<RecordPlace> found;
    found.reserve(count);
    MDB_val key{};
    MDB_val value{};
    int code = Get(raw, &key, &value, MDB_FIRST);
    for (; code == MDB_SUCCESS; code = Get(raw, &key, &value, MDB_NEXT)) {
      if (found.size() == count) FailLmdb(path, "listing its keys", MDB_CORRUPTED);
      CheckInside(key);
      CheckInside(value);
      found.push_back({static_cast<const char*>(key.mv_data),
                       static_cast<const char*>(value.mv_data),
                       static_cast<uint32_t>(value.mv_size), static_cast<uint16_t>(key.mv_size)});
    }
    if (code != MDB_NOTFOUND) FailLmdb(path, "listing its keys", code);
    if (found.size() != count) FailLmdb(path, "listing its keys", MDB_CORRUPTED);
    places = std::move(found);
  }
};

LmdbReader::LmdbReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  const struct stat status = ExamineFolder(path);
  impl_->env = std::make_unique<SharedEnvironment>(
      status, [&] { return OpenForReading(path, static_cast<uint64_t>(status.st_size)); });
  impl_->bytes_in_use = BytesInUse(impl_->env->get(), path);
  CheckWhole(impl_->env->get(), path, impl_->bytes_in_use);

  MDB_txn* txn = nullptr;
  Check(mdb_txn_begin(impl_->env->get(), nullptr, MDB_RDONLY, &txn), path, "opening it");
  impl_->txn.reset(txn);
  MDB_dbi dbi = 0;
  Check(mdb_dbi_open(txn, nullptr, 0, &dbi), path, "opening it");
  MDB_stat contents{};
  Check(mdb_stat(txn, dbi, &contents), path, "counting its records");
  impl_->count = contents.ms_entries;
  if (impl_->count > impl_->bytes_in_use) FailLmdb(path, "counting its records", MDB_CORRUPTED);
  if (impl_->count == 0) {
    Fail(ErrorCode::kDataLoss, StrCat("the data set '", path, "' holds no records"));
  }
  MDB_cursor* cursor = nullptr;
  Check(mdb_cursor_open(txn, dbi, &cursor), path, "opening it");
  impl_->cursor.reset(cursor);
  impl_->FindMap();
}

LmdbReader::~LmdbReader() = default;
LmdbReader::LmdbReader(LmdbReader&&) noexcept = default;
LmdbReader& LmdbReader::operator=(LmdbReader&&) noexcept = default;

const std::string& LmdbReader::path() const { return impl_->path; }
uint64_t LmdbReader::count() const { return impl_->count; }

LmdbRecord LmdbReader::Next() {
  CheckWhole(impl_->env->get(), impl_->path, impl_->bytes_in_use);
  MDB_val value{};
  const MDB_val key = impl_->Step(&value);
  return {View(key), View(value)};
}

void LmdbReader::Seek(uint64_t ordinal) {
  ordinal %= impl_->count;
  impl_->positioned = false;
  if (ordinal == 0 || impl_->places.empty()) {
    Skip(ordinal);
    return;
  }
  const RecordPlace& before = impl_->places[ordinal - 1];
  MDB_val key = Val({before.key, before.key_bytes});
  Check(Get(impl_->cursor.get(), &key, nullptr, MDB_SET), impl_->path, "seeking");
  impl_->positioned = true;
}

void LmdbReader::Skip(uint64_t records) {
  CheckWhole(impl_->env->get(), impl_->path, impl_->bytes_in_use);
  MDB_val value{};
  for (; records > 0; --records) impl_->Step(&value);
}

LmdbRecord LmdbReader::At(uint64_t ordinal) {
  CREMA_CHECK(ordinal < impl_->count);
  CheckWhole(impl_->env->get(), impl_->path, impl_->bytes_in_use);
  if (impl_->places.empty()) impl_->FindPlaces();
  const RecordPlace& place = impl_->places[ordinal];
  return {{place.key, place.key_bytes}, {place.value, place.value_bytes}};
}

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
      Check(mdb_env_set_mapsize(env.get(), map_bytes), path, "enlarging it");
      code = TryCommit();
    }
    Check(code, path, "writing records");
    pending.clear();
    pending_bytes = 0;
  }

  // Empty without records.
  std::string LastKey() const {
    MDB_txn* raw = nullptr;
    Check(mdb_txn_begin(env.get(), nullptr, MDB_RDONLY, &raw), path, "opening it");
    const Transaction txn(raw);
    MDB_dbi dbi = 0;
    Check(mdb_dbi_open(raw, nullptr, 0, &dbi), path, "opening it");
    MDB_cursor* opened = nullptr;
    Check(mdb_cursor_open(raw, dbi, &opened), path, "opening it");
    const Cursor cursor(opened);
    MDB_val key{};
    MDB_val value{};
    const int code = mdb_cursor_get(opened, &key, &value, MDB_LAST);
    if (code == MDB_NOTFOUND) return "";
    Check(code, path, "reading its last key");
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
    Check(mdb_env_set_mapsize(impl_->env.get(), impl_->map_bytes), path, "sizing it");
    Check(mdb_env_open(impl_->env.get(), path.c_str(), 0, kFileMode), path, "creating it");
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
  ExamineFolder(path);
  impl_->env = MakeEnvironment(path);
  Check(mdb_env_open(impl_->env.get(), path.c_str(), 0, kFileMode), path, "opening it");
  CheckWhole(impl_->env.get(), path, BytesInUse(impl_->env.get(), path));
  MDB_envinfo info{};
  Check(mdb_env_info(impl_->env.get(), &info), path, "examining it");
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
  Check(mdb_env_sync(impl_->env.get(), 1), impl_->path, "syncing it");
  impl_->env.reset();
  impl_->closed = true;
}

}  // namespace crema
