#include "data/records/lmdb.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "data/as_ordinary_user.h"
#include "data/expect_error.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::ExpectError;

std::string Key(int i) {
  char key[16];
  std::snprintf(key, sizeof key, "%08d", i);
  return key;
}

void WriteSet(const std::string& path, int records, size_t value_bytes = 10) {
  LmdbWriter writer(path);
  for (int i = 0; i < records; ++i) {
    writer.Put(Key(i), std::string(value_bytes, static_cast<char>('a' + i % 26)));
  }
  writer.Close();
}

TEST(Lmdb, ReadsInOrderOfKeysAndWraps) {
  TempDir temp;
  {
    LmdbWriter writer(temp.File("set"));
    writer.Put("b", "2");
    writer.Put("a", "1");
    writer.Put("c", "3");
    writer.Close();
  }
  LmdbReader reader(temp.File("set"));
  EXPECT_EQ(reader.count(), 3u);
  std::string seen;
  for (int i = 0; i < 7; ++i) {
    const LmdbRecord record = reader.Next();
    seen += record.key;
    seen += record.value;
  }
  EXPECT_EQ(seen, "a1b2c3a1b2c3a1");
}

TEST(Lmdb, SeekCountsModuloTheRecords) {
  TempDir temp;
  WriteSet(temp.File("set"), 5);
  LmdbReader reader(temp.File("set"));
  for (const int ordinal : {3, 0, 4, 5, 13, 2}) {
    reader.Seek(static_cast<uint64_t>(ordinal));
    EXPECT_EQ(reader.Next().key, Key(ordinal % 5));
    EXPECT_EQ(reader.Next().key, Key((ordinal + 1) % 5));
  }
}

TEST(Lmdb, MapGrowsAndNothingIsLost) {
  TempDir temp;
  // 20 MB: the map begins at 1 MiB and must double several times, inside and between commits.
  WriteSet(temp.File("set"), 2500, 8000);
  LmdbReader reader(temp.File("set"));
  ASSERT_EQ(reader.count(), 2500u);
  for (int i = 0; i < 2500; ++i) {
    const LmdbRecord record = reader.Next();
    ASSERT_EQ(record.key, Key(i));
    ASSERT_EQ(record.value, std::string(8000, static_cast<char>('a' + i % 26)));
  }
}

TEST(Lmdb, SeveralReadersOfOneSetShareIt) {
  TempDir temp;
  WriteSet(temp.File("set"), 4);
  auto first = std::make_unique<LmdbReader>(temp.File("set"));
  LmdbReader second(temp.File("set"));
  std::filesystem::create_directory_symlink(temp.File("set"), temp.File("link"));
  LmdbReader third(temp.File("link"));
  EXPECT_EQ(first->Next().key, Key(0));
  EXPECT_EQ(second.Next().key, Key(0));
  EXPECT_EQ(first->Next().key, Key(1));
  first.reset();
  EXPECT_EQ(second.Next().key, Key(1));
  EXPECT_EQ(third.Next().key, Key(0));
}

TEST(Lmdb, ReadsWhereNoLockFileCanBeMade) {
  TempDir temp;
  WriteSet(temp.File("set"), 4);
  std::filesystem::remove(temp.File("set/lock.mdb"));
  chmod((temp.File("")).c_str(), 0755);
  chmod((temp.File("set")).c_str(), 0555);
  {
    const testing::AsOrdinaryUser user;
    LmdbReader reader(temp.File("set"));
    EXPECT_EQ(reader.Next().key, Key(0));
    EXPECT_FALSE(std::filesystem::exists(temp.File("set/lock.mdb")));
  }
  chmod((temp.File("set")).c_str(), 0755);
}

TEST(Lmdb, SetThatMayNotBeReadIsIoFailure) {
  TempDir temp;
  WriteSet(temp.File("set"), 4);
  chmod((temp.File("")).c_str(), 0755);
  chmod((temp.File("set/data.mdb")).c_str(), 0);
  const testing::AsOrdinaryUser user;
  ExpectError(ErrorCode::kIoFailure, "no permission", [&] { LmdbReader(temp.File("set")); });
}

TEST(Lmdb, ErrorsSayWhatIsWrong) {
  TempDir temp;
  ExpectError(ErrorCode::kNotFound, "there is no data set", [&] { LmdbReader(temp.File("none")); });
  const std::string file = temp.Write("file", "text");
  ExpectError(ErrorCode::kDataLoss, "ordinary file", [&] { LmdbReader{file}; });
  ExpectError(ErrorCode::kNotFound, "there is no data set", [&] { LmdbReader(file + "/below"); });
  std::filesystem::create_directory(temp.File("folder"));
  ExpectError(ErrorCode::kDataLoss, "no data.mdb", [&] { LmdbReader(temp.File("folder")); });
  temp.Write("folder/data.mdb", "");
  ExpectError(ErrorCode::kDataLoss, "is empty", [&] { LmdbReader(temp.File("folder")); });
  temp.Write("folder/data.mdb", std::string(20000, 'x'));
  ExpectError(ErrorCode::kDataLoss, "not an LMDB", [&] { LmdbReader(temp.File("folder")); });
}

TEST(Lmdb, SetWithoutRecordsIsDataLoss) {
  TempDir temp;
  WriteSet(temp.File("set"), 0);
  ExpectError(ErrorCode::kDataLoss, "holds no records", [&] { LmdbReader(temp.File("set")); });
  EXPECT_EQ(ExitCode(ErrorCode::kDataLoss), 3);
}

TEST(Lmdb, TruncatedFileIsRefusedAndDoesNotKill) {
  TempDir temp;
  WriteSet(temp.File("set"), 100, 8000);
  const std::string file = temp.File("set/data.mdb");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  ExpectError(ErrorCode::kDataLoss, "cut short", [&] { LmdbReader(temp.File("set")); });
}

TEST(Lmdb, FileThatIsCutWhileItIsReadIsAnErrorAndDoesNotKill) {
  TempDir temp;
  WriteSet(temp.File("set"), 100, 8000);
  LmdbReader reader(temp.File("set"));
  reader.Next();
  const std::string file = temp.File("set/data.mdb");
  std::filesystem::resize_file(file, 8192);
  ExpectError(ErrorCode::kDataLoss, "cut short", [&] { reader.Next(); });
  ExpectError(ErrorCode::kDataLoss, "cut short", [&] { reader.At(50); });
  ExpectError(ErrorCode::kDataLoss, "cut short", [&] { reader.Skip(1); });
}

TEST(Lmdb, SetThatIsReplacedIsReadOnAsItWas) {
  TempDir temp;
  WriteSet(temp.File("set"), 100, 8000);
  WriteSet(temp.File("new"), 3);
  LmdbReader reader(temp.File("set"));
  reader.Next();
  std::filesystem::rename(temp.File("set"), temp.File("old"));
  std::filesystem::rename(temp.File("new"), temp.File("set"));
  std::filesystem::remove_all(temp.File("old"));
  for (int i = 1; i < 100; ++i) ASSERT_EQ(reader.Next().value.size(), 8000u);
  EXPECT_EQ(LmdbReader(temp.File("set")).count(), 3u);
}

TEST(LmdbWriter, RefusesAnExistingPathAndLeavesItAlone) {
  TempDir temp;
  WriteSet(temp.File("set"), 3);
  ExpectError(ErrorCode::kInvalidArgument, "exists already; choose another",
              [&] { LmdbWriter(temp.File("set")); });
  EXPECT_EQ(LmdbReader(temp.File("set")).count(), 3u);
  ExpectError(ErrorCode::kIoFailure, "cannot make the folder",
              [&] { LmdbWriter(temp.File("none/set")); });
}

TEST(LmdbWriter, UnfinishedSetIsRemoved) {
  TempDir temp;
  {
    LmdbWriter writer(temp.File("set"));
    for (int i = 0; i < 1500; ++i) writer.Put(Key(i), "value");  // the first 1000 are committed
  }
  EXPECT_FALSE(std::filesystem::exists(temp.File("set")));
}

TEST(LmdbWriter, RefusesKeysThatCannotBe) {
  TempDir temp;
  LmdbWriter writer(temp.File("set"));
  ExpectError(ErrorCode::kInvalidArgument, "a key of 0 bytes", [&] { writer.Put("", "x"); });
  ExpectError(ErrorCode::kInvalidArgument, "a key of 512 bytes",
              [&] { writer.Put(std::string(512, 'k'), "x"); });
  writer.Put("same", "x");
  writer.Put("same", "y");
  ExpectError(ErrorCode::kInvalidArgument, "'same' is put twice", [&] { writer.Close(); });
}

}  // namespace
}  // namespace crema
