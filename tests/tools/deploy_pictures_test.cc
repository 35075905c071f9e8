// deploy with pictures: batches, videos, standard input, drawings, masks, numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "data/image/image.h"
#include "data/image/video_opencv.h"
#include "format/npy.h"
#include "support/process.h"
#include "tools/deploy_nets.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::ProcessResult;
using test::RunProcess;
using test::Stripes;

class DeployPictures : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_OPENCV
    GTEST_SKIP() << "this build has no OpenCV";
#endif
    test::WriteDeployNets(temp_);
    temp_.Write("red.ppm", Stripes(8, 12, "r"));
    temp_.Write("green.ppm", Stripes(8, 12, "g"));
    temp_.Write("labels.txt", "none\nred\ngreen\nblue\n");
    temp_.Write("channels.txt", "blue\ngreen\nred\n");
  }

  ProcessResult Deploy(const std::string& action, std::vector<std::string> arguments) const {
    const std::string net = action == "segment" ? "colours" : "means";
    std::vector<std::string> command = {Bin("deploy"), action, "--model=" + net + ".prototxt",
                                        "--weights=" + net + ".caffemodel"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunProcess(command, temp_.path());
  }

  Image Decoded(const std::string& name, ColorMode mode) const {
    Image image;
    DecodeImage(temp_.Read(name), mode, name, &image);
    return image;
  }

  // Frame i is red except for 2 i green columns on the left.
  void WriteVideo(const std::string& name, int frames) const {
    VideoWriter video(temp_.File(name), 10, 32, 48);
    for (int f = 0; f < frames; ++f) {
      Image image{.channels = 3, .height = 32, .width = 48, .pixels = {}};
      image.pixels.assign(size_t{3} * 32 * 48, 0);
      for (int i = 0; i < 32 * 48; ++i) {
        const size_t plane = i % 48 < 2 * f ? 1 : 2;
        image.pixels[plane * 32 * 48 + static_cast<size_t>(i)] = 240;
      }
      video.Write(image);
    }
  }

  test::TempDir temp_;
};

TEST_F(DeployPictures, BoxesOfLargePicturesAreThickAndLowOnesHaveNoCaption) {
  const auto drawn_rows = [](int side, double height) {
    Image picture{.channels = 3, .height = side, .width = side, .pixels = {}};
    picture.pixels.assign(size_t{3} * side * side, 0);
    const std::array<CaptionedBox, 1> boxes = {
        {{.box = {100, 200, 300, 200 + height}, .caption = "face", .color = 0}}};
    DrawBoxes(boxes, &picture);
    std::vector<int> rows;
    for (int y = 0; y < side; ++y) {
      if (picture.pixels[static_cast<size_t>(y) * side + 105] != 0) rows.push_back(y);
    }
    return rows;
  };
  EXPECT_EQ(drawn_rows(500, 10), (std::vector<int>{200, 210}));
  EXPECT_GE(drawn_rows(700, 10).size(), 4u);
  EXPECT_LT(drawn_rows(500, 100).front(), 200) << "the caption";
}

TEST_F(DeployPictures, ACaptionDoesNotCoverAnEarlierOne) {
  Image one{.channels = 3, .height = 400, .width = 400, .pixels = {}};
  one.pixels.assign(size_t{3} * 400 * 400, 0);
  Image both = one;
  const CaptionedBox first = {.box = {100, 200, 130, 230}, .caption = "a long caption", .color = 0};
  CaptionedBox second = first;
  second.box = {140, 200, 170, 230};
  second.caption = "another long caption";
  DrawBoxes(std::array{first}, &one);
  DrawBoxes(std::array{first, second}, &both);
  const auto above = [](const Image& image) {  // the boxes
    return std::vector<uint8_t>(image.pixels.begin(), image.pixels.begin() + 199 * 400);
  };
  EXPECT_EQ(above(both), above(one));
  EXPECT_NE(both.pixels, one.pixels);
}

TEST_F(DeployPictures, ALetterboxHasNoClass) {
  temp_.Write("square.ppm", Stripes(8, 4, "rg"));  // 8x8, in the middle of 8x12
  const ProcessResult found =
      Deploy("segment", {"--json", "--labels=labels.txt", "--fit=letterbox", "square.ppm"});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_EQ(found.out.find("none"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("\"label\": \"red\", \"index\": 1, \"share\": 0.5}"), std::string::npos)
      << found.out;
  const ProcessResult cropped = Deploy("segment", {"--fit=crop", "square.ppm"});
  EXPECT_EQ(cropped.exit_code, 2);
  EXPECT_NE(cropped.err.find("segmentation cannot crop images"), std::string::npos) << cropped.err;
}

TEST_F(DeployPictures, TenCropsAreAveraged) {
  // 4x4 crops of 4x8: the left ones are red, the right ones green, those in the middle half and
  // half.
  temp_.Write("halves.ppm", Stripes(4, 4, "rg"));
  const ProcessResult result =
      Deploy("classify", {"--labels=channels.txt", "--resize=4x8", "--ten_crops", "--scale=0.01",
                          "--npy=scores.npy", "halves.ppm"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto softmax = [](double green, double red) {
    const double sum = 1 + std::exp(green) + std::exp(red);
    return std::array{1 / sum, std::exp(green) / sum, std::exp(red) / sum};
  };
  const auto left = softmax(0, 2.4), right = softmax(2.4, 0), middle = softmax(1.2, 1.2);
  const Tensor scores = ParseNpy(temp_.Read("scores.npy"), "scores.npy");
  ASSERT_EQ(scores.shape(), (Shape{1, 3}));
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(scores.view().span<float>()[c], (4 * left[c] + 4 * right[c] + 2 * middle[c]) / 10,
                1e-6);
  }
  const auto refused = [&](const std::string& action, const std::vector<std::string>& flags,
                           const std::string& message) {
    const ProcessResult wrong = Deploy(action, flags);
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_NE(wrong.err.find(message), std::string::npos) << wrong.err;
  };
  refused("classify", {"--ten_crops", "halves.ppm"}, "ten crops (ten_crops) need the fit 'crop'");
  refused("segment", {"--ten_crops", "--fit=crop", "halves.ppm"}, "segmentation cannot crop");
}

TEST_F(DeployPictures, FlagsOfTheSizeAreChecked) {
  const auto expect = [&](const std::string& flag, const std::string& message) {
    const ProcessResult result = Deploy("classify", {flag, "red.ppm"});
    EXPECT_EQ(result.exit_code, 2) << flag;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  };
  expect("--fit=fill", "unknown fit 'fill'; use stretch, crop, letterbox");
  expect("--resize=big", "--resize: 'big' is neither a side (256) nor height x width (256x256)");
  expect("--resize=8x8x3", "--resize: '8x8x3' is neither");
  expect("--resize=3", "images are resized to 3 before the crop, which must be from 4x4");
  expect("--interpolation=lanczos4", "unknown interpolation 'lanczos4'; use linear");
  expect("--std=1,2", "--std has 2 numbers for 3 channels");
  expect("--std=0", "a standard deviation (std) is 0; use numbers above 0");
  expect("--std=-1", "(std) is -1");
  expect("--scale=0", "--scale is 0; use a finite number other than 0");
  expect("--pixel_range=0", "(pixel_range) is 0; use a number above 0");
  expect("--pad=256", "the padding is 256");
}

TEST_F(DeployPictures, BatchesAnswerAsOneByOne) {
  std::vector<std::string> images;
  for (int i = 0; i < 11; ++i) {
    images.push_back(StrCat("image", i, ".ppm"));
    temp_.Write(images.back(), Stripes(4, 1 + i % 3, i % 2 == 0 ? "rgg" : "bkg"));
  }
  temp_.Write("image4.ppm", "broken");
  const auto with = [&](const std::string& batch, const std::string& threads) {
    std::vector<std::string> arguments = {batch, threads, "--json", "--scale=0.01"};
    arguments.insert(arguments.end(), images.begin(), images.end());
    const ProcessResult result = Deploy("classify", arguments);
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_NE(result.err.find("image4.ppm"), std::string::npos) << result.err;
    return result.out;
  };
  const std::string one = with("--batch=1", "--threads=1");
  EXPECT_EQ(std::ranges::count(one, '\n'), 10);
  EXPECT_EQ(with("--batch=4", "--threads=1"), one);
  EXPECT_EQ(with("--batch=3", "--threads=2"), one);
  EXPECT_EQ(with("--batch=50", "--threads=2"), one);
}

TEST_F(DeployPictures, NumbersHaveARowAPicture) {
  temp_.Write("broken.ppm", "broken");
  const ProcessResult result =
      Deploy("classify", {"--npy=scores.npy", "red.ppm", "broken.ppm", "green.ppm"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  const Tensor scores = ParseNpy(temp_.Read("scores.npy"), "scores.npy");
  ASSERT_EQ(scores.shape(), (Shape{3, 3}));
  const float* rows = scores.view().data<float>();
  EXPECT_NEAR(rows[2], 1, 1e-5);
  EXPECT_TRUE(std::isnan(rows[3]));
  EXPECT_NEAR(rows[7], 1, 1e-5);
}

TEST_F(DeployPictures, StandardInput) {
  const ProcessResult result =
      RunProcess({"/bin/sh", "-c",
                  Bin("deploy") + " classify --model=means.prototxt --weights=means.caffemodel "
                                  "--labels=channels.txt --top=1 - < red.ppm"},
                 temp_.path());
  EXPECT_EQ(result.out, "-: red 1.0000\n") << result.err;
}

TEST_F(DeployPictures, ClassifyDrawsBars) {
  temp_.Write("large.ppm", Stripes(200, 100, "rgk"));
  const ProcessResult result =
      Deploy("classify", {"--labels=channels.txt", "--draw=out.png", "large.ppm"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Image drawn = Decoded("out.png", ColorMode::kColor);
  const Image before = Decoded("large.ppm", ColorMode::kColor);
  ASSERT_EQ(drawn.width, 300);
  const size_t below = size_t{150} * 300 + 10, bar = size_t{3} * 300 + 1;
  EXPECT_EQ(drawn.pixels[below], before.pixels[below]) << "below the bars it is as it was";
  EXPECT_NE(drawn.pixels[bar], before.pixels[bar]);
  ASSERT_EQ(Deploy("classify", {"--labels=channels.txt", "--draw=small.png", "red.ppm"}).exit_code,
            0);
  const Image small = Decoded("small.png", ColorMode::kColor);
  EXPECT_GE(std::max(small.width, small.height), 256) << "the text is readable";
}

TEST_F(DeployPictures, SegmentSaysSharesAndWritesMasks) {
  temp_.Write("mixed.ppm", Stripes(8, 3, "krbg"));
  const ProcessResult result = Deploy(
      "segment", {"--json", "--labels=labels.txt", "--masks=masks", "--draw=out.png", "mixed.ppm"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "{\"image\": \"mixed.ppm\", \"classes\": ["
            "{\"label\": \"none\", \"index\": 0, \"share\": 0.25}, "
            "{\"label\": \"red\", \"index\": 1, \"share\": 0.25}, "
            "{\"label\": \"green\", \"index\": 2, \"share\": 0.25}, "
            "{\"label\": \"blue\", \"index\": 3, \"share\": 0.25}]}\n");
  // OpenCV shows the palette's colors: 1 is dark red, 3 dark yellow, 2 dark green.
  const Image mask = Decoded("masks/mixed.png", ColorMode::kColor);
  ASSERT_EQ(mask.width, 12);
  const size_t plane = mask.pixels.size() / 3;
  for (size_t x = 0; x < 12; ++x) {
    const int index = std::array{0, 1, 3, 2}[x / 3];
    const auto [red, green, blue] = ClassColor(index);
    EXPECT_EQ(mask.pixels[x], blue) << x;
    EXPECT_EQ(mask.pixels[plane + x], green) << x;
    EXPECT_EQ(mask.pixels[2 * plane + x], red) << x;
  }
  // Half red, half the color of class 1; the background stays.
  const Image drawn = Decoded("out.png", ColorMode::kColor);
  const size_t last_row = size_t{7} * 12;
  EXPECT_EQ(drawn.pixels[last_row + 0], 0);
  EXPECT_EQ(drawn.pixels[2 * plane + last_row + 4], (240 + 128 + 1) / 2);
}

TEST_F(DeployPictures, MaskIsOfThePictureAndThePaletteIsVocs) {
  temp_.Write("wide.ppm", Stripes(16, 12, "rg"));
  ASSERT_EQ(Deploy("segment", {"--masks=masks", "wide.ppm"}).exit_code, 0);
  EXPECT_EQ(Decoded("masks/wide.png", ColorMode::kColor).width, 24);
  EXPECT_EQ(ClassColor(15), (std::array<uint8_t, 3>{192, 128, 128})) << "VOC's person";
  EXPECT_EQ(ClassColor(20), (std::array<uint8_t, 3>{0, 64, 128})) << "VOC's tv monitor";
}

TEST_F(DeployPictures, VideosHaveFramesAndTimes) {
#ifndef CREMA_HAVE_VIDEO
  GTEST_SKIP() << "this build has no videoio";
#endif
  WriteVideo("video.avi", 5);
  const ProcessResult result =
      Deploy("classify", {"--json", "--top=1", "--batch=2", "--draw=drawn", "--labels=channels.txt",
                          "video.avi", "green.ppm"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (int f = 0; f < 5; ++f) {
    const std::string line = StrCat("{\"image\": \"video.avi\", \"frame\": ", f,
                                    ", \"time\": ", f == 0 ? "0" : StrCat("0.", f),
                                    ", \"predictions\": [{\"label\": ", "\"red\"");
    EXPECT_NE(result.out.find(line), std::string::npos) << line << "\n" << result.out;
  }
  EXPECT_TRUE(fs::exists(temp_.File("drawn/video.avi")));
  const ProcessResult again = Deploy("classify", {"--top=1", "drawn/video.avi"});
  EXPECT_EQ(std::ranges::count(again.out, '\n'), 5) << "what was drawn is a video of five frames";
  const ProcessResult masks = Deploy("segment", {"--masks=masks", "video.avi"});
  EXPECT_EQ(masks.exit_code, 0) << masks.err;
  EXPECT_TRUE(fs::exists(temp_.File("masks/video-000004.png")));
  EXPECT_EQ(masks.err.find("cut off"), std::string::npos) << masks.err;
}

TEST_F(DeployPictures, VideosThatAreCutOffAreReported) {
#ifndef CREMA_HAVE_VIDEO
  GTEST_SKIP() << "this build has no videoio";
#endif
  WriteVideo("video.avi", 20);
  const std::string video = temp_.Read("video.avi");
  temp_.Write("video.avi", video.substr(0, video.size() * 13 / 20));
  const ProcessResult result = Deploy("classify", {"--top=1", "video.avi"});
  EXPECT_GT(std::ranges::count(result.out, '\n'), 0) << result.err;
  EXPECT_NE(result.err.find("says that it has 20; is it cut off?"), std::string::npos)
      << result.err;
}

TEST_F(DeployPictures, BrokenVideosAndNoCamera) {
  temp_.Write("video.avi", "no video");
  const ProcessResult result = Deploy("classify", {"--top=1", "video.avi", "red.ppm"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "red.ppm: 2 1.0000\n");
  EXPECT_NE(result.err.find("video.avi"), std::string::npos) << result.err;
  const ProcessResult camera = Deploy("classify", {"--camera=63"});
  EXPECT_EQ(camera.exit_code, 3);
  EXPECT_NE(camera.err.find("camera 63"), std::string::npos) << camera.err;
}

TEST_F(DeployPictures, MistakesAreExplained) {
  const auto expect = [&](const std::string& action, std::vector<std::string> arguments,
                          const std::string& text) {
    const ProcessResult result = Deploy(action, std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  };
  expect("classify", {"--batch=0", "red.ppm"}, "--batch");
  expect("classify", {"--threads=1,2", "red.ppm"}, "a list is for bench");
  expect("classify", {"--camera=-2"}, "--camera is -2");
  expect("classify", {"--mean=1,2", "red.ppm"}, "--mean has 2 numbers for 3 channels");
  expect("segment", {"--npy=x.npy", "red.ppm"}, "--masks");
  expect("segment", {"--masks=red.ppm", "red.ppm"}, "must be a folder");
  expect("segment", {"--labels=channels.txt", "red.ppm"}, "has 3 labels");
  const ProcessResult wrong = RunProcess(
      {Bin("deploy"), "segment", "--model=means.prototxt", "--weights=means.caffemodel", "red.ppm"},
      temp_.path());
  EXPECT_EQ(wrong.exit_code, 0) << "N x 3 x 1 x 1 is a picture of one pixel: " << wrong.err;
}

}  // namespace
}  // namespace crema
