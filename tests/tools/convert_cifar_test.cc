#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

std::string PixelsOf(int seed) {
  std::string pixels(3072, '\0');
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<char>(static_cast<size_t>(seed) * 31 + i);
  }
  return pixels;
}

// Images first..first+count-1, each with its label bytes.
std::string CifarBatch(int first, int count, bool coarse = false) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    if (coarse) bytes += static_cast<char>(i % 20);
    bytes += static_cast<char>(coarse ? i % 100 : i % 10);
    bytes += PixelsOf(i);
  }
  return bytes;
}

TEST(ConvertCifar, Cifar10AsCaffeWritesIt) {
  const TempDir temp;
  for (int i = 0; i < 5; ++i) {
    temp.Write(StrCat("data_batch_", i + 1, ".bin"), CifarBatch(10 * i, 10));
  }
  temp.Write("test_batch.bin", CifarBatch(70, 5));
  const ProcessResult result =
      RunTool("convert_cifar", {temp.path(), temp.File("new/out"), "lmdb"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Records train = ReadAll(temp.File("new/out/cifar10_train_lmdb"));
  ASSERT_EQ(train.size(), 50U);
  EXPECT_EQ(train[37].first, "00037");
  const Datum datum = ParseDatum(train[37].second);
  EXPECT_EQ(datum.label(), 7);
  EXPECT_EQ(datum.channels(), 3);
  EXPECT_EQ(datum.height(), 32);
  EXPECT_EQ(datum.width(), 32);
  EXPECT_EQ(datum.data(), PixelsOf(37)) << "in the order of the file";
  EXPECT_EQ(ReadAll(temp.File("new/out/cifar10_test_lmdb")).size(), 5U);
  EXPECT_EQ(RunTool("convert_cifar", {temp.path(), temp.File("new/out")}).exit_code, 2);
  EXPECT_EQ(RunTool("convert_cifar", {"--resume", temp.path(), temp.File("new/out")}).exit_code, 0);
}

// From the files of data/cifar10/get.sh to a training, without editing anything.
TEST(ConvertCifar, TheNetsOfCifar10ReadWhatItWrites) {
  const TempDir temp;
  fs::create_directories(temp.File("batches"));
  for (int i = 1; i <= 5; ++i) {
    temp.Write(StrCat("batches/data_batch_", i, ".bin"), CifarBatch(0, 40));
  }
  temp.Write("batches/test_batch.bin", CifarBatch(0, 100));
  fs::create_directories(temp.File("build"));
  ASSERT_EQ(RunTool("convert_cifar", {temp.File("batches"), temp.File("build/data")}).exit_code, 0);
  for (const std::string model : {"models/cifar10_quick", "models/cifar10_full"}) {
    fs::create_directories(temp.File("models"));
    fs::copy(fs::path(CREMA_SOURCE_DIR) / model, temp.File(model), fs::copy_options::recursive);
    const ProcessResult result = RunProcess(
        {Bin("check"), "--threads=1", StrCat("--solver=", model, "/solver.prototxt")}, temp.path());
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_TRUE(Contains(result.out, "100 samples of 200 in batches of 100")) << result.out;
  }
}

TEST(ConvertCifar, Cifar100HasTwoLabels) {
  const TempDir temp;
  temp.Write("train.bin", CifarBatch(0, 90, true));
  temp.Write("test.bin", CifarBatch(30, 5, true));
  ASSERT_EQ(RunTool("convert_cifar", {temp.path(), temp.File("fine")}).exit_code, 0);
  ASSERT_EQ(
      RunTool("convert_cifar", {"--labels=coarse", temp.path(), temp.File("coarse")}).exit_code, 0);
  const Records fine = ReadAll(temp.File("fine/cifar100_train_lmdb"));
  const Records coarse = ReadAll(temp.File("coarse/cifar100_train_lmdb"));
  EXPECT_EQ(ParseDatum(fine[85].second).label(), 85);
  EXPECT_EQ(ParseDatum(coarse[85].second).label(), 5);
  EXPECT_EQ(ParseDatum(coarse[85].second).data(), PixelsOf(85));
  EXPECT_EQ(RunTool("convert_cifar", {"--labels=all", temp.path(), temp.File("x")}).exit_code, 2);
}

TEST(ConvertCifar, RefusesOtherFiles) {
  const TempDir temp;
  const ProcessResult nothing = RunTool("convert_cifar", {temp.path(), temp.File("out")});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_TRUE(Contains(nothing.err, "test_batch.bin")) << nothing.err;
  for (int i = 0; i < 5; ++i) temp.Write(StrCat("data_batch_", i + 1, ".bin"), CifarBatch(0, 2));
  temp.Write("test_batch.bin", CifarBatch(0, 1));
  temp.Write("data_batch_4.bin", CifarBatch(0, 2).substr(1));
  const ProcessResult cut = RunTool("convert_cifar", {temp.path(), temp.File("out")});
  EXPECT_EQ(cut.exit_code, 3);
  EXPECT_TRUE(Contains(cut.err, "data_batch_4.bin' has 6145 bytes")) << cut.err;
  EXPECT_FALSE(fs::exists(temp.File("out/cifar10_train_lmdb")));
  EXPECT_EQ(RunTool("convert_cifar", {temp.path(), temp.File("out"), "lmbd"}).exit_code, 2);
  fs::remove(temp.File("data_batch_1.bin"));
  ASSERT_EQ(mkfifo(temp.File("data_batch_1.bin").c_str(), 0600), 0);
  const ProcessResult pipe = RunTool("convert_cifar", {temp.path(), temp.File("out")});
  EXPECT_EQ(pipe.exit_code, 3);
  EXPECT_TRUE(Contains(pipe.err, "data_batch_1.bin: is a pipe or a device")) << pipe.err;
}

}  // namespace
}  // namespace crema::test
