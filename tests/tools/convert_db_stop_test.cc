#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_HDF5)
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "core/strings.h"
#include "data/record_sets.h"
#include "tools/convert_db.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

// Small records, so many that the command is still busy when the test sees its first output.
class ConvertDbStopped : public ConvertDb {
 protected:
  void WriteMany(int records) {
    const auto writer = CreateRecords(File("db"), DataParameter::LMDB);
    for (int i = 0; i < records; ++i) {
      writer->Put(RowKey(static_cast<uint64_t>(i)),
                  RawDatum(Pattern(8, 8, 1, i), i).SerializeAsString());
    }
    writer->Close();
  }
  // Sends Ctrl-C once `begun` says so; again, where the command was done before that.
  void Stop(const std::string& kind, const std::function<bool()>& begun) {
    int exit_code = 0;
    for (int attempt = 0; attempt < 10 && exit_code == 0; ++attempt) {
      fs::remove_all(File("out"));
      Process process({Bin("convert_db"), "-j", "1", "--rows_per_file=50", "--backend=" + kind,
                       File("db"), File("out")},
                      "", File("stdout"), File("stderr"));
      while (!begun() && process.IsRunning()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      process.Signal(SIGINT);
      exit_code = process.Wait();
    }
    ASSERT_EQ(exit_code, 130) << temp_.Read("stderr");
    EXPECT_TRUE(fs::exists(File("out.unfinished")));
  }
  void ResumeAndCompare(const std::string& kind, uint64_t records) {
    EXPECT_TRUE(Contains(temp_.Read("stderr"), "--resume goes on")) << temp_.Read("stderr");
    EXPECT_EQ(Run("db", "out", {"--backend=" + kind, "--rows_per_file=50"}).exit_code, 2);
    EXPECT_EQ(Run("db", "out", {"--backend=" + kind, "--rows_per_file=51", "--resume"}).exit_code,
              2);
    Convert("db", "out", {"--backend=" + kind, "--rows_per_file=50", "--resume"});
    Convert("db", "whole", {"--backend=" + kind, "--rows_per_file=50"});
    if (kind == "hdf5") {
      for (uint64_t file = 0; file * 50 < records; ++file) {
        const std::string name = StrCat("/", RowKey(file).substr(2), ".h5");
        ASSERT_EQ(temp_.Read("out" + name), temp_.Read("whole" + name)) << name;
      }
      EXPECT_EQ(Batches("out"), Batches("whole"));
    } else {
      EXPECT_EQ(ReadAll(File("out")), ReadAll(File("whole")));
    }
    EXPECT_FALSE(fs::exists(File("out.unfinished")));
    const ProcessResult again =
        Run("db", "out", {"--backend=" + kind, "--rows_per_file=50", "--resume"});
    EXPECT_TRUE(Contains(again.out, "complete already")) << again.out << again.err;
  }
};

TEST_F(ConvertDbStopped, AnLmdbGoesOn) {
  WriteMany(60000);
  Stop("lmdb", [&] {
    std::error_code ignored;
    return fs::exists(File("out/data.mdb"), ignored) &&
           fs::file_size(File("out/data.mdb"), ignored) > 200000;
  });
  const size_t written = ReadAll(File("out")).size();
  EXPECT_GE(written, 1000U);
  EXPECT_LT(written, 60000U);
  ResumeAndCompare("lmdb", 60000);
}

TEST_F(ConvertDbStopped, ALevelDbGoesOn) {
  if (!testing::CanWrite(DataParameter::LEVELDB, temp_)) GTEST_SKIP() << "built without LevelDB";
  WriteMany(60000);
  Stop("leveldb", [&] {
    std::error_code ignored;
    return fs::file_size(File("out/000003.log"), ignored) > 0 && !ignored;
  });
  EXPECT_LT(ReadAll(File("out")).size(), 60000U);
  ResumeAndCompare("leveldb", 60000);
}

TEST_F(ConvertDbStopped, Hdf5GoesOn) {
  constexpr uint64_t kRecords = 3025;
  WriteMany(kRecords);
  Stop("hdf5", [&] { return fs::exists(File("out/000001.h5")); });
  const uint64_t written = OpenHdf5Records(File("out"), {})->count();
  EXPECT_GE(written, 100U);
  EXPECT_LT(written, kRecords);
  // As if it had been killed while it wrote.
  temp_.Write("out/000059.h5.tmp.1", "half a file");
  fs::remove(File("out/list.txt"));
  ResumeAndCompare("hdf5", kRecords);
  EXPECT_FALSE(fs::exists(File("out/000059.h5.tmp.1")));
}

TEST_F(ConvertDbStopped, TarCannotGoOn) {
  WriteMany(60000);
  Stop("tar", [&] { return fs::exists(File("out")) && !fs::is_empty(File("out")); });
  EXPECT_TRUE(Contains(temp_.Read("stderr"), "cannot be continued")) << temp_.Read("stderr");
  EXPECT_GT(ReadAll(File("out")).size(), 0U);
  const ProcessResult resumed =
      Run("db", "out", {"--backend=tar", "--rows_per_file=50", "--resume"});
  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_TRUE(Contains(resumed.err, "remove it and start again")) << resumed.err;
}

}  // namespace
}  // namespace crema::test
#endif
