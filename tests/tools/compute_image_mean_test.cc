#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

Image Flat(int height, int width, std::vector<uint8_t> channels) {
  Image image{.channels = static_cast<int>(channels.size()),
              .height = height,
              .width = width,
              .pixels = {}};
  for (const uint8_t value : channels) {
    image.pixels.insert(image.pixels.end(), static_cast<size_t>(height * width), value);
  }
  return image;
}

BlobProto ReadMean(const std::string& path) {
  BlobProto mean;
  EXPECT_TRUE(mean.ParseFromString(ReadFile(path)));
  return mean;
}

TEST(ComputeImageMean, TheMeanOfEachPixel) {
  const TempDir temp;
  const Image a = Pattern(2, 3, 2);
  const Image b = Pattern(2, 3, 2, 7);
  const Image c = Pattern(2, 3, 2, 100);
  WriteSet(temp.File("db"), std::vector<Datum>{RawDatum(a, 0), RawDatum(b, 1), RawDatum(c, 0)});
  const ProcessResult result =
      RunTool("compute_image_mean", {"--backend=lmdb", temp.File("db"), temp.File("mean")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const BlobProto mean = ReadMean(temp.File("mean"));
  EXPECT_EQ(mean.num(), 1);
  EXPECT_EQ(mean.channels(), 2);
  EXPECT_EQ(mean.height(), 2);
  EXPECT_EQ(mean.width(), 3);
  ASSERT_EQ(mean.data_size(), 12);
  for (int i = 0; i < 12; ++i) {
    const auto at = static_cast<size_t>(i);
    const double expected = (a.pixels[at] + b.pixels[at] + c.pixels[at]) / 3.0;
    EXPECT_FLOAT_EQ(mean.data(i), static_cast<float>(expected));
  }
  EXPECT_TRUE(Contains(result.out, "3 images of 2x2x3")) << result.out;
}

TEST(ComputeImageMean, ChannelsByHand) {
  const TempDir temp;
  WriteSet(temp.File("db"), std::vector<Datum>{RawDatum(Flat(2, 2, {10, 0, 255}), 0),
                                               RawDatum(Flat(2, 2, {20, 0, 254}), 0)});
  const ProcessResult result = RunTool("compute_image_mean", {temp.File("db")});
  EXPECT_EQ(result.out,
            "2 images of 3x2x2\n"
            "mean_value channel [0]: 15\nmean_value channel [1]: 0\n"
            "mean_value channel [2]: 254.5\n"
            "std channel [0]: 5\nstd channel [1]: 0\nstd channel [2]: 0.5\n"
            "transform_param { mean_value: 15 mean_value: 0 mean_value: 254.5 }\n");
}

// Floats cannot add 1 to 2^24.
TEST(ComputeImageMean, ManyImagesAreExact) {
  const TempDir temp;
  std::vector<Datum> set(70000, RawDatum(Flat(1, 1, {251}), 0));
  set[7] = RawDatum(Flat(1, 1, {250}), 0);
  WriteSet(temp.File("db"), set);
  const ProcessResult result =
      RunTool("compute_image_mean", {"-j", "2", temp.File("db"), temp.File("mean")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ReadMean(temp.File("mean")).data(0), static_cast<float>(251 - 1.0 / 70000));
}

TEST(ComputeImageMean, SizesThatDiffer) {
  const TempDir temp;
  WriteSet(temp.File("db"),
           std::vector<Datum>{RawDatum(Flat(2, 2, {10}), 0), RawDatum(Flat(1, 4, {40}), 0),
                              RawDatum(Flat(2, 1, {70}), 0)});
  const ProcessResult refused = RunTool("compute_image_mean", {temp.File("db"), temp.File("mean")});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_TRUE(Contains(refused.err, "00000001")) << refused.err;
  EXPECT_TRUE(Contains(refused.err, "1x1x4")) << refused.err;
  EXPECT_TRUE(Contains(refused.err, "--channels_only")) << refused.err;
  EXPECT_EQ(temp.FileCount(), 1U);
  const ProcessResult channels =
      RunTool("compute_image_mean", {"--channels_only", temp.File("db")});
  EXPECT_EQ(channels.exit_code, 0) << channels.err;
  EXPECT_TRUE(Contains(channels.out, "3 images\nmean_value channel [0]: 34\n")) << channels.out;
  EXPECT_EQ(RunTool("compute_image_mean", {"--channels_only", temp.File("db"), temp.File("mean")})
                .exit_code,
            2);
}

TEST(ComputeImageMean, FloatsAndAnnotatedImages) {
  const TempDir temp;
  Datum floats;
  floats.set_channels(1);
  floats.set_height(1);
  floats.set_width(2);
  floats.add_float_data(-0.5F);
  floats.add_float_data(2.5F);
  WriteSet(temp.File("floats"), std::vector<Datum>{floats});
  EXPECT_TRUE(Contains(RunTool("compute_image_mean", {temp.File("floats")}).out,
                       "mean_value channel [0]: 1\nstd channel [0]: 1.5\n"
                       "transform_param { mean_value: 1 }\n"));
  AnnotatedDatum annotated;
  *annotated.mutable_datum() = RawDatum(Flat(2, 2, {9}), 0);
  WriteSet(temp.File("boxes"), std::vector<AnnotatedDatum>{annotated});
  EXPECT_TRUE(Contains(RunTool("compute_image_mean", {temp.File("boxes")}).out,
                       "mean_value channel [0]: 9\n"));
}

TEST(ComputeImageMean, BrokenRecordsAndUsage) {
  const TempDir temp;
  Datum broken = RawDatum(Flat(2, 2, {10}), 0);
  broken.set_data("123");
  WriteSet(temp.File("db"), std::vector<Datum>{broken});
  const ProcessResult result = RunTool("compute_image_mean", {temp.File("db")});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.err, "00000000")) << result.err;
  EXPECT_EQ(RunTool("compute_image_mean", {}).exit_code, 2);
  EXPECT_EQ(RunTool("compute_image_mean", {temp.File("none")}).exit_code, 2);
}

// The data set, which may take minutes, is damaged but was not read.
TEST(ComputeImageMean, TheOutputIsLookedAtFirst) {
  const TempDir temp;
  Datum broken = RawDatum(Flat(2, 2, {10}), 0);
  broken.set_data("123");
  WriteSet(temp.File("db"), std::vector<Datum>{broken});
  const ProcessResult missing =
      RunTool("compute_image_mean", {temp.File("db"), temp.File("no/mean")});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_TRUE(Contains(missing.err, "does not exist; create it first")) << missing.err;
  const ProcessResult folder = RunTool("compute_image_mean", {temp.File("db"), temp.path()});
  EXPECT_EQ(folder.exit_code, 3);
  EXPECT_TRUE(Contains(folder.err, "it is a folder or a device")) << folder.err;
  temp.Write("mean", "\x08of before");
  EXPECT_TRUE(Contains(RunTool("compute_image_mean", {temp.File("db"), temp.File("mean")}).err,
                       "00000000"));
  EXPECT_EQ(temp.Read("mean"), "\x08of before");
  EXPECT_EQ(temp.FileCount(), 2U);
}

#ifdef CREMA_HAVE_OPENCV
TEST(ComputeImageMean, EncodedImagesAreDecoded) {
  const TempDir temp;
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(Png(Flat(3, 3, {1, 2, 3})));
  WriteSet(temp.File("db"), std::vector<Datum>{datum});
  EXPECT_TRUE(Contains(RunTool("compute_image_mean", {temp.File("db")}).out,
                       "mean_value channel [0]: 1\nmean_value channel [1]: 2\n"
                       "mean_value channel [2]: 3\n"));
}
#endif

}  // namespace
}  // namespace crema::test
