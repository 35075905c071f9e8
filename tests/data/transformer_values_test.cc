// Values of transform_param, derived by hand from Caffe's rules, for the transformer and the layers
// Data and ImageData: out = (pixel - mean) * scale. The crop begins at floor(spare / 2) in TEST,
// anywhere in TRAIN. A mean image is read at the place before cropping and mirroring. Mirroring is
// random in TEST, too.
#ifdef CREMA_HAVE_OPENCV
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/transform/transformer.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using testing::LayerRunner;

using Floats = std::vector<float>;

// 5 high, 4 wide: an odd number of spare rows for a crop of 2, an even one of columns. Pixel (y, x)
// of channel c is 60c + 10y + x, below 256 for three channels.
constexpr int kHeight = 5;
constexpr int kWidth = 4;
float Pixel(int c, int y, int x) { return static_cast<float>(60 * c + 10 * y + x); }

std::string PixelBytes(int channels) {
  std::string bytes;
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) bytes.push_back(static_cast<char>(Pixel(c, y, x)));
    }
  }
  return bytes;
}

Datum PixelDatum(int channels, bool floats) {
  Datum datum;
  datum.set_channels(channels);
  datum.set_height(kHeight);
  datum.set_width(kWidth);
  const std::string bytes = PixelBytes(channels);
  if (!floats) datum.set_data(bytes);
  for (const char c : bytes) {
    if (floats) datum.add_float_data(static_cast<float>(static_cast<uint8_t>(c)));
  }
  return datum;
}

cv::Mat Photo(int channels) {
  cv::Mat image(kHeight, kWidth, CV_8UC(channels));
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      for (int c = 0; c < channels; ++c) {
        image.ptr<uchar>(y)[x * channels + c] = static_cast<uchar>(Pixel(c, y, x));
      }
    }
  }
  return image;
}

// The mean of pixel (y, x) of channel c is 3c + 2y + x / 2.
std::string WriteMean(const TempDir& temp, int channels) {
  BlobProto blob;
  blob.set_num(1);
  blob.set_channels(channels);
  blob.set_height(kHeight);
  blob.set_width(kWidth);
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        blob.add_data(static_cast<float>(3 * c + 2 * y) + static_cast<float>(x) / 2);
      }
    }
  }
  return temp.Write("mean.binaryproto", blob.SerializeAsString());
}

// One way to pass the image to a net.
struct Way {
  std::string name;
  std::string text;  // the layer without transform_param
};

std::string WriteOne(const TempDir& temp, const std::string& name, const Datum& datum) {
  const auto writer = CreateRecords(temp.File(name), DataParameter::LMDB);
  writer->Put("key", datum.SerializeAsString());
  writer->Close();
  return temp.File(name);
}

// Raw bytes, floats, an image file in a record, and an image file of a list.
std::vector<Way> Ways(const TempDir& temp, int channels) {
  const auto data = [&](const std::string& name, const Datum& datum) {
    return Way{name, StrCat("name: 'd' type: 'Data' top: 'd' data_param { batch_size: 1 source: '",
                            WriteOne(temp, name, datum), "' }")};
  };
  const std::string png = testing::Encode(Photo(channels));
  const std::string list = temp.Write("list", temp.Write("a.png", png) + " 0");
  return {data("bytes", PixelDatum(channels, false)),
          data("floats", PixelDatum(channels, true)),
          data("encoded", testing::EncodedDatum(png, 0)),
          {"ImageData", StrCat("name: 'd' type: 'ImageData' top: 'd' image_data_param { "
                               "batch_size: 1 source: '",
                               list, "' is_color: ", channels == 3 ? "true" : "false", " }")}};
}

Floats OneBatch(const Way& way, const std::string& transform, Phase phase) {
  LayerRunner runner(TestRegistry(), StrCat(way.text, " transform_param { ", transform, " }"),
                     phase);
  return runner.Collect(0, 1);
}

void ExpectAllWays(int channels, const std::string& transform, const Floats& expected,
                   bool mean = false) {
  const TempDir temp;
  const std::string text =
      mean ? StrCat(transform, " mean_file: '", WriteMean(temp, channels), "'") : transform;
  for (const Way& way : Ways(temp, channels)) {
    EXPECT_EQ(OneBatch(way, text, TEST), expected) << way.name << ": " << transform;
  }
}

TEST(TransformerValues, TestCropsTheCentreWithSpareRowsRoundedDown) {
  // (5 - 2) / 2 = 1 and (4 - 2) / 2 = 1.
  ExpectAllWays(1, "crop_size: 2", {11, 12, 21, 22});
  ExpectAllWays(3, "crop_size: 2", {11, 12, 21, 22, 71, 72, 81, 82, 131, 132, 141, 142});
  // (5 - 3) / 2 = 1 and (4 - 3) / 2 = 0.
  ExpectAllWays(1, "crop_size: 3", {10, 11, 12, 20, 21, 22, 30, 31, 32});
}

TEST(TransformerValues, MeanValuesAndScale) {
  ExpectAllWays(1, "crop_size: 1 mean_value: 5 scale: 0.5", {(21 - 5) * 0.5f});
  // One for all, and one for each channel.
  ExpectAllWays(3, "crop_size: 1 mean_value: 5 scale: 0.5",
                {(21 - 5) * 0.5f, (81 - 5) * 0.5f, (141 - 5) * 0.5f});
  ExpectAllWays(3, "crop_size: 1 mean_value: 1 mean_value: 20 mean_value: 300 scale: 2",
                {(21 - 1) * 2.f, (81 - 20) * 2.f, (141 - 300) * 2.f});
}

TEST(TransformerValues, MeanImagesAreReadWhereTheCropIs) {
  // At (1..2, 1..2): means 2.5, 3, 4.5, 5, and 3 more for each channel.
  ExpectAllWays(1, "crop_size: 2 scale: 4", {34, 36, 66, 68}, true);
  ExpectAllWays(3, "crop_size: 2 scale: 4",
                {34, 36, 66, 68, 262, 264, 294, 296, 490, 492, 522, 524}, true);
}

TEST(TransformerValues, WithoutACropEverythingIsKept) {
  Floats expected;
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) expected.push_back((Pixel(c, y, x) - 10) * 0.25f);
    }
  }
  ExpectAllWays(3, "mean_value: 10 scale: 0.25", expected);
}

// Possible results of mirroring: the crop, or the mirrored crop with the means of its own pixels.
TEST(TransformerValues, MirroringTurnsTheOutputOverInBothPhases) {
  const Floats plain{34, 36, 66, 68};
  const Floats turned{36, 34, 68, 66};
  const TempDir temp;
  const std::string transform =
      StrCat("crop_size: 2 scale: 4 mirror: true mean_file: '", WriteMean(temp, 1), "'");
  for (const Way& way : Ways(temp, 1)) {
    LayerRunner runner(TestRegistry(), StrCat(way.text, " transform_param { ", transform, " }"),
                       TEST);
    std::set<Floats> seen;
    for (int n = 0; n < 40; ++n) seen.insert(runner.Collect(0, 1));
    EXPECT_EQ(seen, (std::set<Floats>{plain, turned})) << way.name;
  }
}

TEST(TransformerValues, TrainCropsBeginAnywhereAndKeepTheirPixelsTogether) {
  const TempDir temp;
  for (const Way& way : Ways(temp, 3)) {
    LayerRunner runner(TestRegistry(), way.text + " transform_param { crop_size: 3 }", TRAIN);
    std::set<float> corners;
    for (int n = 0; n < 120; ++n) {
      const Floats values = runner.Collect(0, 1);
      corners.insert(values[0]);
      for (int c = 0; c < 3; ++c) {
        for (int y = 0; y < 3; ++y) {
          for (int x = 0; x < 3; ++x) {
            EXPECT_EQ(values[static_cast<size_t>(9 * c + 3 * y + x)], values[0] + Pixel(c, y, x));
          }
        }
      }
    }
    // Rows 0, 1 and 2 of 5 - 3, columns 0 and 1 of 4 - 3.
    EXPECT_EQ(corners, (std::set<float>{0, 1, 10, 11, 20, 21})) << way.name;
  }
}

TEST(TransformerValues, ColourIsForcedOnImageFilesOnly) {
  const TempDir temp;
  const std::vector<Way> gray = Ways(temp, 1);
  const TempDir other;
  const std::vector<Way> colour = Ways(other, 3);
  const std::string crop = "crop_size: 1 ";
  // The gray of blue 21, green 81, red 141: 0.114 * 21 + 0.587 * 81 + 0.299 * 141 = 92.1.
  EXPECT_EQ(OneBatch(colour[2], crop + "force_gray: true", TEST), (Floats{92}));
  EXPECT_EQ(OneBatch(gray[2], crop + "force_color: true", TEST), (Floats{21, 21, 21}));
  EXPECT_EQ(OneBatch(gray[2], crop + "force_gray: true", TEST), (Floats{21}));
  for (const size_t raw : {0, 1}) {
    EXPECT_EQ(OneBatch(colour[raw], crop + "force_gray: true", TEST), (Floats{21, 81, 141}));
    EXPECT_EQ(OneBatch(gray[raw], crop + "force_color: true", TEST), (Floats{21}));
  }
}

TEST(TransformerValues, ImagesAreResizedBeforeTheyAreTransformed) {
  const TempDir temp;
  const std::string a = temp.Write("a.png", testing::Encode(testing::Flat(8, 6, 30)));
  const std::string list = temp.Write("list", a + " 0");
  LayerRunner runner(
      TestRegistry(),
      StrCat("name: 'd' type: 'ImageData' top: 'd' image_data_param { batch_size: 1 "
             "source: '",
             list, "' new_height: ", kHeight, " new_width: ", kWidth,
             " } transform_param { crop_size: 2 scale: 2 mean_file: '", WriteMean(temp, 3), "' }"),
      TEST);
  // The mean image is that of 5 x 4, so its place is that of the resized image.
  EXPECT_EQ(runner.Collect(0, 1), (Floats{55, 54, 51, 50, 49, 48, 45, 44, 43, 42, 39, 38}));
}

TEST(TransformerValues, DoublesAreTransformedAsFloatsAre) {
  const TempDir temp;
  for (const Way& way : Ways(temp, 1)) {
    LayerRunner runner(TestRegistry(),
                       way.text + " transform_param { crop_size: 2 mean_value: 1 scale: 0.1 }",
                       TEST, DType::kF64);
    const std::vector<double> values = runner.Collect<double>(0, 1);
    const Floats expected{1, 1.1f, 2, 2.1f};
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << way.name;
  }
}

}  // namespace
}  // namespace crema
#endif
