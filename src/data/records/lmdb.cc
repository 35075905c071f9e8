// The reader; lmdb_writer.cc has the writer. Only lmdb*.cc know lmdb.h.
#include "data/records/lmdb.h"

#include <lmdb.h>

#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/data_set_folder.h"
#include "data/records/lmdb_environment.h"

namespace crema {
namespace {

// Where an assertion of liblmdb about a damaged page goes on, in place of abort(). Of this thread.
std::jmp_buf*& EscapeOfThread() {
  thread_local std::jmp_buf* escape = nullptr;  // NOLINT: liblmdb does not say for whom it calls
  return escape;
}

void OnAssertion(MDB_env*, const char*) {
  if (EscapeOfThread() != nullptr) std::longjmp(*EscapeOfThread(), 1);
}

// mdb_cursor_get, with MDB_CORRUPTED for assertions that fail in it. Owns nothing, since longjmp
// runs no destructors.
int Get(MDB_cursor* cursor, MDB_val* key, MDB_val* value, MDB_cursor_op operation) {
  std::jmp_buf escape;
  EscapeOfThread() = &escape;
  if (setjmp(escape) != 0) {  // NOLINT: liblmdb is C
    EscapeOfThread() = nullptr;
    return MDB_CORRUPTED;
  }
  const int code = mdb_cursor_get(cursor, key, value, operation);
  EscapeOfThread() = nullptr;
  return code;
}

Environment OpenForReading(const std::string& path, uint64_t file_bytes) {
  // A folder on a read-only mount, or of another user, has no room for a lock file; nobody writes
  // there either, so reading without locks is sound.
  unsigned flags = MDB_RDONLY | MDB_NOTLS;
  Environment env = MakeEnvironment(path);
  int code = mdb_env_open(env.get(), path.c_str(), flags, kLmdbFileMode);
  if (code == EACCES || code == EROFS || code == EPERM) {
    flags |= MDB_NOLOCK;
    env = MakeEnvironment(path);
    code = mdb_env_open(env.get(), path.c_str(), flags, kLmdbFileMode);
  }
  if (code == ENOMEM) {  // it reserves what its writer did: a terabyte for those of Caffe
    env = MakeEnvironment(path);
    CheckLmdb(mdb_env_set_mapsize(env.get(), file_bytes), path, "sizing it");
    code = mdb_env_open(env.get(), path.c_str(), flags, kLmdbFileMode);
  }
  CheckLmdb(code, path, "opening it");
  mdb_env_set_assert(env.get(), OnAssertion);
  return env;
}

// LMDB forbids opening one environment twice in a process: its locks are POSIX record locks, which
// belong to the process, and closing one handle drops those of the other.
using SharedEnvironment = SharedHandle<Environment>;

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
    CheckLmdb(mdb_env_stat(env->get(), &pages), path, "examining it");
    MDB_val key{};
    MDB_val value{};
    CheckLmdb(Get(cursor.get(), &key, &value, MDB_FIRST), path, "reading a record");
    map = MapOf(key, pages.ms_psize);
  }

  // The record behind the last one.
  MDB_val Step(MDB_val* value) {
    const MDB_cursor_op operation = positioned ? MDB_NEXT : MDB_FIRST;
    positioned = true;
    MDB_val key{};
    int code = Get(cursor.get(), &key, value, operation);
    if (code == MDB_NOTFOUND) code = Get(cursor.get(), &key, value, MDB_FIRST);
    CheckLmdb(code, path, "reading a record");
    CheckInside(key);
    CheckInside(*value);
    return key;
  }

  void FindPlaces() {
    MDB_cursor* raw = nullptr;
    CheckLmdb(mdb_cursor_open(txn.get(), mdb_cursor_dbi(cursor.get()), &raw), path,
              "listing its keys");
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
  const struct stat status = ExamineLmdbFolder(path);
  impl_->env = std::make_unique<SharedEnvironment>(
      status, [&] { return OpenForReading(path, static_cast<uint64_t>(status.st_size)); });
  impl_->bytes_in_use = BytesInUse(impl_->env->get(), path);
  CheckWhole(impl_->env->get(), path, impl_->bytes_in_use);

  MDB_txn* txn = nullptr;
  CheckLmdb(mdb_txn_begin(impl_->env->get(), nullptr, MDB_RDONLY, &txn), path, "opening it");
  impl_->txn.reset(txn);
  MDB_dbi dbi = 0;
  CheckLmdb(mdb_dbi_open(txn, nullptr, 0, &dbi), path, "opening it");
  MDB_stat contents{};
  CheckLmdb(mdb_stat(txn, dbi, &contents), path, "counting its records");
  impl_->count = contents.ms_entries;
  if (impl_->count > impl_->bytes_in_use) FailLmdb(path, "counting its records", MDB_CORRUPTED);
  if (impl_->count == 0) {
    Fail(ErrorCode::kDataLoss, StrCat("the data set '", path, "' holds no records"));
  }
  MDB_cursor* cursor = nullptr;
  CheckLmdb(mdb_cursor_open(txn, dbi, &cursor), path, "opening it");
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
  CheckLmdb(Get(impl_->cursor.get(), &key, nullptr, MDB_SET), impl_->path, "seeking");
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

}  // namespace crema
