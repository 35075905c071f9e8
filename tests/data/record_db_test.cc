#include "data/records/record_db.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/another_process.h"
#include "data/as_ordinary_user.h"
#include "data/expect_error.h"
#include "data/record_sets.h"
#include "format/file.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using testing::ExpectError;
using testing::InAnotherProcess;
using testing::NumberedKey;

std::string RecordValue(int n) {
  return testing::EncodedDatum(testing::FakeJpeg(n), n).SerializeAsString();
}

class EachBackend : public ::testing::TestWithParam<DataParameter::DB> {
 protected:
  void SetUp() override {
    if (!testing::CanWrite(GetParam(), temp_)) GTEST_SKIP() << "not in this build";
  }
  std::string Write(int records) { return testing::WriteRecords(temp_, GetParam(), records); }

  const TempDir temp_;
};

TEST_P(EachBackend, RecordsComeInOrderAgainAndAgain) {
  const auto reader = OpenRecords(Write(5));
  EXPECT_EQ(reader->count(), 5U);
  for (int n = 0; n < 12; ++n) {
    const KeyedRecord record = reader->Next();
    EXPECT_EQ(record.key, NumberedKey(n % 5));
    Datum datum;
    ASSERT_TRUE(datum.ParseFromString(std::string(record.value)));
    EXPECT_EQ(datum.data(), testing::FakeJpeg(n % 5));
    EXPECT_EQ(datum.label(), n % 5);
  }
}

TEST_P(EachBackend, SeekSkipAndAtFindTheirRecords) {
  const auto reader = OpenRecords(Write(5));
  for (const bool listed : {false, true}) {  // At stores the places of keys, which Seek may use
    for (const int ordinal : {3, 0, 4, 5, 13, 2}) {
      reader->Seek(static_cast<uint64_t>(ordinal));
      EXPECT_EQ(reader->Next().key, NumberedKey(ordinal % 5)) << listed;
      EXPECT_EQ(reader->Next().key, NumberedKey((ordinal + 1) % 5)) << listed;
      reader->Skip(7);
      EXPECT_EQ(reader->Next().key, NumberedKey((ordinal + 9) % 5)) << listed;
      reader->Skip(0);
      reader->Seek(static_cast<uint64_t>(ordinal));
      reader->Skip(1);
      EXPECT_EQ(reader->Next().key, NumberedKey((ordinal + 1) % 5)) << listed;
    }
    for (const int ordinal : {4, 0, 2, 2, 1}) {
      const KeyedRecord record = reader->At(static_cast<uint64_t>(ordinal));
      EXPECT_EQ(record.key, NumberedKey(ordinal));
      EXPECT_NE(record.value.find(testing::FakeJpeg(ordinal)), std::string_view::npos);
    }
    reader->Seek(1);
    EXPECT_EQ(reader->At(4).key, NumberedKey(4));
    EXPECT_EQ(reader->Next().key, NumberedKey(1));  // as if At had not been called
  }
}

TEST_P(EachBackend, ReadersOfOneSetDoNotDisturbEachOther) {
  const std::string path = Write(4);
  auto first = OpenRecords(path);
  const auto second = OpenRecords(path);
  EXPECT_EQ(first->Next().key, NumberedKey(0));
  const auto third = first->Clone();
  EXPECT_EQ(second->Next().key, NumberedKey(0));
  EXPECT_EQ(first->Next().key, NumberedKey(1));
  EXPECT_EQ(third->Next().key, NumberedKey(0));
  first.reset();
  EXPECT_EQ(second->Next().key, NumberedKey(1));
  EXPECT_EQ(third->At(3).key, NumberedKey(3));
}

TEST_P(EachBackend, LastingRecordsStayAsLongAsTheReader) {
  const auto reader = OpenRecords(Write(6));
  if (!reader->persistent()) GTEST_SKIP() << "records are gone with the next one";
  std::vector<KeyedRecord> records;
  for (int n = 0; n < 6; ++n) records.push_back(reader->Next());
  for (int n = 0; n < 6; ++n) EXPECT_EQ(reader->At(n).value.data(), records[n].value.data());
}

TEST_P(EachBackend, AnExistingPathIsRefusedAndLeftAlone) {
  const std::string path = Write(3);
  ExpectError(ErrorCode::kInvalidArgument, "exists already; choose another",
              [&] { CreateRecords(path, GetParam()); });
  EXPECT_EQ(OpenRecords(path)->count(), 3U);
  ExpectError(ErrorCode::kIoFailure, "cannot make the folder",
              [&] { CreateRecords(temp_.File("none/set"), GetParam()); });
}

TEST_P(EachBackend, AKeyThatIsPutTwiceIsRefused) {
  const auto writer = CreateRecords(temp_.File("set"), GetParam());
  ExpectError(ErrorCode::kInvalidArgument, "000003", [&] {
    for (int n = 0; n < 1500; ++n) writer->Put(NumberedKey(n), RecordValue(n % 3));
    writer->Put(NumberedKey(3), RecordValue(3));  // was committed already
    writer->Close();
    Fail(ErrorCode::kInternal, "the key was taken");
  });
}

TEST_P(EachBackend, WhatIsNotClosedIsRemoved) {
  {
    const auto writer = CreateRecords(temp_.File("set"), GetParam());
    for (int n = 0; n < 1200; ++n) writer->Put(NumberedKey(n), RecordValue(n % 3));
  }
  EXPECT_FALSE(fs::exists(temp_.File("set")));
}

TEST_P(EachBackend, ASetWithoutRecordsIsDataLoss) {
  CreateRecords(temp_.File("set"), GetParam())->Close();
  ExpectError(ErrorCode::kDataLoss, "holds no", [&] { OpenRecords(temp_.File("set")); });
}

TEST_P(EachBackend, ASetThatMayNotBeReadIsIoFailure) {
  const std::string path = Write(3);
  chmod(temp_.path().c_str(), 0755);
  chmod(path.c_str(), 0);
  {
    const testing::AsOrdinaryUser user;
    ExpectError(ErrorCode::kIoFailure, path, [&] { OpenRecords(path); });
  }
  chmod(path.c_str(), 0755);
}

INSTANTIATE_TEST_SUITE_P(Backends, EachBackend,
                         ::testing::Values(DataParameter::LMDB, DataParameter::LEVELDB,
                                           DataParameter::TAR),
                         [](const auto& param) { return DataParameter::DB_Name(param.param); });

TEST(OpenRecords, ErrorsSayWhatLiesThere) {
  const TempDir temp;
  ExpectError(ErrorCode::kNotFound, "there is no data set",
              [&] { OpenRecords(temp.File("none")); });
  ExpectError(ErrorCode::kDataLoss, "an ordinary file and no tar archive",
              [&] { OpenRecords(temp.Write("file", "text")); });
  fs::create_directory(temp.File("x"));
  temp.Write("x/data.mdb", "text");
  ExpectError(ErrorCode::kDataLoss,
              "is a file in an LMDB: name its folder, '" + temp.File("x") + "'",
              [&] { OpenRecords((fs::path(temp.File("x")) / "data.mdb").string()); });
  fs::create_directory(temp.File("train_lmdb"));
  ExpectError(ErrorCode::kDataLoss, "neither data.mdb (LMDB) nor CURRENT (LevelDB) nor .tar",
              [&] { OpenRecords(temp.File("train_lmdb")); });
  ExpectError(ErrorCode::kNotFound, "did you mean", [&] { OpenRecords(temp.File("train_lmbd")); });
}

TEST(Lmdb, TwoProcessesReadOneSet) {
  const TempDir temp;
  const std::string path = testing::WriteRecords(temp, DataParameter::LMDB, 4);
  const int code = InAnotherProcess([&] {
    const auto reader = OpenRecords(path);
    reader->Next();
    const int inner =
        InAnotherProcess([&] { return OpenRecords(path)->Next().key == "000000" ? 7 : 1; });
    return inner == 7 && reader->Next().key == "000001" ? 9 : 1;
  });
  EXPECT_EQ(code, 9);
  EXPECT_EQ(OpenRecords(path)->count(), 4U);
}

class LevelDb : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::CanWrite(DataParameter::LEVELDB, temp_)) GTEST_SKIP() << "not in this build";
  }
  std::string Write(int records) {
    return testing::WriteRecords(temp_, DataParameter::LEVELDB, records);
  }

  const TempDir temp_;
};

TEST_F(LevelDb, OnlyOneProcessMayOpenIt) {
  const std::string path = Write(3);
  // Another process that holds the lock like LevelDB.
  int ready[2];
  int done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    const int file = open((path + "/LOCK").c_str(), O_RDWR);
    char byte = fcntl(file, F_SETLK, &lock) == 0 ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  ExpectError(ErrorCode::kIoFailure, "is in use: a LevelDB can be open in one process only",
              [&] { OpenRecords(path); });
  ASSERT_EQ(write(done[1], &byte, 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(OpenRecords(path)->count(), 3U);
  for (const int end : {ready[0], ready[1], done[0], done[1]}) close(end);
}

TEST_F(LevelDb, AFolderThatCannotBeWrittenIsAnError) {
  const std::string path = Write(3);
  chmod(temp_.path().c_str(), 0755);
  chmod(path.c_str(), 0555);
  {
    const testing::AsOrdinaryUser user;
    ExpectError(ErrorCode::kIoFailure, "keeps its lock and log there", [&] { OpenRecords(path); });
  }
  chmod(path.c_str(), 0755);
}

TEST_F(LevelDb, DamageIsDataLoss) {
  const std::string path = Write(300);
  OpenRecords(path)->count();  // records go from the log into a table
  std::string table;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".ldb")
      table = fs::relative(entry.path(), temp_.path()).string();
  }
  ASSERT_NE(table, "");
  const std::string good = temp_.Read(table);
  std::string bytes = good;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  temp_.Write(table, bytes);
  ExpectError(ErrorCode::kDataLoss, "copy or write the data set again", [&] {
    const auto reader = OpenRecords(path);
    for (int n = 0; n < 300; ++n) reader->Next();
  });
  ExpectError(ErrorCode::kDataLoss, "counting its records", [&] { OpenRecords(path)->count(); });
  temp_.Write(table, good.substr(0, good.size() / 2));
  ExpectError(ErrorCode::kDataLoss, path, [&] { OpenRecords(path)->count(); });
  fs::remove(temp_.File(table));
  ExpectError(ErrorCode::kDataLoss, path, [&] { OpenRecords(path)->count(); });
  temp_.Write(fs::relative(path, temp_.path()).string() + "/CURRENT", "x");
  ExpectError(ErrorCode::kDataLoss, path, [&] { OpenRecords(path)->count(); });
}

// LevelDB itself continues after a damaged block, and reports it only at the end.
TEST_F(LevelDb, NoRecordIsPassedOverWhereABlockIsDamaged) {
  const std::string path = temp_.File("set");
  constexpr int kRecords = 600;
  const auto writer = CreateRecords(path, DataParameter::LEVELDB);
  for (int n = 0; n < kRecords; ++n) {
    writer->Put(
        NumberedKey(n),
        testing::EncodedDatum(std::string(2000, static_cast<char>(n)), n).SerializeAsString());
  }
  writer->Close();
  OpenRecords(path)->count();  // records go from the log into a table
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() != ".ldb") continue;
    std::string bytes = ReadFile(entry.path());
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    WriteFileAtomically(entry.path(), bytes);
  }
  const auto reader = OpenRecords(path);
  int next = 0;
  ExpectError(ErrorCode::kDataLoss, "copy or write the data set again", [&] {
    for (; next < kRecords; ++next) ASSERT_EQ(reader->Next().key, NumberedKey(next));
  });
  EXPECT_GT(next, 0);
  EXPECT_LT(next, kRecords - 1);
  const auto seeker = OpenRecords(path);
  seeker->Seek(static_cast<uint64_t>(next) - 1);
  EXPECT_EQ(seeker->Next().key, NumberedKey(next - 1));
  ExpectError(ErrorCode::kDataLoss, "copy or write the data set again",
              [&] { seeker->Seek(kRecords - 1); });
  const auto skipper = OpenRecords(path);
  ExpectError(ErrorCode::kDataLoss, "copy or write the data set again",
              [&] { skipper->Skip(kRecords - 1); });
}

TEST(LevelDbMissing, SaysWhatToDo) {
  const TempDir temp;
  if (testing::CanWrite(DataParameter::LEVELDB, temp)) GTEST_SKIP() << "this build has LevelDB";
  fs::create_directory(temp.File("level"));
  temp.Write("level/CURRENT", "MANIFEST-000004\n");
  ExpectError(ErrorCode::kUnsupported, "CREMA_LEVELDB=ON",
              [&] { OpenRecords(temp.File("level")); });
  ExpectError(ErrorCode::kUnsupported, "CREMA_LEVELDB=ON",
              [&] { CreateRecords(temp.File("new"), DataParameter::LEVELDB); });
}

}  // namespace
}  // namespace crema
