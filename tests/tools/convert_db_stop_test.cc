#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_HDF5)
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/record_sets.h"
#include "tools/convert_db.h"
#include "tools/stopped.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

// So many small records that the command is still busy when the test sees its first output.
class ConvertDbStopped : public ConvertDb {
 protected:
  void WriteMany(int records) {
    fs::remove_all(File("db"));
    const auto writer = CreateRecords(File("db"), DataParameter::LMDB);
    for (int i = 0; i < records; ++i) {
      writer->Put(RowKey(static_cast<uint64_t>(i)),
                  RawDatum(Pattern(8, 8, 1, i), i).SerializeAsString());
    }
    writer->Close();
  }
  std::vector<std::string> Command(const std::string& kind, const std::string& output = "out") {
    return {Bin("convert_db"),   "-j",       "1",         "--rows_per_file=50",
            "--backend=" + kind, File("db"), File(output)};
  }
  // Sends Ctrl-C once `begun` returns true.
  void Stop(const std::string& kind, const std::function<bool()>& begun) {
    ASSERT_EQ(StopInTheMiddle(temp_, Command(kind), File("out"), SIGINT, begun), 130)
        << temp_.Read("stderr");
    EXPECT_TRUE(fs::exists(File("out.unfinished")));
  }
  void ExpectRefusals(const std::string& kind) {
    EXPECT_TRUE(Contains(temp_.Read("stderr"), "--resume continues")) << temp_.Read("stderr");
    EXPECT_EQ(Run("db", "out", {"--backend=" + kind, "--rows_per_file=50"}).exit_code, 2);
    const auto refused = [&](const char* flag) {
      return Run("db", "out", {"--backend=" + kind, "--rows_per_file=50", flag, "--resume"});
    };
    EXPECT_EQ(refused("--rows_per_file=51").exit_code, 2);
    if (kind != "hdf5") return;  // others continue after the last key, whatever was skipped
    const ProcessResult skipping = refused("--on_bad=skip");
    EXPECT_EQ(skipping.exit_code, 2);
    EXPECT_TRUE(Contains(skipping.err, "on_bad")) << skipping.err;
  }
  void ExpectStartAgain() {
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{"--backend=tar"}, {"--backend=tar", "--resume"}}) {
      const ProcessResult again = Run("db", "out", flags);
      EXPECT_EQ(again.exit_code, 2);
      EXPECT_TRUE(Contains(again.err, "remove it and start again")) << again.err;
      EXPECT_FALSE(Contains(again.err, "--resume")) << again.err;
    }
  }
  void ResumeAndCompare(const std::string& kind) {
    ExpectRefusals(kind);
    Convert("db", "whole", {"--backend=" + kind});
    ExpectGoesOn(Command(kind), File("out"), ReadAll(File("whole")));
  }
};

TEST_F(ConvertDbStopped, AnLmdbGoesOn) {
  WriteMany(60000);
  Stop("lmdb", [&] { return HasCommitted(File("out")); });
  const size_t written = ReadAll(File("out")).size();
  EXPECT_GE(written, 1000U);
  EXPECT_LT(written, 60000U);
  ResumeAndCompare("lmdb");
}

TEST_F(ConvertDbStopped, ALevelDbGoesOn) {
  if (!testing::CanWrite(DataParameter::LEVELDB, temp_)) GTEST_SKIP() << "built without LevelDB";
  WriteMany(60000);
  Stop("leveldb", [&] { return HasBytes(File("out/000003.log"), 1); });
  EXPECT_LT(ReadAll(File("out")).size(), 60000U);
  ResumeAndCompare("leveldb");
}

TEST_F(ConvertDbStopped, Hdf5GoesOn) {
  constexpr uint64_t kRecords = 3025;
  WriteMany(kRecords);
  Stop("hdf5", [&] { return fs::exists(File("out/000001.h5")); });
  const uint64_t written = OpenHdf5Records(File("out"), {})->count();
  EXPECT_GE(written, 100U);
  EXPECT_LT(written, kRecords);
  // As if it had been killed while writing.
  temp_.Write("out/000059.h5.tmp.1", "half a file");
  fs::remove(File("out/list.txt"));
  ExpectRefusals("hdf5");
  Convert("db", "out", {"--backend=hdf5", "--rows_per_file=50", "--resume"});
  Convert("db", "whole", {"--backend=hdf5", "--rows_per_file=50"});
  for (uint64_t file = 0; file * 50 < kRecords; ++file) {
    const std::string name = StrCat("/", RowKey(file).substr(2), ".h5");
    ASSERT_EQ(temp_.Read("out" + name), temp_.Read("whole" + name)) << name;
  }
  EXPECT_EQ(Batches("out"), Batches("whole"));
  EXPECT_FALSE(fs::exists(File("out.unfinished")));
  EXPECT_FALSE(fs::exists(File("out/000059.h5.tmp.1")));
}

// HDF5 rows do not identify their records.
TEST_F(ConvertDbStopped, Hdf5WithoutTheBadRecordsCannotGoOn) {
  WriteMany(3025);
  std::vector<std::string> command = Command("hdf5");
  command.insert(command.begin() + 1, "--on_bad=skip");
  ASSERT_EQ(StopInTheMiddle(temp_, command, File("out"), SIGINT,
                            [&] { return fs::exists(File("out/000001.h5")); }),
            130);
  EXPECT_TRUE(Contains(temp_.Read("stderr"), "cannot be continued")) << temp_.Read("stderr");
  command.insert(command.begin() + 1, "--resume");
  const ProcessResult resumed = RunProcess(command);
  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_TRUE(Contains(resumed.err, "remove it and start again")) << resumed.err;
}

TEST_F(ConvertDbStopped, TarCannotGoOn) {
  WriteMany(60000);
  Stop("tar", [&] { return fs::exists(File("out")) && !fs::is_empty(File("out")); });
  EXPECT_TRUE(Contains(temp_.Read("stderr"), "cannot be continued")) << temp_.Read("stderr");
  EXPECT_GT(ReadAll(File("out")).size(), 0U);
  ExpectStartAgain();
}

TEST_F(ConvertDbStopped, KilledTarIsNotSaidToGoOn) {
  WriteMany(60000);
  ASSERT_EQ(StopInTheMiddle(temp_, Command("tar"), File("out"), SIGKILL,
                            [&] { return fs::exists(File("out")) && !fs::is_empty(File("out")); }),
            128 + SIGKILL);
  ExpectStartAgain();
  WriteMany(10);
  fs::remove_all(File("out"));
  Convert("db", "out", {"--backend=tar"});
  EXPECT_FALSE(fs::exists(File("out.unfinished")));
}

// The incomplete archive has another name, so that it is not mistaken for data.
TEST_F(ConvertDbStopped, RemainsOfAKilledArchiveAreRemoved) {
  const auto halves = [&] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(temp_.path())) {
      count += entry.path().filename().string().starts_with("out.tar.tmp.") ? 1 : 0;
    }
    return count;
  };
  WriteMany(60000);
  ASSERT_EQ(StopInTheMiddle(temp_, Command("tar", "out.tar"), File("out.tar"), SIGKILL,
                            [&] { return halves() > 0; }),
            128 + SIGKILL);
  EXPECT_EQ(halves(), 1);
  const std::string running = StrCat("out.tar.tmp.", HostName(), ".", ::getppid());
  temp_.Write(running, "of a command that is busy");
  WriteMany(10);
  Convert("db", "out.tar", {"--backend=tar"});
  EXPECT_EQ(halves(), 1);
  EXPECT_TRUE(fs::exists(File(running)));
  EXPECT_EQ(ReadAll(File("out.tar")).size(), 10U);
}

// Whatever the second command does, the data set of the first is unaffected.
TEST_F(ConvertDbStopped, TwoThatWriteOneSetAreKeptApart) {
  WriteMany(20000);
  for (const char* kind : {"lmdb", "leveldb", "hdf5", "tar", "out.tar"}) {
    if (std::string(kind) == "leveldb" && !testing::CanWrite(DataParameter::LEVELDB, temp_)) {
      continue;
    }
    const bool archive = std::string(kind) == "out.tar";
    const std::string output = StrCat(kind, "_two", archive ? ".tar" : "");
    std::vector<std::string> command = Command(archive ? "tar" : kind, output);
    Process first(command, "", File("stdout"), File("stderr"));
    while (!HasBytes(File(output + ".unfinished"), 1) && first.IsRunning()) {
    }
    first.Signal(SIGSTOP);
    ASSERT_TRUE(fs::exists(File(output + ".unfinished"))) << temp_.Read("stderr");
    for (const bool resume : {false, true}) {
      if (resume) command.insert(command.begin() + 1, "--resume");
      const ProcessResult second = RunProcess(command);
      EXPECT_EQ(second.exit_code, 3) << kind << second.err;
      EXPECT_TRUE(Contains(second.err, "another process is writing '" + File(output)))
          << second.err;
    }
    first.Signal(SIGCONT);
    EXPECT_EQ(first.Wait(), 0) << temp_.Read("stderr");
    EXPECT_FALSE(fs::exists(File(output + ".unfinished")));
  }
}

// A killed process holds no lock.
TEST_F(ConvertDbStopped, AMarkThatNobodyHoldsKeepsNobodyOff) {
  WriteMany(10);
  temp_.Write("out.unfinished", "");
  Convert("db", "out");
  EXPECT_FALSE(fs::exists(File("out.unfinished")));
}

}  // namespace
}  // namespace crema::test
#endif
