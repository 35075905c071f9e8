// Cascades of nets: what they refuse, and the limits of their work.
#include "inference/cascade.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/strings.h"
#include "support/cascade_files.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

Image White(int height, int width) {
  const size_t pixels = 3 * static_cast<size_t>(height) * static_cast<size_t>(width);
  return {3, height, width, std::vector<uint8_t>(pixels, 255)};
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

class CascadeFiles : public ::testing::Test {
 protected:
  void SetUp() override { WriteCascade(temp_.path()); }

  Cascade Open(const std::string& text = kCascade) const {
    return Cascade(temp_.Write("cascade.txt", text), TestRegistry(), {}, NullSink());
  }
  std::string Refusal(const std::string& text) const {
    return ErrorOf([&] { Open(text); });
  }

  TempDir temp_;
};

TEST_F(CascadeFiles, UnfitValuesAreRefused) {
  const std::string good = kCascade;
  const auto expect = [&](const std::string& text, const std::string& message) {
    const std::string refusal = Refusal(text);
    EXPECT_TRUE(Contains(refusal, "cascade.txt: ") && Contains(refusal, message)) << text << "\n"
                                                                                  << refusal;
  };
  for (const char* factor : {"0.01", "0.96", "1", "-1", "nan"}) {
    expect(StrCat(good, "factor: ", factor), "factor must be from 0.1 to 0.95");
  }
  for (const char* window : {"0", "-3", "513", "2147483647"}) {
    expect(StrCat(good, "window: ", window), "window must be from 1 to 512");
  }
  expect(good + "window: 49", "window may be 4 times min_size at most");
  expect(good + "stride: 13", "stride must be from 1 to window");
  for (const char* size : {"0.5", "nan", "inf", "16385"}) {
    expect(Replaced(good, "min_size: 12", StrCat("min_size: ", size)),
           "min_size must be from 1 to 16384");
  }
  expect(good + "size_nms: nan", "size_nms must be from 0 to 1");
  for (const char* threshold : {"nan", "-0.1", "1.5", "inf"}) {
    expect(Replaced(good, "threshold: 0.9 ", StrCat("threshold: ", threshold, " ")),
           "stage 2: threshold must be from 0 to 1");
  }
  expect(Replaced(good, "nms_by", "nms: -1 nms_by"), "stage 2: nms must be from 0 to 1");
  for (const char* scale : {"0", "nan", "inf"}) {
    expect(Replaced(good, "scale: 0.0038", StrCat("scale: ", scale)),
           "mean and scale must be numbers, and scale not 0");
  }
  expect(Replaced(good, "mean: 0", "mean: nan"), "mean and scale must be numbers");
  expect(good + "interpolation: \"best\"", "best");
}

TEST_F(CascadeFiles, NetsThatDoNotFitTheirStageAreRefused) {
  EXPECT_EQ(Refusal(kCascade), "");
  const std::string swapped = Refusal(R"(
stage { net: "second.prototxt" weights: "second.caffemodel" threshold: 0.9 }
stage { net: "first.prototxt" weights: "first.caffemodel" threshold: 0.9 })");
  EXPECT_TRUE(Contains(swapped, "stage 1: the net does not compute 12 x 12 pixels")) << swapped;
  EXPECT_TRUE(Contains(Refusal(kCascade + std::string("window: 14")),
                       "stage 1: the net has 2 x 2 outputs for 14 x 14 pixels, which are not those "
                       "of a window of 14 and a stride of 2"));
  EXPECT_TRUE(Contains(Refusal(kCascade + std::string("stride: 4")),
                       "stage 1: the net has 7 x 13 outputs for 24 x 36 pixels"));
}

// The scores have more places than the shifts, which were read beyond their end.
TEST_F(CascadeFiles, OutputsOfOtherPlacesThanTheScoresAreRefused) {
  const std::string coarse = Replaced(kCascadeFirst, "num_output: 4 kernel_size: 12 stride: 2",
                                      "num_output: 4 kernel_size: 12 stride: 4");
  WriteCascadeNet(temp_.File("first"), coarse, {0, 0, 0, 0});
  const std::string shifts = Refusal(kCascade);
  EXPECT_TRUE(Contains(shifts,
                       "cascade.txt: stage 1: output 'shift' has the shape 1x4x4x7, but "
                       "needs 1 x 4 channels x 7 x 13 places, as the scores"))
      << shifts;
  WriteCascade(temp_.path());
  const std::string wide = Replaced(kCascadeFirst, "dim: 12 dim: 12", "dim: 24 dim: 24");
  WriteCascadeNet(temp_.File("second"), wide, {0, 0, 0, 0});
  const std::string second = Refusal(kCascade);
  EXPECT_TRUE(Contains(second,
                       "stage 2: output 'score' has the shape 1x2x7x7, but needs 1 x 2 "
                       "channels x 1 x 1 places"))
      << second;
}

class CascadeRuns : public CascadeFiles {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_OPENCV
    GTEST_SKIP() << "this build has no OpenCV";
#endif
    CascadeFiles::SetUp();
  }
};

// Every place of a white picture is a candidate, and none is suppressed.
TEST_F(CascadeRuns, EachStageKeepsTheBestCandidatesOnly) {
  for (const char* by : {"UNION", "SMALLER"}) {
    const Cascade cascade = Open(StrCat(R"(
stage { net: "first.prototxt" weights: "first.caffemodel" threshold: 0.5 nms: 1 nms_by: )",
                                        by, R"( }
stage { net: "second.prototxt" weights: "second.caffemodel" threshold: 0.5 nms: 1 nms_by: )",
                                        by, R"( }
min_size: 12 mean: 0 scale: 0.0038 size_nms: 1)"));
    EXPECT_EQ(CascadeRunner(cascade).Detect(White(160, 160)).size(), 4096U) << by;
  }
}

TEST_F(CascadeRuns, ACallerCanGiveADetectionUp) {
  const Cascade cascade = Open();
  CascadeRunner runner(cascade);
  int asked = 0;
  const auto detect = [&](int most) {
    asked = 0;
    return runner.Detect(White(24, 24), [&] { return ++asked > most; }).size();
  };
  EXPECT_GT(detect(1000), 0U);
  const int all = asked;
  EXPECT_GT(all, 2) << "two sizes, and a batch of the second stage";
  for (int most = 0; most < all; ++most) {
    const std::vector<Problem> problems = ProblemsOf([&] { detect(most); });
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems[0].code, ErrorCode::kCancelled);
    EXPECT_EQ(asked, most + 1);
  }
  EXPECT_GT(detect(1000), 0U) << "the runner can be used again";
}

// A file may be replaced while its cascade is in use.
TEST_F(CascadeRuns, OnnxFilesAreNotReadAgainForOtherSizes) {
  int opened = 0, made = 0;
  CascadeOptions options;
  options.open_onnx = [&](const std::string& path) -> OnnxNets {
    EXPECT_EQ(path, temp_.File("first.onnx"));
    ++opened;
    return [&](const Shape& input) {
      ++made;
      const int64_t a = input[2], b = input[3];
      const std::string net =
          Replaced(kCascadeFirst, "dim: 12 dim: 12", StrCat("dim: ", a, " dim: ", b));
      const std::string name = StrCat("name: \"score", a, "x", b, '"');  // depends on the size
      return ParseNet(Replaced(net, "name: \"score\"", name), "first");
    };
  };
  const std::string text = Replaced(kCascade, "first.prototxt", "first.onnx");
  const Cascade cascade(temp_.Write("cascade.txt", text), TestRegistry(), options, NullSink());
  const int made_at_first = made;
  CascadeRunner(cascade).Detect(White(24, 36));
  EXPECT_EQ(opened, 1);
  EXPECT_GT(made, made_at_first);
}

TEST_F(CascadeRuns, NumbersThatAreNoneMakeNoBoxes) {
  const Image picture = White(24, 24);
  const Cascade good = Open();
  EXPECT_FALSE(CascadeRunner(good).Detect(picture).empty());
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30F}) {
    for (const std::string stage : {"first", "second"}) {
      WriteCascade(temp_.path());
      WriteCascadeNet(temp_.File(stage), stage == "first" ? kCascadeFirst : kCascadeSecond,
                      {0, value, 0, 0});
      const Cascade cascade = Open();
      EXPECT_TRUE(CascadeRunner(cascade).Detect(picture).empty()) << stage << " " << value;
    }
  }
}

TEST_F(CascadeRuns, PicturesThatAreTooLargeForTheFirstNetAreRefused) {
  const Cascade cascade = Open();
  EXPECT_TRUE(Contains(ErrorOf([&] { CascadeRunner(cascade).Detect(White(12, 16385)); }),
                       "a picture of 12 x 16385 pixels is too large for the cascade: its first net "
                       "would compute 12 x 16385; give a smaller one, or raise min_size"));
}

}  // namespace
}  // namespace crema::test
