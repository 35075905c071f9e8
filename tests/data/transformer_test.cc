// transform_param, applied to a 2 x 3 x 4 image with pixel (c, y, x) = 100c + 10y + x.
#include "data/transform/transformer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/parse_message.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::ExpectError;
using testing::Parse;

constexpr int kChannels = 2;
constexpr int kDatumHeight = 3;
constexpr int kDatumWidth = 4;

std::vector<uint8_t> Pixels() {
  std::vector<uint8_t> pixels;
  for (int c = 0; c < kChannels; ++c) {
    for (int y = 0; y < kDatumHeight; ++y) {
      for (int x = 0; x < kDatumWidth; ++x) {
        pixels.push_back(static_cast<uint8_t>(100 * c + 10 * y + x));
      }
    }
  }
  return pixels;
}

template <typename T = float>
std::vector<T> Transform(const TransformationParameter& param, Phase phase, uint64_t ordinal = 0) {
  const std::vector<uint8_t> pixels = Pixels();
  const PixelView view{kChannels, kDatumHeight, kDatumWidth, pixels.data(), nullptr};
  const Transformer transformer(param, phase, "data");
  EXPECT_FALSE(transformer.FindMisfit(view.shape()));
  std::vector<T> out(static_cast<size_t>(transformer.OutputShape(view.shape()).count()));
  transformer.Apply(view, Transformer::SampleStream(1, 2, ordinal), out.data());
  return out;
}

std::string WriteMean(const TempDir& temp, const BlobProto& blob) {
  return temp.Write("mean.binaryproto", blob.SerializeAsString());
}

// A mean image whose value at (c, y, x) is `base` + 7c + 3y + 5x.
BlobProto Mean(float base) {
  BlobProto blob;
  blob.set_num(1);
  blob.set_channels(kChannels);
  blob.set_height(kDatumHeight);
  blob.set_width(kDatumWidth);
  for (int c = 0; c < kChannels; ++c) {
    for (int y = 0; y < kDatumHeight; ++y) {
      for (int x = 0; x < kDatumWidth; ++x) {
        blob.add_data(base + static_cast<float>(7 * c + 3 * y + 5 * x));
      }
    }
  }
  return blob;
}

TEST(Transformer, WithoutParametersPixelsBecomeNumbers) {
  const std::vector<uint8_t> pixels = Pixels();
  EXPECT_EQ(Transform({}, TRAIN), std::vector<float>(pixels.begin(), pixels.end()));
  EXPECT_EQ(Transform<double>({}, TEST), std::vector<double>(pixels.begin(), pixels.end()));
}

TEST(Transformer, FloatsAreTransformedLikeBytes) {
  const std::vector<float> floats{-1.5f, 2, 300, 4};
  const PixelView view{1, 2, 2, nullptr, floats.data()};
  const Transformer transformer(Parse<TransformationParameter>("scale: 2 mean_value: 1"), TEST,
                                "data");
  std::vector<float> out(4);
  transformer.Apply(view, Transformer::SampleStream(1, 2, 0), out.data());
  EXPECT_EQ(out, (std::vector<float>{-5, 2, 598, 6}));
}

TEST(Transformer, MeanIsSubtractedBeforeScaling) {
  const std::vector<float> out =
      Transform(Parse<TransformationParameter>("scale: 0.5 mean_value: 10"), TRAIN);
  EXPECT_EQ(out[0], (0 - 10) * 0.5f);
  EXPECT_EQ(out[23], (123 - 10) * 0.5f);
}

TEST(Transformer, OneMeanValueForEachChannel) {
  const std::vector<float> out =
      Transform(Parse<TransformationParameter>("mean_value: 1 mean_value: 50"), TRAIN);
  EXPECT_EQ(out[0], -1);
  EXPECT_EQ(out[11], 23 - 1);
  EXPECT_EQ(out[12], 100 - 50);
  EXPECT_EQ(out[23], 123 - 50);
}

TEST(Transformer, TestCropsTheCentreRoundedDown) {
  // 3 x 4 cropped to 2: top (3-2)/2 = 0, left (4-2)/2 = 1.
  EXPECT_EQ(Transform(Parse<TransformationParameter>("crop_size: 2"), TEST),
            (std::vector<float>{1, 2, 11, 12, 101, 102, 111, 112}));
  // To 1: top 1, left 1.
  EXPECT_EQ(Transform(Parse<TransformationParameter>("crop_size: 1"), TEST),
            (std::vector<float>{11, 111}));
}

TEST(Transformer, CropsMayHaveTwoSides) {
  EXPECT_EQ(Transform(Parse<TransformationParameter>("crop_h: 1 crop_w: 2"), TEST),
            (std::vector<float>{11, 12, 111, 112}));
  const PixelView view{kChannels, kDatumHeight, kDatumWidth, nullptr, nullptr};
  const Transformer wide(Parse<TransformationParameter>("crop_h: 1 crop_w: 5"), TEST, "data");
  EXPECT_EQ(wide.FindMisfit(view.shape())->message,
            "crop_h is 1 and crop_w 5, but the image is 3 high and 4 wide");
}

TEST(Transformer, TrainCropsEverywhere) {
  std::set<float> corners;
  for (uint64_t i = 0; i < 200; ++i) {
    const std::vector<float> out =
        Transform(Parse<TransformationParameter>("crop_size: 2"), TRAIN, i);
    ASSERT_EQ(out.size(), 8u);
    corners.insert(out[0]);
    EXPECT_EQ(out[3], out[0] + 11);
    EXPECT_EQ(out[4], out[0] + 100);
  }
  EXPECT_EQ(corners, (std::set<float>{0, 1, 2, 10, 11, 12}));
}

TEST(Transformer, MirrorsHalfOfTheImagesInBothPhases) {
  for (const Phase phase : {TRAIN, TEST}) {
    int mirrored = 0;
    for (uint64_t i = 0; i < 400; ++i) {
      const std::vector<float> out =
          Transform(Parse<TransformationParameter>("mirror: true"), phase, i);
      if (out[0] == 3) {
        EXPECT_EQ(std::vector<float>(out.begin() + 4, out.begin() + 8),
                  (std::vector<float>{13, 12, 11, 10}));
        ++mirrored;
      } else {
        EXPECT_EQ(out[0], 0);
      }
    }
    EXPECT_NEAR(mirrored, 200, 60);
  }
}

TEST(Transformer, MeanImageIsReadAtTheUncroppedUnmirroredPlace) {
  TempDir temp;
  TransformationParameter param =
      Parse<TransformationParameter>("crop_size: 2 mirror: true scale: 3");
  param.set_mean_file(WriteMean(temp, Mean(2)));
  bool seen[2] = {false, false};
  for (uint64_t i = 0; i < 50; ++i) {
    const std::vector<float> out = Transform(param, TEST, i);
    // The crop begins at row 0, column 1; pixel minus mean there is 1 - (2 + 5), 2 - (2 + 10).
    std::vector<float> expected;
    for (int c = 0; c < 2; ++c) {
      for (int y = 0; y < 2; ++y) {
        for (int x = 1; x < 3; ++x) {
          expected.push_back(
              static_cast<float>((100 * c + 10 * y + x) - (2 + 7 * c + 3 * y + 5 * x)) * 3);
        }
      }
    }
    const bool mirrored = out[0] != expected[0];
    if (mirrored) {
      for (size_t row = 0; row < 8; row += 2) std::swap(expected[row], expected[row + 1]);
    }
    EXPECT_EQ(out, expected);
    seen[mirrored ? 1 : 0] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

TEST(Transformer, DrawsDependOnSeedLayerAndOrdinalOnly) {
  const TransformationParameter param = Parse<TransformationParameter>("crop_size: 2 mirror: true");
  EXPECT_EQ(Transform(param, TRAIN, 5), Transform(param, TRAIN, 5));
  int equal = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    equal += Transform(param, TRAIN, i) == Transform(param, TRAIN, i + 1) ? 1 : 0;
  }
  EXPECT_LT(equal, 30);  // 12 outcomes
}

TEST(Transformer, MisfitsNameTheField) {
  const Shape image{2, 3, 4};
  EXPECT_EQ(Transformer(Parse<TransformationParameter>("crop_size: 4"), TRAIN, "d")
                .FindMisfit(image)
                ->field,
            "transform_param.crop_size");
  EXPECT_FALSE(
      Transformer(Parse<TransformationParameter>("crop_size: 3"), TRAIN, "d").FindMisfit(image));
  EXPECT_EQ(Transformer(Parse<TransformationParameter>("mean_value: 1 mean_value: 2 mean_value: 3"),
                        TRAIN, "d")
                .FindMisfit(image)
                ->field,
            "transform_param.mean_value");
  TempDir temp;
  TransformationParameter param = Parse<TransformationParameter>("crop_size: 2");
  param.set_mean_file(WriteMean(temp, Mean(0)));
  const Transformer transformer(param, TRAIN, "d");
  EXPECT_FALSE(transformer.FindMisfit(image));
  EXPECT_NE(transformer.FindMisfit({2, 2, 2})->message.find("2x3x4"), std::string::npos);
}

TEST(Transformer, ContradictionsAndForkFieldsAreRefused) {
  const auto make = [](const std::string& text) {
    Transformer(Parse<TransformationParameter>(text), TRAIN, "mnist");
  };
  ExpectError(ErrorCode::kInvalidArgument, "layer \"mnist\": mean_file and mean_value",
              [&] { make("mean_file: 'x' mean_value: 1"); });
  ExpectError(ErrorCode::kInvalidArgument, "force_color and force_gray",
              [&] { make("force_color: true force_gray: true"); });
  ExpectError(ErrorCode::kUnsupported, "resize_param", [&] { make("resize_param {}"); });
  ExpectError(ErrorCode::kInvalidArgument, "crop_h and crop_w go together",
              [&] { make("crop_h: 3"); });
  ExpectError(ErrorCode::kInvalidArgument, "crop_size and crop_h",
              [&] { make("crop_size: 2 crop_h: 3 crop_w: 3"); });
  make("display: true");
}

TEST(MeanImage, ErrorsSayWhatIsWrong) {
  TempDir temp;
  ExpectError(ErrorCode::kNotFound, "none': there is no such file",
              [&] { ReadMeanImage(temp.File("none")); });
  ExpectError(ErrorCode::kDataLoss, "the mean file '" + temp.File("") + "' is a folder",
              [&] { ReadMeanImage(temp.File("")); });
  ExpectError(ErrorCode::kDataLoss, "not a mean file",
              [&] { ReadMeanImage(temp.Write("mean", "\xFF\xFF")); });
  ExpectError(ErrorCode::kDataLoss, "one mean image",
              [&] { ReadMeanImage(temp.Write("mean", "")); });
  BlobProto blob = Mean(0);
  blob.add_data(1);
  ExpectError(ErrorCode::kDataLoss, "says 2x3x4 but holds 25 values",
              [&] { ReadMeanImage(WriteMean(temp, blob)); });
}

TEST(MeanImage, ReadsNewShapesAndDoubles) {
  TempDir temp;
  BlobProto blob;
  for (const int64_t dim : {1, 1, 1, 2}) blob.mutable_shape()->add_dim(dim);
  blob.add_double_data(0.5);
  blob.add_double_data(2);
  const MeanImage mean = ReadMeanImage(WriteMean(temp, blob));
  EXPECT_EQ(mean.shape, (Shape{1, 1, 2}));
  EXPECT_EQ(mean.values, (std::vector<float>{0.5f, 2}));
}

}  // namespace
}  // namespace crema
