// deploy detect --cascade.
#include <gtest/gtest.h>

#include "core/strings.h"
#include "support/cascade_files.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Bin;
using test::kCascade;
using test::ProcessResult;
using test::RunProcess;

class DeployCascade : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_OPENCV
    GTEST_SKIP() << "this build has no OpenCV";
#endif
    test::WriteCascade(temp_.path());
    temp_.Write("square.ppm", test::SquarePicture());
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

// The files have the size of their inputs, but the first net computes any size.
TEST_F(DeployCascade, StagesMayBeOnnxFiles) {
  for (const std::string stage : {"first", "second"}) {
    const ProcessResult exported = RunProcess(
        {Bin("deploy"), "export", StrCat("--model=", stage, ".prototxt"),
         StrCat("--weights=", stage, ".caffemodel"), "--task=none", "-o", stage + ".onnx"},
        temp_.path());
    ASSERT_EQ(exported.exit_code, 0) << exported.err;
  }
  temp_.Write("onnx.txt", R"(
stage { net: "first.onnx" threshold: 0.95 }
stage { net: "second.onnx" threshold: 0.9 nms_by: SMALLER }
min_size: 12 mean: 0 scale: 0.0038)");
  const ProcessResult found = Detect({"--cascade=onnx.txt", "square.ppm"});
  EXPECT_EQ(found.out, "square.ppm: 1 box\n  1 0.9690 6.0 5.0 23.0 22.0\n") << found.err;
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
  expect(good + "factor: 1", "factor must be from 0.1 to 0.95");
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
  expect(good + "stage { net: \"third.prototxt\" weights: \"second.caffemodel\" threshold: 0.5 }",
         "third.prototxt: there is no such file");
  temp_.Write("none.ppm", "no picture");
  const ProcessResult none = Detect({"--cascade=cascade.txt", "none.ppm", "square.ppm"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_EQ(none.out, "square.ppm: 1 box\n  1 0.9690 6.0 5.0 23.0 22.0\n") << none.err;
  const ProcessResult both =
      Detect({"--cascade=cascade.txt", "--model=first.prototxt", "square.ppm"});
  EXPECT_NE(both.err.find("--model has no effect with --cascade"), std::string::npos) << both.err;
}

}  // namespace
}  // namespace crema
