// Our own reader sees the same in liblmdb's files as liblmdb.
#include <gtest/gtest.h>
#include <lmdb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "data/expect_error.h"
#include "data/liblmdb_set.h"
#include "data/records/lmdb.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using testing::ExpectError;
using testing::KeysAndValues;
using testing::LiblmdbSet;
using testing::LmdbVal;

std::string EightDigits(uint64_t n) {
  char key[24];
  std::snprintf(key, sizeof key, "%08llu", static_cast<unsigned long long>(n));
  return key;
}

// Random numbers of one test.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(11, seed) {}
  uint32_t Below(uint32_t n) { return random_.Below(drawn_++, n); }
  std::string Bytes(size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(Below(256));
    return bytes;
  }
  // Mostly small; some are around the limit for overflow pages, some have many pages.
  size_t ValueBytes() {
    switch (Below(12)) {
      case 0:
        return 0;
      case 1:
        return 1900 + Below(300);
      case 2:
        return 4060 + Below(60);
      case 3:
        return 4096 * (1 + Below(5)) + Below(40) - 20;
      case 4:
        return Below(60) == 0 ? Below(4 << 20) : Below(20000);
      default:
        return Below(300);
    }
  }

 private:
  RandomStream random_;
  uint64_t drawn_ = 0;
};

void ExpectReads(const std::string& path, const KeysAndValues& expected, uint64_t seed) {
  LmdbReader reader(path);
  ASSERT_EQ(reader.count(), expected.size());
  const auto expect = [&](const LmdbRecord& record, size_t n) {
    ASSERT_EQ(record.key, expected[n % expected.size()].first) << n;
    ASSERT_TRUE(record.value == expected[n % expected.size()].second) << n;
  };
  for (size_t n = 0; n < 2 * expected.size() + 1; ++n) expect(reader.Next(), n);
  Dice dice(seed);
  const auto draw = [&] { return dice.Below(static_cast<uint32_t>(expected.size())); };
  for (const bool listed : {false, true}) {
    for (int n = 0; n < 20; ++n) {
      const size_t begin = draw();
      const size_t step = draw();
      reader.Seek(begin);
      expect(reader.Next(), begin);
      reader.Skip(step);
      expect(reader.Next(), begin + 1 + step);
      expect(reader.Next(), begin + 2 + step);
      if (!listed) continue;
      const size_t any = draw();
      expect(reader.At(any), any);
      expect(reader.Next(), begin + 3 + step);
    }
    if (!listed) expect(reader.At(0), 0);
  }
  LmdbReader clone = reader.Clone();
  expect(clone.Next(), 0);
}

TEST(LmdbFormat, RandomSetsAreReadAsLiblmdbReadsThem) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const TempDir temp;
    Dice dice(seed);
    const uint32_t key_kinds = dice.Below(3);
    const uint32_t most_changes = 1 + dice.Below(seed % 5 == 0 ? 1500 : 150);
    KeysAndValues expected;
    {
      LiblmdbSet set(temp.File("set"));
      const uint32_t commits = 1 + dice.Below(20);
      for (uint32_t commit = 0; commit < commits; ++commit) {
        set.Commit([&](MDB_txn* txn, MDB_dbi dbi) {
          const bool deletes = commit % 4 == 3;
          for (uint32_t n = 1 + dice.Below(most_changes); n > 0; --n) {
            const std::string name = EightDigits(dice.Below(2000));
            const std::string key = key_kinds == 0   ? name
                                    : key_kinds == 1 ? name + std::string(dice.Below(504), 'k')
                                                     : dice.Bytes(1 + dice.Below(511));
            MDB_val k = LmdbVal(key);
            if (deletes) {
              MDB_cursor* cursor = nullptr;
              ASSERT_EQ(mdb_cursor_open(txn, dbi, &cursor), 0);
              MDB_val v{};
              if (mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE) == 0) {
                ASSERT_EQ(mdb_cursor_del(cursor, 0), 0);
              }
              mdb_cursor_close(cursor);
            } else {
              const std::string value = dice.Bytes(dice.ValueBytes());
              MDB_val v = LmdbVal(value);
              ASSERT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
            }
          }
        });
      }
      expected = set.ReadAll();
    }
    if (expected.empty()) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectReads(temp.File("set"), expected, seed));
  }
}

TEST(LmdbFormat, SetsOfAllSizesAreReadAsLiblmdbReadsThem) {
  for (const uint64_t records : {1, 2, 3, 50, 1000, 100000}) {
    SCOPED_TRACE(records);
    const TempDir temp;
    {
      LmdbWriter writer(temp.File("set"));
      for (uint64_t n = 0; n < records; ++n) writer.Put(EightDigits(n), std::string(n % 90, 'v'));
      writer.Close();
    }
    const KeysAndValues expected = LiblmdbSet(temp.File("set")).ReadAll();
    ASSERT_EQ(expected.size(), records);
    ASSERT_NO_FATAL_FAILURE(ExpectReads(temp.File("set"), expected, records));
  }
}

TEST(LmdbFormat, SetsWhoseRecordsWereAllDeletedAreEmpty) {
  const TempDir temp;
  {
    LiblmdbSet set(temp.File("set"));
    for (uint64_t n = 0; n < 300; ++n) set.Put(EightDigits(n), "value");
    set.Commit([](MDB_txn* txn, MDB_dbi dbi) { ASSERT_EQ(mdb_drop(txn, dbi, 0), 0); });
  }
  ExpectError(ErrorCode::kDataLoss, "holds no records", [&] { LmdbReader(temp.File("set")); });
}

TEST(LmdbFormat, CopiesOfLiblmdbAreRead) {
  for (const unsigned flags : {0, MDB_CP_COMPACT}) {
    const TempDir temp;
    KeysAndValues expected;
    {
      LiblmdbSet set(temp.File("set"));
      for (uint64_t n = 0; n < 200; ++n) set.Put(EightDigits(n % 150), std::string(n * 20, 'v'));
      expected = set.ReadAll();
      fs::create_directory(temp.File("copy"));
      ASSERT_EQ(mdb_env_copy2(set.env(), temp.File("copy").c_str(), flags), 0);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectReads(temp.File("copy"), expected, flags));
  }
}

TEST(LmdbFormat, KeysOfOtherOrdersAreReadAsLiblmdbReadsThem) {
  for (const unsigned flags : {MDB_INTEGERKEY, MDB_REVERSEKEY}) {
    const TempDir temp;
    KeysAndValues expected;
    {
      LiblmdbSet set(temp.File("set"), flags);
      for (uint64_t n = 0; n < 700; ++n) {
        const uint64_t number = n * 300 % 70001;
        set.Put({reinterpret_cast<const char*>(&number), sizeof number}, EightDigits(n));
      }
      expected = set.ReadAll();
    }
    ASSERT_NO_FATAL_FAILURE(ExpectReads(temp.File("set"), expected, flags));
  }
}

TEST(LmdbFormat, OtherKindsOfDatabasesAreRefused) {
  const TempDir temp;
  LiblmdbSet(temp.File("dup"), MDB_DUPSORT).Put("key", "value");
  ExpectError(ErrorCode::kDataLoss, "MDB_DUPSORT", [&] { LmdbReader(temp.File("dup")); });
  LiblmdbSet(temp.File("named")).Put("key", "value", "name");
  LmdbReader named(temp.File("named"));
  ExpectError(ErrorCode::kDataLoss, "named databases", [&] { named.Next(); });
}

void Overwrite(const std::string& file, std::streamoff at, const std::string& bytes) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(at);
  stream << bytes;
}

TEST(LmdbFormat, FilesOfOtherMachinesAndVersionsAreRefused) {
  const TempDir temp;
  const std::string magic("\xDE\xC0\xEF\xBE", 4);
  const std::string swapped("\xBE\xEF\xC0\xDE", 4);
  struct Case {
    std::streamoff at;
    std::string bytes;
    std::string message;
  };
  for (const Case& c :
       {Case{16, swapped, "order of bytes"}, Case{12, magic + "\1", "32-bit"},
        Case{12, swapped + "\1", "order of bytes"}, Case{20, "\2", "format version 2"}}) {
    const std::string path = temp.File(c.message + std::to_string(c.at));
    LiblmdbSet(path).Put("key", "value");
    Overwrite(path + "/data.mdb", c.at, c.bytes);
    ExpectError(ErrorCode::kDataLoss, c.message, [&] { LmdbReader{path}; });
  }
}

TEST(LmdbFormat, ReadingMakesNoLockFile) {
  const TempDir temp;
  LiblmdbSet(temp.File("set")).Put("key", "value");
  fs::remove(temp.File("set/lock.mdb"));
  LmdbReader reader(temp.File("set"));
  EXPECT_EQ(reader.Next().key, "key");
  EXPECT_FALSE(fs::exists(temp.File("set/lock.mdb")));
}

TEST(LmdbFormat, AnyLockFileIsLeftAlone) {
  const TempDir temp;
  LiblmdbSet(temp.File("set")).Put("key", "value");
  temp.Write("set/lock.mdb", "no lock");
  LmdbReader reader(temp.File("set"));
  EXPECT_EQ(reader.Next().key, "key");
  EXPECT_EQ(temp.Read("set/lock.mdb"), "no lock");
}

TEST(LmdbFormat, TwoProcessesReadASetAtOnce) {
  const TempDir temp;
  {
    LiblmdbSet set(temp.File("set"));
    for (uint64_t n = 0; n < 500; ++n) set.Put(EightDigits(n), EightDigits(n));
  }
  LmdbReader mine(temp.File("set"));
  EXPECT_EQ(mine.Next().key, EightDigits(0));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // seconds
    LmdbReader other(temp.File("set"));
    uint64_t same = 0;
    for (uint64_t n = 0; n < 1000; ++n) same += other.Next().value == EightDigits(n % 500) ? 1 : 0;
    _exit(same == 1000 ? 0 : 1);
  }
  for (uint64_t n = 1; n < 1000; ++n) EXPECT_EQ(mine.Next().value, EightDigits(n % 500));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// LMDB reuses pages that were freed two commits earlier.
TEST(LmdbFormat, OneCommitOfAWriterIsNotSeenAndMoreAreAnError) {
  const TempDir temp;
  LiblmdbSet set(temp.File("set"));
  for (uint64_t n = 0; n < 300; ++n) set.Put(EightDigits(n), EightDigits(n));
  LmdbReader reader(temp.File("set"));
  EXPECT_EQ(reader.Next().key, EightDigits(0));
  set.Put("z", "new");
  for (uint64_t n = 1; n < 601; ++n) ASSERT_EQ(reader.Next().value, EightDigits(n % 300));
  EXPECT_EQ(reader.At(299).value, EightDigits(299));
  set.Put("zz", "new");
  const std::string changed = "was changed while it was read";
  ExpectError(ErrorCode::kDataLoss, changed, [&] { reader.Next(); });
  ExpectError(ErrorCode::kDataLoss, changed, [&] { reader.At(1); });
  ExpectError(ErrorCode::kDataLoss, changed, [&] { reader.Seek(1); });
  ExpectError(ErrorCode::kDataLoss, changed, [&] { reader.Clone().Next(); });
  EXPECT_EQ(LmdbReader(temp.File("set")).count(), 302u);
}

// Reads while another process keeps adding: the data comes from one snapshot, or an error reports
// the change.
TEST(LmdbFormat, AWriterAtWorkNeverSpoilsWhatIsRead) {
  const TempDir temp;
  constexpr uint64_t kFirst = 400;
  {
    LiblmdbSet set(temp.File("set"));
    for (uint64_t n = 0; n < kFirst; ++n) {
      set.Put(EightDigits(n), std::string(500, 'v') + EightDigits(n));
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // seconds
    LiblmdbSet set(temp.File("set"));
    for (uint64_t n = kFirst; n < kFirst + 3000; ++n) {
      set.Put(EightDigits(n), std::string(500, 'v') + EightDigits(n));
    }
    _exit(0);
  }
  int status = 0;
  uint64_t read = 0;
  uint64_t opened = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    try {
      LmdbReader reader(temp.File("set"));
      ++opened;
      for (uint64_t n = 0; n < reader.count(); ++n, ++read) {
        const LmdbRecord record = reader.Next();
        const std::string key(record.key);
        const std::string value(record.value);
        reader.Skip(0);  // the writer may have continued after Next
        ASSERT_EQ(key, EightDigits(n));
        ASSERT_EQ(value, std::string(500, 'v') + key);
      }
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()).find("was changed while it was read"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(status, 0);
  EXPECT_GT(opened, 0u);
  EXPECT_GT(read, 0u);
  EXPECT_EQ(LmdbReader(temp.File("set")).count(), kFirst + 3000);
}

TEST(LmdbFormat, AFileThatIsCutGivesZerosAndThenAnError) {
  const TempDir temp;
  {
    LiblmdbSet set(temp.File("set"));
    for (uint64_t n = 0; n < 20; ++n) set.Put(EightDigits(n), std::string(300000, 'v'));
  }
  LmdbReader reader(temp.File("set"));
  const LmdbRecord record = reader.Next();
  const std::string file = temp.File("set/data.mdb");
  const auto bytes = fs::file_size(file);
  fs::resize_file(file, 8192);
  EXPECT_EQ(std::count(record.value.begin(), record.value.end(), '\0'), 300000);
  ExpectError(ErrorCode::kDataLoss, "cut short", [&] { reader.Next(); });
  fs::resize_file(file, bytes);
  ExpectError(ErrorCode::kIoFailure, "could not be read", [&] { reader.Next(); });
}

}  // namespace
}  // namespace crema
