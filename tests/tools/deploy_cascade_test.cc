// deploy detect --cascade.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "runtime/weights.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Bin;
using test::ProcessResult;
using test::RunProcess;

// A first net that looks for a bright window of 12 x 12, and a second one that checks the box and
// moves it. The score is the mean of the pixels.
constexpr const char* kFirst = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 12 dim: 12 } } }
layer { name: "score" type: "Convolution" bottom: "data" top: "score" convolution_param { num_output: 2 kernel_size: 12 stride: 2 } }
layer { name: "shift" type: "Convolution" bottom: "data" top: "shift" convolution_param { num_output: 4 kernel_size: 12 stride: 2 } }
)";
constexpr const char* kSecond = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 24 dim: 24 } } }
layer { name: "score" type: "InnerProduct" bottom: "data" top: "score" inner_product_param { num_output: 2 } }
layer { name: "shift" type: "InnerProduct" bottom: "data" top: "shift" inner_product_param { num_output: 4 } }
layer { name: "points" type: "InnerProduct" bottom: "data" top: "points" inner_product_param { num_output: 10 } }
)";
constexpr const char* kCascade = R"(
stage { net: "first.prototxt" weights: "first.caffemodel" threshold: 0.95 }
stage { net: "second.prototxt" weights: "second.caffemodel" threshold: 0.9 nms_by: SMALLER }
min_size: 12 mean: 0 scale: 0.0038
)";

class DeployCascade : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_OPENCV
    GTEST_SKIP() << "this build has no OpenCV";
#endif
    WriteNet("first", kFirst, {0, 0, 0, 0});
    WriteNet("second", kSecond, {-0.25F, 0, 0.25F, 0.5F});
    temp_.Write("cascade.txt", kCascade);
    temp_.Write("square.ppm", Picture(36, 30, 8, 4));
  }

  void WriteNet(const std::string& name, const std::string& net, std::array<float, 4> shifts) {
    temp_.Write(name + ".prototxt", net);
    const auto plan = test::PlanText(net, TEST);
    const auto weights = Weights::Make(*plan, 1);
    for (size_t b = 0; b < plan->parameters.size(); ++b) {
      std::ranges::fill(weights->blob(b).span<float>(), 0.0F);
    }
    const std::span<float> score = weights->blob(0).span<float>();
    const size_t half = score.size() / 2;
    std::ranges::fill(score.subspan(half), 1.0F / static_cast<float>(half));
    std::ranges::copy(shifts, weights->blob(3).span<float>().begin());
    if (plan->parameters.size() > 4) std::ranges::fill(weights->blob(5).span<float>(), 0.5F);
    WriteCaffemodel(weights->Export(*plan), temp_.File(name + ".caffemodel"));
  }

  // Black, with a white square of 12 x 12 pixels.
  static std::string Picture(int width, int height, int left, int top) {
    std::string file = StrCat("P6\n", width, " ", height, "\n255\n");
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const bool inside = x >= left && x < left + 12 && y >= top && y < top + 12;
        file += std::string(3, inside ? '\xff' : '\0');
      }
    }
    return file;
  }

  ProcessResult Detect(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {Bin("deploy"), "detect"});
    return RunProcess(arguments, temp_.path());
  }

  test::TempDir temp_;
};

TEST_F(DeployCascade, LaterStagesMoveTheBoxesOfTheFirst) {
  // Pixels count from 1: the window is 9 to 20 and 5 to 16, and the second net moves its edges by
  // parts of 12 pixels.
  const ProcessResult text = Detect({"--cascade=cascade.txt", "square.ppm"});
  EXPECT_EQ(text.out, "square.ppm: 1 box\n  1 0.9690 6.0 5.0 23.0 22.0\n") << text.err;
  const ProcessResult json = Detect({"--cascade=cascade.txt", "--json", "square.ppm"});
  EXPECT_NE(json.out.find("\"keypoints\": [[14, 10], [14, 10], [14, 10], [14, 10], [14, 10]]"),
            std::string::npos)
      << json.out;
  const ProcessResult sure =
      Detect({"--cascade=cascade.txt", "--confidence=0.98", "square.ppm", "square.ppm"});
  EXPECT_EQ(sure.out, "square.ppm: 0 boxes\nsquare.ppm: 0 boxes\n") << sure.err;
}

TEST_F(DeployCascade, LargerObjectsAreFoundInSmallerSizes) {
  // Of 24 x 24 pixels in the picture, 12 x 12 in half of its size.
  std::string file = "P6\n48 40\n255\n";
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 48; ++x) {
      file += std::string(3, x >= 16 && x < 40 && y >= 8 && y < 32 ? '\xff' : '\0');
    }
  }
  temp_.Write("large.ppm", file);
  std::string cascade = kCascade;
  cascade.replace(cascade.find("min_size: 12"), 12, "min_size: 24");
  temp_.Write("half.txt", cascade);
  const ProcessResult found = Detect({"--cascade=half.txt", "large.ppm"});
  EXPECT_EQ(found.out, "large.ppm: 1 box\n  1 0.9690 12.2 10.0 45.8 40.0\n") << found.err;
}

TEST_F(DeployCascade, MistakesAreExplained) {
  const auto expect = [&](const std::string& file, const std::string& text) {
    temp_.Write("bad.txt", file);
    const ProcessResult result = Detect({"--cascade=bad.txt", "square.ppm"});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  };
  const std::string good = kCascade;
  expect("min_size: 20", "needs two stages or more");
  expect("treshold: 1", "unknown field 'treshold'");
  expect(good + "factor: 1", "factor must be above 0 and below 1");
  expect(good + "stage { net: \"second.prototxt\" weights: \"second.caffemodel\" }",
         "stage 3: threshold is missing");
  expect(good + "stage { net: \"second.prototxt\" threshold: 0.5 }",
         "stage 3: weights are missing");
  expect(good + "interpolation: \"best\"", "best");
  temp_.Write("gray.prototxt",
              "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 1 "
              "dim: 24 dim: 24 } } }\nlayer { name: 'p' type: 'Power' bottom: 'data' top: 'p' }");
  expect(good + "stage { net: \"gray.prototxt\" weights: \"second.caffemodel\" threshold: 0.5 }",
         "stage 3: the net must have one input, N x 3 x H x W or N x H x W x 3");
  const ProcessResult both =
      Detect({"--cascade=cascade.txt", "--model=first.prototxt", "square.ppm"});
  EXPECT_NE(both.err.find("--model has no effect with --cascade"), std::string::npos) << both.err;
}

}  // namespace
}  // namespace crema
