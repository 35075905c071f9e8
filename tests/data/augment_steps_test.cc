// The single steps of augment_param, and the valid range of their fields.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/augment/canvas.h"
#include "data/augment/jitter.h"
#include "data/augment/warp.h"
#include "data/augment_checks.h"
#include "data/expect_error.h"
#include "data/parse_message.h"
#include "data/transform/transformer.h"

namespace crema {
namespace {

using testing::DrawsOf;
using testing::ExpectBox;
using testing::ExpectError;
using testing::Parse;
using Planes = std::vector<uint8_t>;

// One pixel, or a row of them: blue, green, red planes.
Image Row(Planes planes, int channels = 3) {
  const int width = static_cast<int>(planes.size()) / channels;
  return {channels, 1, width, std::move(planes)};
}

template <typename Step>
Planes After(Image image, const Step& step) {
  step(&image);
  return image.pixels;
}

TEST(Jitter, BrightnessIsAFactorOfEachValue) {
  const auto step = [](Image* image) { ScaleBrightness(1.5, image); };
  EXPECT_EQ(After(Row({0, 10, 100, 170, 171, 255}), step), (Planes{0, 15, 150, 255, 255, 255}));
  EXPECT_EQ(After(Row({7}, 1), step), (Planes{11}));  // 10.5 is rounded
  EXPECT_EQ(After(Row({7, 9, 200}), [](Image* image) { ScaleBrightness(0, image); }), Planes(3, 0));
}

TEST(Jitter, ContrastIsAFactorOfTheDistanceToTheMeanGrey) {
  // Greys 0.114 * 200 + 0.587 * 100 + 0.299 * 0 = 81.5 and 0: the mean is 40.75.
  const Image image = Row({200, 0, 100, 0, 0, 0});
  EXPECT_EQ(After(image, [](Image* i) { ScaleContrast(0.5, i); }),
            (Planes{120, 20, 70, 20, 20, 20}));
  EXPECT_EQ(After(image, [](Image* i) { ScaleContrast(0, i); }), Planes(6, 41));
  EXPECT_EQ(After(image, [](Image* i) { ScaleContrast(2, i); }), (Planes{255, 0, 159, 0, 0, 0}));
  EXPECT_EQ(After(Row({10, 30}, 1), [](Image* i) { ScaleContrast(0.5, i); }), (Planes{15, 25}));
}

TEST(Jitter, SaturationIsAFactorOfTheDistanceToTheGreyOfThePixel) {
  // Red 200: its grey is 59.8.
  const Image red = Row({0, 0, 200});
  EXPECT_EQ(After(red, [](Image* i) { ScaleSaturation(0.5, i); }), (Planes{30, 30, 130}));
  EXPECT_EQ(After(red, RemoveColor), (Planes{60, 60, 60}));
  EXPECT_EQ(After(red, [](Image* i) { ScaleSaturation(1, i); }), red.pixels);
  EXPECT_EQ(After(Row({9}, 1), RemoveColor), (Planes{9}));
  EXPECT_EQ(After(Row({1, 2}, 2), RemoveColor), (Planes{1, 2}));
}

TEST(Jitter, HueTurnsTheCircle) {
  const auto turned = [](Planes pixel, double turn) {
    return After(Row(std::move(pixel)), [turn](Image* i) { RotateHue(turn, i); });
  };
  EXPECT_EQ(turned({0, 0, 255}, 0.5), (Planes{255, 255, 0}));  // red: cyan
  EXPECT_EQ(turned({0, 0, 255}, -0.5), (Planes{255, 255, 0}));
  EXPECT_EQ(turned({0, 0, 255}, 1.0 / 3), (Planes{0, 255, 0}));    // red: green
  EXPECT_EQ(turned({0, 0, 255}, -1.0 / 3), (Planes{255, 0, 0}));   // red: blue
  EXPECT_EQ(turned({255, 0, 0}, 1.0 / 6), (Planes{255, 0, 255}));  // blue: magenta
  EXPECT_EQ(turned({50, 250, 150}, 0.5), (Planes{250, 50, 150}));
  EXPECT_EQ(turned({77, 77, 77}, 0.4), (Planes{77, 77, 77}));
  const Planes pixel{12, 200, 90};
  EXPECT_EQ(turned(pixel, 0), pixel);
}

TEST(RandomPart, ResizedCropsKeepAreaAndAspect) {
  const auto param = Parse<AugmentParameter::ResizedCrop>("min_area: 0.2 max_area: 0.6");
  constexpr int kHeight = 400;
  constexpr int kWidth = 500;
  double least = 1;
  double most = 0;
  double low = 10;
  double high = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    Draws draws = DrawsOf(i);
    const PixelRect part = DrawResizedCrop(param, kHeight, kWidth, draws);
    ASSERT_TRUE(part.top >= 0 && part.left >= 0 && part.top + part.height <= kHeight &&
                part.left + part.width <= kWidth);
    const double area = 1.0 * part.height * part.width / (kHeight * kWidth);
    const double aspect = 1.0 * part.width / part.height;
    least = std::min(least, area);
    most = std::max(most, area);
    low = std::min(low, aspect);
    high = std::max(high, aspect);
  }
  EXPECT_NEAR(least, 0.2, 0.005);
  EXPECT_NEAR(most, 0.6, 0.005);
  EXPECT_NEAR(low, 0.75, 0.01);
  EXPECT_NEAR(high, 4.0 / 3, 0.02);
}

TEST(RandomPart, WhereNoCropFitsTheMiddleIsTaken) {
  const auto middle = [](const std::string& text, int height, int width) {
    Draws draws = DrawsOf(0);
    const PixelRect part =
        DrawResizedCrop(Parse<AugmentParameter::ResizedCrop>(text), height, width, draws);
    return std::vector<int>{part.top, part.left, part.height, part.width};
  };
  EXPECT_EQ(middle("min_area: 1", 10, 100), (std::vector<int>{0, 43, 10, 13}));
  EXPECT_EQ(middle("min_area: 1", 100, 9), (std::vector<int>{44, 0, 12, 9}));
  EXPECT_EQ(middle("min_area: 1 min_aspect: 2 max_aspect: 2", 1, 1),
            (std::vector<int>{0, 0, 1, 1}));
}

TEST(RandomPart, ErasedPartsAreSmallerThanTheImage) {
  const auto param = Parse<AugmentParameter::Erase>("min_area: 0.1 max_area: 0.3");
  double sum = 0;
  for (uint64_t i = 0; i < 500; ++i) {
    Draws draws = DrawsOf(i);
    const auto part = DrawErased(param, 60, 80, draws);
    ASSERT_TRUE(part);
    const double area = part->height * part->width / 4800.0;
    ASSERT_TRUE(area > 0.09 && area < 0.31 && part->height < 60 && part->width < 80);
    ASSERT_TRUE(part->top + part->height <= 60 && part->left + part->width <= 80);
    sum += area;
  }
  EXPECT_NEAR(sum / 500, 0.2, 0.02);
  Draws draws = DrawsOf(0);
  EXPECT_FALSE(DrawErased(param, 1, 1, draws));
}

TEST(RandomPart, FillReplacesTheRectangleAndNothingElse) {
  Image image{2, 3, 4, Planes(24, 9)};
  FillPart({.top = 1, .left = 2, .height = 2, .width = 1}, {5, 6}, &image);
  EXPECT_EQ(image.pixels, (Planes{9, 9, 9, 9, 9, 9, 5, 9, 9, 9, 5, 9,  //
                                  9, 9, 9, 9, 9, 9, 6, 9, 9, 9, 6, 9}));
}

TEST(Warp, BoxesTurnAboutTheMiddle) {
  // A quarter turn to the left in a square: the upper right becomes the upper left.
  ExpectBox(WarpBox({.degrees = 90}, {0.75, 0, 1, 0.5}, 100, 100), {0, 0, 0.5, 0.25});
  ExpectBox(WarpBox({.degrees = 180}, {0.1, 0.2, 0.3, 0.6}, 50, 80), {0.7, 0.4, 0.9, 0.8});
  ExpectBox(WarpBox({.wide = 2, .high = 0.5}, {0.25, 0, 0.5, 1}, 50, 80), {0, 0.25, 0.5, 0.75});
  // The diagonal of a square of 20 pixels, in an image of 100 x 200.
  const double half = std::sqrt(2.0) * 10;
  ExpectBox(WarpBox({.degrees = 45}, {0.45, 0.4, 0.55, 0.6}, 100, 200),
            {0.5 - half / 200, 0.5 - half / 100, 0.5 + half / 200, 0.5 + half / 100});
}

#ifdef CREMA_HAVE_OPENCV
TEST(Warp, PixelsTurnAsBoxesDo) {
  Image image{1, 3, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  EXPECT_EQ(WarpImage({.degrees = 90}, image, {0}).pixels, (Planes{3, 6, 9, 2, 5, 8, 1, 4, 7}));
  EXPECT_EQ(WarpImage({.degrees = 180}, image, {0}).pixels, (Planes{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(WarpImage({}, image, {0}).pixels, image.pixels);
  // Half as wide: the fill is on both sides.
  const Image wide{1, 1, 5, {10, 20, 30, 40, 50}};
  EXPECT_EQ(WarpImage({.wide = 0.5}, wide, {99}).pixels, (Planes{99, 10, 30, 50, 99}));
}

TEST(Warp, BlurKeepsFlatImagesAndSpreadsPoints) {
  Image flat{1, 5, 7, Planes(35, 80)};
  Blur(1.5, &flat);
  EXPECT_EQ(flat.pixels, Planes(35, 80));
  Image point{1, 1, 9, {0, 0, 0, 0, 255, 0, 0, 0, 0}};
  Blur(0.5, &point);
  // exp(-x^2 / 2 sigma^2) over the sum of that at -2..2; across, the one row is its own neighbour.
  const double total = 1 + 2 * std::exp(-2.0) + 2 * std::exp(-8.0);
  EXPECT_NEAR(point.pixels[4], 255 / total, 1.5);
  EXPECT_NEAR(point.pixels[3], 255 * std::exp(-2.0) / total, 1.5);
  EXPECT_EQ(point.pixels[3], point.pixels[5]);
  EXPECT_EQ(point.pixels[0], 0);
}
#endif

TEST(AugmentParam, BadValuesNameTheirField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"rotate: -1", "rotate"},
      {"rotate: 181", "rotate"},
      {"rotate: nan", "rotate"},
      {"min_scale: 0", "min_scale"},
      {"min_scale: 2", "max_scale"},
      {"max_scale: inf", "max_scale"},
      {"aspect: 0.5", "aspect"},
      {"resized_crop { min_area: 0 }", "resized_crop.min_area"},
      {"resized_crop { max_area: 1.5 }", "resized_crop.max_area"},
      {"resized_crop { min_area: 0.5 max_area: 0.4 }", "resized_crop.max_area"},
      {"resized_crop { min_aspect: 0 }", "resized_crop.min_aspect"},
      {"resized_crop { min_aspect: 2 }", "resized_crop.max_aspect"},
      {"brightness: -0.1", "brightness"},
      {"contrast: nan", "contrast"},
      {"saturation: -1", "saturation"},
      {"hue: 0.6", "hue"},
      {"grayscale: 1.1", "grayscale"},
      {"blur { probability: 2 }", "blur.probability"},
      {"blur { min_sigma: 0 }", "blur.min_sigma"},
      {"blur { min_sigma: 3 }", "blur.max_sigma"},
      {"erase { probability: -1 }", "erase.probability"},
      {"erase { min_area: 0 }", "erase.min_area"},
      {"erase { max_aspect: 0.1 }", "erase.max_aspect"},
      {"mixup: -1 classes: 2", "mixup"},
      {"cutmix: inf classes: 2", "cutmix"},
      {"mixup: 0.2", "classes"},
      {"cutmix: 1", "classes"},
      {"cutmix: 1 classes: 4000000000", "classes"},
      {"resized_crop { }", "resized_crop"},
  };
  for (const auto& [text, field] : cases) {
    SCOPED_TRACE(text);
    const auto param = Parse<TransformationParameter>(
        StrCat("augment_param { ", text, " }", field == "resized_crop" ? "" : " crop_size: 4"));
    try {
      ValidateTransform(param, "pets", TransformSteps::kAugmented);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      const Where& where = error.problems().front().where;
      EXPECT_EQ(where.field, "transform_param.augment_param." + field) << error.what();
      EXPECT_EQ(where.layer, "pets");
    }
  }
  const auto with_mean = Parse<TransformationParameter>(
      "crop_size: 4 mean_file: 'm' augment_param { resized_crop { } }");
  ExpectError(ErrorCode::kInvalidArgument, "give mean_value",
              [&] { ValidateTransform(with_mean, "pets", TransformSteps::kAugmented); });
  const auto any = Parse<TransformationParameter>("augment_param { hue: 0.1 }");
  ExpectError(ErrorCode::kUnsupported, "something that a layer of this type cannot do",
              [&] { ValidateTransform(any, "pets", TransformSteps::kPlain); });
  EXPECT_NO_THROW(ValidateTransform(any, "pets", TransformSteps::kAnnotated));
}

#ifndef CREMA_HAVE_OPENCV
TEST(AugmentParam, StepsThatNeedOpenCvAreRefusedWithoutIt) {
  for (const std::string text : {"rotate: 5", "max_scale: 2", "aspect: 1.5", "blur { }"}) {
    const auto param = Parse<TransformationParameter>(StrCat("augment_param { ", text, " }"));
    ExpectError(ErrorCode::kUnsupported, "needs OpenCV",
                [&] { ValidateTransform(param, "pets", TransformSteps::kAugmented); });
  }
}
#endif

}  // namespace
}  // namespace crema
