// distort_param and noise_param.
#ifdef CREMA_HAVE_OPENCV
#include "data/augment/colour.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "crema.pb.h"

namespace crema {
namespace {

// 2 x 2; blue 10, green 100, red 200 at the first pixel, and 1 more at each following one.
Image Colours() {
  return {.channels = 3,
          .height = 2,
          .width = 2,
          .pixels = {10, 11, 12, 13, 100, 101, 102, 103, 200, 201, 202, 203}};
}

Image Distorted(const std::string& text, uint64_t sample, Image image = Colours()) {
  DistortionParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param)) << text;
  Distort(param, *std::make_unique<Draws>(RandomStream(1, 2, sample)), &image);
  return image;
}

Image Noisy(const std::string& text, Image image = Colours()) {
  NoiseParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param)) << text;
  AddNoise(param, *std::make_unique<Draws>(RandomStream(1, 2, 3)), &image);
  return image;
}

TEST(Distort, NothingHappensWithoutProbabilities) {
  EXPECT_EQ(Distorted("brightness_delta: 30 hue_delta: 90 contrast_upper: 2", 1).pixels,
            Colours().pixels);
}

TEST(Distort, BrightnessIsAddedWithinItsBounds) {
  std::set<int> seen;
  for (uint64_t i = 0; i < 200; ++i) {
    const Image image = Distorted("brightness_prob: 1 brightness_delta: 32", i);
    const int delta = image.pixels[4] - 100;
    seen.insert(delta);
    EXPECT_LE(std::abs(delta), 32);
    EXPECT_EQ(image.pixels[0], std::max(0, 10 + delta));
    EXPECT_EQ(image.pixels[8], std::min(255, 200 + delta));
  }
  EXPECT_GT(seen.size(), 40u);
}

TEST(Distort, ContrastIsAFactorThatSaturates) {
  const Image image = Distorted("contrast_prob: 1 contrast_lower: 2 contrast_upper: 2", 0);
  EXPECT_EQ(image.pixels,
            (std::vector<uint8_t>{20, 22, 24, 26, 200, 202, 204, 206, 255, 255, 255, 255}));
}

TEST(Distort, SaturationOfZeroIsGrey) {
  const Image image = Distorted("saturation_prob: 1", 0);
  EXPECT_EQ(image.pixels,
            (std::vector<uint8_t>{200, 201, 202, 203, 200, 201, 202, 203, 200, 201, 202, 203}));
}

TEST(Distort, ChannelsAreShuffled) {
  std::set<int> first;
  for (uint64_t i = 0; i < 50; ++i) {
    Image image = Distorted("random_order_prob: 1", i);
    first.insert(image.pixels[0]);
    std::ranges::sort(image.pixels);
    EXPECT_EQ(image.pixels, Colours().pixels);
  }
  EXPECT_EQ(first, (std::set<int>{10, 100, 200}));
}

TEST(Distort, HueTurnsAndGreyImagesStayGrey) {
  EXPECT_NE(Distorted("hue_prob: 1 hue_delta: 60", 1).pixels, Colours().pixels);
  const Image grey{.channels = 1, .height = 1, .width = 2, .pixels = {10, 20}};
  const Image out = Distorted(
      "hue_prob: 1 hue_delta: 60 saturation_prob: 1 random_order_prob: 1 contrast_prob: 1 "
      "contrast_lower: 2 contrast_upper: 2",
      1, grey);
  EXPECT_EQ(out.pixels, (std::vector<uint8_t>{20, 40}));
}

TEST(Noise, SinglePixelSteps) {
  EXPECT_EQ(Noisy("").pixels, Colours().pixels);
  EXPECT_EQ(Noisy("inverse: true").pixels[0], 245);
  EXPECT_EQ(Noisy("posterize: true").pixels,
            (std::vector<uint8_t>{32, 32, 32, 32, 96, 96, 96, 96, 224, 224, 224, 224}));
  const Image grey = Noisy("decolorize: true");
  EXPECT_EQ(grey.channels, 3);
  EXPECT_NEAR(grey.pixels[0], 0.114 * 10 + 0.587 * 100 + 0.299 * 200, 1);
  EXPECT_EQ(grey.pixels[0], grey.pixels[4]);
  const Image salt = Noisy("saltpepper: true saltpepper_param { fraction: 0.5 value: 77 }");
  EXPECT_GE(std::ranges::count(salt.pixels, 77), 3);
  EXPECT_LE(std::ranges::count(salt.pixels, 77), 6);
}

TEST(Noise, EveryStepKeepsTheSizeOfColourAndGreyImages) {
  const Image grey{.channels = 1, .height = 9, .width = 8, .pixels = std::vector<uint8_t>(72, 50)};
  Image colour{.channels = 3, .height = 9, .width = 8, .pixels = std::vector<uint8_t>(216, 50)};
  for (const char* step : {"hist_eq: true", "clahe: true", "gauss_blur: true", "jpeg: 80",
                           "erode: true", "convert_to_hsv: true", "convert_to_lab: true"}) {
    for (const Image& image : {grey, colour}) {
      const Image out = Noisy(step, image);
      EXPECT_EQ(out.channels, image.channels) << step;
      EXPECT_EQ(out.pixels.size(), image.pixels.size()) << step;
    }
  }
}

}  // namespace
}  // namespace crema
#endif
