// Tests each field of an LMDB that the reader relies on with an impossible value.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/strings.h"
#include "data/expect_error.h"
#include "data/liblmdb_set.h"
#include "data/record_sets.h"
#include "data/records/lmdb.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::ExpectError;
using testing::kLmdbPage;
using testing::LiblmdbSet;

constexpr size_t kBigBytes = 5000;

// Offsets, see src/data/records/lmdb_file.cc.
constexpr size_t kNumber = 0;
constexpr size_t kFlags = 10;
constexpr size_t kLower = 12;
constexpr size_t kUpper = 14;
constexpr size_t kNodes = 16;
constexpr size_t kRun = 12;
constexpr size_t kNodeFlags = 4;
constexpr size_t kKeyBytes = 6;
constexpr size_t kKey = 8;
constexpr size_t kPageBytes = 40;
constexpr size_t kTreeFlags = 92;
constexpr size_t kTreeDepth = 94;
constexpr size_t kEntries = 120;
constexpr size_t kRoot = 128;
constexpr size_t kLastPage = 136;
constexpr size_t kTransaction = 144;

template <typename T>
T Get(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

class VerifiedLmdb : public ::testing::Test {
 protected:
  // The first commit writes meta page 1.
  void Write(const std::vector<std::pair<std::string, std::string>>& records) {
    LiblmdbSet(temp_.File("set")).Commit([&](MDB_txn* txn, MDB_dbi dbi) {
      for (const auto& [key, value] : records) {
        MDB_val k = testing::LmdbVal(key);
        MDB_val v = testing::LmdbVal(value);
        ASSERT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
      }
    });
    whole_ = temp_.Read("set/data.mdb");
    root_ = Get<uint64_t>(whole_, kLmdbPage + kRoot) * kLmdbPage;
  }

  size_t Node(unsigned index) const {
    return root_ + Get<uint16_t>(whole_, root_ + kNodes + size_t{2} * index);
  }

  // Expects an error with this text for the value at that offset.
  template <typename T>
  void ExpectFault(const std::string& text, size_t at, T value) {
    SCOPED_TRACE(StrCat(text, ": ", value, " at ", at));
    std::string bytes = whole_;
    std::memcpy(&bytes[at], &value, sizeof value);
    ExpectFault(text, bytes);
  }
  void ExpectFault(const std::string& text, const std::string& bytes) {
    temp_.Write("set/data.mdb", bytes);
    ExpectError(ErrorCode::kDataLoss, text, [&] {
      LmdbReader reader(temp_.File("set"));
      for (uint64_t n = 0; n <= reader.count(); ++n) reader.Next();
    });
    ExpectError(ErrorCode::kDataLoss, text, [&] {
      LmdbReader reader(temp_.File("set"));
      for (uint64_t n = 0; n < reader.count(); ++n) reader.At(n);
    });
  }

  const TempDir temp_;
  std::string whole_;
  size_t root_ = 0;  // offset of the root
};

TEST_F(VerifiedLmdb, Leaves) {
  Write({{"a", "1"}, {"b", "2"}, {"c", std::string(kBigBytes, 'v')}});
  ExpectFault<uint64_t>("is no leaf page", root_ + kNumber, 7);
  ExpectFault<uint16_t>("is no leaf page", root_ + kFlags, 1);
  for (const uint16_t lower : {8, 16, 21, 4094}) {
    ExpectFault<uint16_t>("has wrong bounds", root_ + kLower, lower);
  }
  for (const uint16_t upper : {16, 4098}) {
    ExpectFault<uint16_t>("has wrong bounds", root_ + kUpper, upper);
  }
  for (const uint16_t node : {0, 20, 4093, 4090, 60000}) {
    ExpectFault<uint16_t>("a node outside of it", root_ + kNodes, node);
  }
  ExpectFault<uint16_t>("a key outside of it", Node(0) + kKeyBytes, 4000);
  ExpectFault<uint16_t>("an empty key", Node(0) + kKeyBytes, 0);
  ExpectFault<uint32_t>("a value outside of it", Node(0), 4000);
  ExpectFault<uint32_t>("a value outside of it", Node(0), ~uint32_t{0});
  ExpectFault<uint16_t>("a node of no known kind", Node(0) + kNodeFlags, 4);
  ExpectFault<char>("keys that do not ascend", Node(0) + kKey, 'b');
  ExpectFault<char>("keys that do not ascend", Node(1) + kKey, 'x');
}

TEST_F(VerifiedLmdb, ValuesWithPagesOfTheirOwn) {
  Write({{"a", "1"}, {"b", "2"}, {"c", std::string(kBigBytes, 'v')}});
  const size_t first = Node(2) + kKey + 1;  // after the key
  const size_t run = Get<uint64_t>(whole_, first) * kLmdbPage;
  for (const uint64_t page : {uint64_t{1}, whole_.size() / kLmdbPage, uint64_t{1} << 60}) {
    ExpectFault<uint64_t>("a value at page", first, page);
  }
  ExpectFault<uint64_t>("begins no value", first, root_ / kLmdbPage);
  ExpectFault<uint64_t>("begins no value", run + kNumber, 1);
  ExpectFault<uint16_t>("begins no value", run + kFlags, 2);
  for (const uint32_t pages : {0U, 1U, 1000U, ~0U}) {
    ExpectFault<uint32_t>("begins no value", run + kRun, pages);
  }
  ExpectFault<uint32_t>("begins no value", Node(2), 2 * kLmdbPage - 15);
}

TEST_F(VerifiedLmdb, Branches) {
  std::vector<std::pair<std::string, std::string>> records;
  for (char key = 'A'; key <= 'Z'; ++key) {
    records.emplace_back(std::string(1, key), std::string(1000, key));
  }
  Write(records);
  ASSERT_EQ(Get<uint16_t>(whole_, root_ + kFlags), 1);
  const auto child = [&](unsigned index) { return Get<uint32_t>(whole_, Node(index)); };
  ExpectFault<uint64_t>("is no branch page", root_ + kNumber, 7);
  ExpectFault<uint16_t>("is no branch page", root_ + kFlags, 2);
  ExpectFault<uint16_t>("has wrong bounds", root_ + kLower, 18);
  ExpectFault<uint16_t>("a key outside of it", Node(1) + kKeyBytes, 4096);
  for (const uint32_t page : {0U, 1U, ~0U}) {
    ExpectFault<uint32_t>(StrCat("page ", page, " of"), Node(0), page);
  }
  ExpectFault<uint32_t>("is no leaf page", Node(1), static_cast<uint32_t>(root_ / kLmdbPage));
  ExpectFault<uint32_t>("keys that do not ascend", Node(1), child(0));
  ExpectFault<uint32_t>("keys that do not ascend", Node(0), child(1));
  ExpectFault<uint16_t>("is no branch page", kLmdbPage + kTreeDepth, 3);
  ExpectFault<uint16_t>("is no leaf page", kLmdbPage + kTreeDepth, 1);
}

TEST_F(VerifiedLmdb, MetaPages) {
  Write({{"a", "1"}, {"b", "2"}, {"c", std::string(kBigBytes, 'v')}});
  for (const uint32_t bytes : {0U, 256U, 3000U, 1U << 16, ~0U}) {
    ExpectFault<uint32_t>(StrCat("pages of ", bytes, " bytes"), kPageBytes, bytes);
    ExpectFault<uint32_t>(StrCat("pages of ", bytes, " bytes"), kLmdbPage + kPageBytes, bytes);
  }
  ExpectFault<uint32_t>("do not belong together", kLmdbPage + kPageBytes, 8192);
  for (const uint64_t transaction : {uint64_t{2}, uint64_t{5}, ~uint64_t{0}}) {
    ExpectFault<uint64_t>("do not belong together", kLmdbPage + kTransaction, transaction);
  }
  for (const size_t page : {size_t{0}, kLmdbPage}) {
    ExpectFault<uint64_t>("a meta page is none", page + kNumber, 7);
    ExpectFault<uint16_t>("a meta page is none", page + kFlags, 2);
  }
  ExpectFault<uint64_t>("a last page", kLmdbPage + kLastPage, 0);
  ExpectFault<uint64_t>("a last page", kLmdbPage + kLastPage, ~uint64_t{0});
  ExpectFault<uint64_t>("cut short", kLmdbPage + kLastPage, whole_.size() / kLmdbPage);
  ExpectFault<uint16_t>("a tree of 3 entries", kLmdbPage + kTreeDepth, 0);
  ExpectFault<uint16_t>("a tree of 3 entries", kLmdbPage + kTreeDepth, 33);
  ExpectFault<uint64_t>("a tree of 0 entries", kLmdbPage + kEntries, 0);
  ExpectFault<uint64_t>("a tree of", kLmdbPage + kEntries, ~uint64_t{0});
  ExpectFault<uint64_t>("more than 2 records", kLmdbPage + kEntries, 2);
  ExpectFault<uint64_t>("3 records, not 4", kLmdbPage + kEntries, 4);
  ExpectFault<uint16_t>("MDB_DUPSORT", kLmdbPage + kTreeFlags, 4);
  for (const uint64_t root : {uint64_t{1}, whole_.size() / kLmdbPage, ~uint64_t{0} - 1}) {
    ExpectFault<uint64_t>(StrCat("page ", root, " of"), kLmdbPage + kRoot, root);
  }
}

}  // namespace
}  // namespace crema
