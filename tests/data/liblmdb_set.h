// Data sets written and read by liblmdb: the reference for our own reader.
#pragma once

#include <gtest/gtest.h>
#include <lmdb.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crema::testing {

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

inline MDB_val LmdbVal(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};
}

// An LMDB open in liblmdb. Creates a missing folder.
class LiblmdbSet {
 public:
  explicit LiblmdbSet(const std::string& path, unsigned flags = 0) : flags_(flags) {
    std::filesystem::create_directories(path);
    EXPECT_EQ(mdb_env_create(&env_), 0);
    EXPECT_EQ(mdb_env_set_mapsize(env_, size_t{1} << 32), 0);
    EXPECT_EQ(mdb_env_set_maxdbs(env_, 4), 0);
    EXPECT_EQ(mdb_env_open(env_, path.c_str(), MDB_NOSYNC, 0644), 0);
  }
  ~LiblmdbSet() { mdb_env_close(env_); }
  LiblmdbSet(const LiblmdbSet&) = delete;
  LiblmdbSet& operator=(const LiblmdbSet&) = delete;

  MDB_env* env() { return env_; }

  // Calls change(transaction, dbi), and commits.
  template <typename Change>
  void Commit(Change&& change, const char* name = nullptr) {
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    ASSERT_EQ(mdb_txn_begin(env_, nullptr, 0, &txn), 0);
    ASSERT_EQ(mdb_dbi_open(txn, name, flags_ | MDB_CREATE, &dbi), 0);
    change(txn, dbi);
    ASSERT_EQ(mdb_txn_commit(txn), 0);
  }
  void Put(std::string_view key, std::string_view value, const char* name = nullptr) {
    Commit(
        [&](MDB_txn* txn, MDB_dbi dbi) {
          MDB_val k = LmdbVal(key);
          MDB_val v = LmdbVal(value);
          ASSERT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
        },
        name);
  }

  KeysAndValues ReadAll() {
    KeysAndValues records;
    Commit([&](MDB_txn* txn, MDB_dbi dbi) {
      MDB_cursor* cursor = nullptr;
      ASSERT_EQ(mdb_cursor_open(txn, dbi, &cursor), 0);
      MDB_val key{};
      MDB_val value{};
      while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
        records.emplace_back(std::string(static_cast<char*>(key.mv_data), key.mv_size),
                             std::string(static_cast<char*>(value.mv_data), value.mv_size));
      }
      mdb_cursor_close(cursor);
    });
    return records;
  }

 private:
  const unsigned flags_;
  MDB_env* env_ = nullptr;
};

}  // namespace crema::testing
