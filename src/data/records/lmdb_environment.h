// What reading and writing an LMDB have in common. For lmdb*.cc only.
#pragma once

#include <lmdb.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace crema {

constexpr mdb_mode_t kLmdbFileMode = 0644;

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

inline std::string_view View(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

// LMDB never writes through the values that it is given.
inline MDB_val Val(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

// Throws the Error that a code of liblmdb, or of errno, stands for.
[[noreturn]] void FailLmdb(const std::string& path, const char* doing, int code);

inline void CheckLmdb(int code, const std::string& path, const char* doing) {
  if (code != MDB_SUCCESS) FailLmdb(path, doing, code);
}

Environment MakeEnvironment(const std::string& path);

// What data.mdb is, after checks whose messages LMDB's own could not match.
struct stat ExamineLmdbFolder(const std::string& path);

// The bytes that the file must have.
uint64_t BytesInUse(MDB_env* env, const std::string& path);

// Reading a mapped page behind the end of the file would kill the process: throws kDataLoss where
// the file is shorter than that.
void CheckWhole(MDB_env* env, const std::string& path, uint64_t needed);

}  // namespace crema
