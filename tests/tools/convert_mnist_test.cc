#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/record_sets.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

std::string Images(uint32_t count) {
  std::string bytes = BigEndian(2051) + BigEndian(count) + BigEndian(2) + BigEndian(3);
  for (uint32_t i = 0; i < 6 * count; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string LabelFile(uint32_t count) {
  std::string bytes = BigEndian(2049) + BigEndian(count);
  for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

void WriteGzip(const std::string& path, const std::string& bytes) {
  gzFile_s* file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

TEST(ConvertMnist, WritesTheImagesInOrder) {
  const TempDir temp;
  WriteGzip(temp.File("images.gz"), Images(25));
  temp.Write("labels", LabelFile(25));
  const ProcessResult result = RunTool("convert_mnist", {"--backend=lmdb", temp.File("images.gz"),
                                                         temp.File("labels"), temp.File("db")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, StrCat("Wrote 25 images of 2x3 to ", temp.File("db"), "\n"));
  const Records records = ReadAll(temp.File("db"));
  EXPECT_EQ(records[24].first, "00000024");
  const Datum datum = ParseDatum(records[24].second);
  EXPECT_EQ(datum.channels(), 1);
  EXPECT_EQ(datum.height(), 2);
  EXPECT_EQ(datum.width(), 3);
  EXPECT_EQ(datum.label(), 4);
  EXPECT_EQ(datum.data(), Images(25).substr(16 + 24 * 6));
}

TEST(ConvertMnist, DamagedFilesLeaveNothing) {
  const TempDir temp;
  temp.Write("images", Images(25).substr(0, 100));
  temp.Write("labels", LabelFile(25));
  const ProcessResult result =
      RunTool("convert_mnist", {temp.File("images"), temp.File("labels"), temp.File("db")});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.err, "cut short")) << result.err;
  EXPECT_EQ(temp.FileCount(), 2U);
}

TEST(ConvertMnist, PipesAreNotWaitedFor) {
  const TempDir temp;
  ASSERT_EQ(mkfifo(temp.File("images").c_str(), 0600), 0);
  temp.Write("labels", LabelFile(25));
  const ProcessResult result =
      RunProcess({"/usr/bin/timeout", "20", Bin("convert_mnist"), temp.File("images"),
                  temp.File("labels"), temp.File("db")});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.err, "images: is a pipe or a device")) << result.err;
}

TEST(ConvertMnist, ResumesAfterTheLastKey) {
  const TempDir temp;
  temp.Write("images", Images(25));
  temp.Write("labels", LabelFile(25));
  const std::vector<std::string> command = {"--resume", temp.File("images"), temp.File("labels"),
                                            temp.File("db")};
  ASSERT_EQ(RunTool("convert_mnist", command).exit_code, 0);
  const Records whole = ReadAll(temp.File("db"));
  fs::remove_all(temp.File("db"));
  std::vector<Datum> first;
  for (size_t i = 0; i < 7; ++i) first.push_back(ParseDatum(whole[i].second));
  WriteSet(temp.File("db"), first);
  temp.Write("db.unfinished", StrCat("images: ", temp.File("images"),
                                     "\nlabels: ", temp.File("labels"), "\nbackend: lmdb\n"));
  const ProcessResult result = RunTool("convert_mnist", command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "Wrote 18 images")) << result.out;
  EXPECT_EQ(ReadAll(temp.File("db")), whole);
}

// Image i has six pixels of 10 + i % 5 and the label i % 5.
void WriteMnist(const TempDir& temp, uint32_t count) {
  std::string images = BigEndian(2051) + BigEndian(count) + BigEndian(2) + BigEndian(3);
  std::string labels = BigEndian(2049) + BigEndian(count);
  for (uint32_t i = 0; i < count; ++i) {
    images += std::string(6, static_cast<char>(10 + i % 5));
    labels += static_cast<char>(i % 5);
  }
  temp.Write("images", images);
  temp.Write("labels", labels);
}

TEST(ConvertMnist, ByItsNamesInCaffeTakesCaffesArguments) {
  const TempDir temp;
  WriteMnist(temp, 7);
  const auto run = [&](const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), CREMA_BIN_DIR "/../caffe-tools/" + name);
    return RunProcess(arguments, temp.path());
  };
  const ProcessResult result =
      run("convert_mnist_data.bin", {"images", "labels", "db", "--backend=lmdb"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ReadAll(temp.File("db")).size(), 7U);
  EXPECT_EQ(run("convert_mnist_data", {"images"}).exit_code, 1);
  if (!testing::CanWrite(DataParameter::LEVELDB, temp)) GTEST_SKIP() << "no LevelDB here";
  const ProcessResult pairs = run("convert_mnist_siamese_data", {"images", "labels", "pairs"});
  ASSERT_EQ(pairs.exit_code, 0) << pairs.err;
  EXPECT_TRUE(fs::exists(temp.File("pairs/CURRENT"))) << "LevelDB";
  EXPECT_EQ(ParseDatum(ReadAll(temp.File("pairs"))[0].second).channels(), 2);
}

TEST(ConvertMnist, PairsAreOfOneClassIfTheirLabelIsOne) {
  const TempDir temp;
  WriteMnist(temp, 100);
  ASSERT_EQ(RunTool("convert_mnist",
                    {"--pairs", temp.File("images"), temp.File("labels"), temp.File("db")})
                .exit_code,
            0);
  const Records records = ReadAll(temp.File("db"));
  ASSERT_EQ(records.size(), 100U);
  EXPECT_EQ(records[99].first, "00000099");
  int equal = 0;
  for (const auto& [key, value] : records) {
    const Datum datum = ParseDatum(value);
    ASSERT_EQ(datum.channels() * 100 + datum.height() * 10 + datum.width(), 223);
    ASSERT_EQ(datum.data().size(), 12U);
    EXPECT_EQ(datum.label(), datum.data()[0] == datum.data()[6] ? 1 : 0);
    EXPECT_EQ(datum.data()[0], datum.data()[5]);
    equal += datum.label();
  }
  EXPECT_GT(equal, 5);
  EXPECT_LT(equal, 45);
}

TEST(ConvertMnist, PairsDependOnTheSeedAlone) {
  const TempDir temp;
  WriteMnist(temp, 20);
  const auto pairs = [&](const std::string& name, std::vector<std::string> flags) {
    flags.insert(flags.begin(), "--pairs");
    for (const char* file : {"images", "labels"}) flags.push_back(temp.File(file));
    flags.push_back(temp.File(name));
    EXPECT_EQ(RunTool("convert_mnist", flags).exit_code, 0);
    return ReadAll(temp.File(name));
  };
  const Records first = pairs("a", {});
  EXPECT_EQ(first, pairs("b", {}));
  EXPECT_NE(first, pairs("c", {"--seed=2"}));
  EXPECT_TRUE(Contains(
      RunTool("convert_mnist", {"--seed=2", temp.File("images"), temp.File("labels"), "x"}).err,
      "--seed chooses pairs: give --pairs, too"));
}

TEST(ConvertMnist, PairsAreResumed) {
  const TempDir temp;
  WriteMnist(temp, 20);
  const std::vector<std::string> command = {"--pairs", "--resume", temp.File("images"),
                                            temp.File("labels"), temp.File("db")};
  ASSERT_EQ(RunTool("convert_mnist", command).exit_code, 0);
  const Records whole = ReadAll(temp.File("db"));
  fs::remove_all(temp.File("db"));
  std::vector<Datum> first;
  for (size_t i = 0; i < 7; ++i) first.push_back(ParseDatum(whole[i].second));
  WriteSet(temp.File("db"), first);
  temp.Write("db.unfinished", StrCat("images: ", temp.File("images"), "\nlabels: ",
                                     temp.File("labels"), "\nbackend: lmdb\npairs of seed: 1\n"));
  const ProcessResult result = RunTool("convert_mnist", command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "Wrote 13 pairs")) << result.out;
  EXPECT_EQ(ReadAll(temp.File("db")), whole);
}

// The whole way of models/siamese with shipped tools.
TEST(ConvertMnist, ModelsSiameseReadsItsPairs) {
  const TempDir temp;
  constexpr uint32_t kCount = 200;
  std::string images = BigEndian(2051) + BigEndian(kCount) + BigEndian(28) + BigEndian(28);
  std::string labels = BigEndian(2049) + BigEndian(kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    images += std::string(784, static_cast<char>(20 * (i % 10)));
    labels += static_cast<char>(i % 10);
  }
  temp.Write("images", images);
  temp.Write("labels", labels);
  fs::create_directories(temp.File("build/data"));
  for (const std::string part : {"train", "test"}) {
    ASSERT_EQ(RunTool("convert_mnist", {"--pairs", temp.File("images"), temp.File("labels"),
                                        temp.File("build/data/mnist_pairs_" + part + "_lmdb")})
                  .exit_code,
              0);
  }
  fs::create_directories(temp.File("models"));
  fs::copy(fs::path(CREMA_SOURCE_DIR) / "models/siamese", temp.File("models/siamese"));
  const ProcessResult check = RunProcess(
      {Bin("check"), "--threads=1", "--solver=models/siamese/solver.prototxt"}, temp.path());
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
}

}  // namespace
}  // namespace crema::test
