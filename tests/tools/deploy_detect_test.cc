#include <gtest/gtest.h>

#include <filesystem>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/npy.h"
#include "runtime/weights.h"
#include "support/net.h"
#include "support/process.h"
#include "support/region_net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::ProcessResult;
using test::RunProcess;
using test::TempDir;

// Two priors, the left and the right half of the picture. The score of class 1 grows with the mean
// of the picture, the boxes are the priors.
constexpr const char* kRaw = R"(name: "halves"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 1 dim: 4 dim: 4 } } }
layer { name: "scores" type: "InnerProduct" bottom: "data" top: "scores" inner_product_param { num_output: 4 } }
layer { name: "boxes" type: "InnerProduct" bottom: "data" top: "boxes" inner_product_param { num_output: 8 } }
)";
constexpr const char* kTail = R"(
layer { name: "map" type: "Pooling" bottom: "data" top: "map" pooling_param { pool: AVE kernel_h: 4 kernel_w: 2 stride_h: 4 stride_w: 2 } }
layer { name: "priors" type: "PriorBox" bottom: "map" bottom: "data" top: "priors" prior_box_param { width: 2 height: 4 } }
layer { name: "found" type: "DetectionOutput" bottom: "boxes" bottom: "scores" bottom: "priors" top: "found" detection_output_param { num_classes: 2 } }
)";

class DeployDetect : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_OPENCV
    GTEST_SKIP() << "this build has no OpenCV";
#endif
    temp_.Write("raw.prototxt", kRaw);
    temp_.Write("tail.prototxt", kTail);
    temp_.Write("whole.prototxt", std::string(kRaw) + kTail);
    const auto plan = test::PlanText(kRaw, TEST);
    const auto weights = Weights::Make(*plan, 1);
    // Scores: background 0, class 1 the mean of the left or right half.
    const std::span<float> score = weights->blob(0).span<float>();
    std::ranges::fill(score, 0.0F);
    for (size_t i = 0; i < 16; ++i) score[(i % 4 < 2 ? 16U : 48U) + i] = 1.0F / 8;
    for (size_t b = 1; b < 4; ++b) std::ranges::fill(weights->blob(b).span<float>(), 0.0F);
    WriteCaffemodel(weights->Export(*plan), temp_.File("m.caffemodel"));
    // Bright on the left.
    std::string pixels;
    for (int i = 0; i < 8 * 8; ++i) pixels += static_cast<char>(i % 8 < 4 ? 255 : 0);
    temp_.Write("left.pgm", "P5\n8 8\n255\n" + pixels);
    temp_.Write("dark.pgm", "P5\n8 8\n255\n" + std::string(64, '\0'));
    temp_.Write("labels.txt", "nothing\nlamp\n");
  }

  ProcessResult Detect(std::vector<std::string> arguments) const {
    std::vector<std::string> command = {Bin("deploy"), "detect", "--weights=m.caffemodel",
                                        "--scale=0.00392156862745"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunProcess(command, temp_.path());
  }

  TempDir temp_;
};

TEST_F(DeployDetect, BoxesOfACropAreInPixelsOfThePicture) {
  std::string pixels;
  for (int i = 0; i < 8 * 4; ++i) pixels += static_cast<char>(i % 8 < 4 ? 255 : 0);
  temp_.Write("wide.pgm", "P5\n8 4\n255\n" + pixels);
  // The crop has columns 2 to 5; its left half, columns 2 and 3, is bright.
  const ProcessResult result = Detect({"--model=whole.prototxt", "--fit=crop", "wide.pgm"});
  EXPECT_EQ(result.out, "wide.pgm: 1 box\n  1 1.0000 2.0 0.0 4.0 4.0\n") << result.err;
}

TEST_F(DeployDetect, PrintsBoxesInPixelsOfThePicture) {
  const ProcessResult result =
      Detect({"--model=whole.prototxt", "--labels=labels.txt", "left.pgm", "dark.pgm"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "left.pgm: 1 box\n  lamp 1.0000 0.0 0.0 4.0 8.0\ndark.pgm: 0 boxes\n");
}

// One place for each half of the picture, with one anchor as large as a place. The object grows
// with the mean of the half.
TEST_F(DeployDetect, HeadsOfYoloAreFound) {
  const std::string begin =
      "name: 'yolo' layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 "
      "dim: 1 dim: 4 dim: 4 } } }\n"
      "layer { name: 'p' type: 'Convolution' bottom: 'data' top: 'p' convolution_param { "
      "num_output: 6 kernel_h: 4 kernel_w: 2 stride_h: 4 stride_w: 2 } }\n";
  const std::string v2 = begin +
                         "layer { name: 'found' type: 'YoloDetectionOutput' bottom: 'p' top: "
                         "'found' yolo_detection_output_param { num_classes: 1 num_box: 1 biases: "
                         "1 biases: 1 } }";
  const std::string v3 = begin +
                         "layer { name: 'found' type: 'Yolov3DetectionOutput' bottom: 'p' top: "
                         "'found' yolov3_detection_output_param { num_classes: 1 num_box: 1 "
                         "biases: 16 biases: 16 mask: 0 anchors_scale: 16 mask_group_num: 1 } }";
  const auto plan = test::PlanText(v2, TEST);
  const auto weights = Weights::Make(*plan, 1);
  const std::span<float> weight = weights->blob(0).span<float>();
  std::ranges::fill(weight, 0.0F);
  std::ranges::fill(weight.subspan(4 * 8, 8), 2.0F);  // object
  std::ranges::fill(weights->blob(1).span<float>(), 0.0F);
  weights->blob(1).span<float>()[4] = -8;
  weights->blob(1).span<float>()[5] = 40;  // the class is certain
  WriteCaffemodel(weights->Export(*plan), temp_.File("m.caffemodel"));
  temp_.Write("v2.prototxt", v2);
  temp_.Write("v3.prototxt", v3);
  for (const char* net : {"v2.prototxt", "v3.prototxt"}) {
    const ProcessResult result =
        Detect({std::string("--model=") + net, "--labels=labels.txt", "left.pgm", "dark.pgm"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "left.pgm: 1 box\n  lamp 0.9997 0.0 0.0 4.0 8.0\ndark.pgm: 0 boxes\n")
        << net;
    const ProcessResult all =
        Detect({std::string("--model=") + net, "--confidence=0.0001", "dark.pgm"});
    EXPECT_EQ(all.out.substr(0, all.out.find('\n')), "dark.pgm: 2 boxes") << all.err;
    // An exported model is one for detection and keeps its thresholds.
    const ProcessResult exported =
        RunProcess({Bin("deploy"), "export", std::string("--model=") + net,
                    "--weights=m.caffemodel", "--scale=0.00392156862745", "--output=m.crema"},
                   temp_.path());
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
    const ProcessResult from_file =
        RunProcess({Bin("deploy"), "detect", "--model=m.crema", "left.pgm"}, temp_.path());
    EXPECT_EQ(from_file.out, "left.pgm: 1 box\n  1 0.9997 0.0 0.0 4.0 8.0\n") << from_file.err;
  }
}

TEST_F(DeployDetect, EachOfABatchHasItsOwnBoxes) {
  const std::vector<std::string> images = {"left.pgm", "dark.pgm", "left.pgm"};
  const auto detect = [&](const std::string& model, const std::string& batch) {
    std::vector<std::string> arguments = {"--model=" + model, batch, "--npy=boxes.npy"};
    arguments.insert(arguments.end(), images.begin(), images.end());
    const ProcessResult result = Detect(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string one = detect("whole.prototxt", "--batch=1");
  EXPECT_EQ(one,
            "left.pgm: 1 box\n  1 1.0000 0.0 0.0 4.0 8.0\ndark.pgm: 0 boxes\n"
            "left.pgm: 1 box\n  1 1.0000 0.0 0.0 4.0 8.0\n");
  EXPECT_EQ(detect("whole.prototxt", "--batch=2"), one);
  const Tensor boxes = ParseNpy(temp_.Read("boxes.npy"), "boxes.npy");
  ASSERT_EQ(boxes.shape(), (Shape{2, 7}));
  EXPECT_EQ(boxes.view().data<float>()[7], 2) << "the box of the third picture";
  // A net that outputs one row for all images cannot take two.
  std::string text = std::string(kRaw) + kTail;
  const size_t at = text.find("bottom: \"boxes\" bottom: \"scores\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 15, "bottom: \"row\"");
  text.insert(text.find("layer { name: \"found\""),
              "layer { name: \"row\" type: \"Reshape\" bottom: \"boxes\" top: \"row\" "
              "reshape_param { shape { dim: 1 dim: -1 } } }\n");
  text.replace(text.find("dim: 4"), 6, "dim: 1");
  temp_.Write("row.prototxt", text);
  EXPECT_EQ(detect("row.prototxt", "--batch=2"), one);
}

TEST_F(DeployDetect, ATailDecodesRawBoxes) {
  const std::string whole = Detect({"--model=whole.prototxt", "left.pgm"}).out;
  const ProcessResult tail = Detect({"--model=raw.prototxt", "--tail=tail.prototxt", "left.pgm"});
  EXPECT_EQ(tail.exit_code, 0) << tail.err;
  EXPECT_EQ(tail.out, whole);
  const ProcessResult raw = Detect({"--model=raw.prototxt", "left.pgm"});
  EXPECT_EQ(raw.exit_code, 2);
  EXPECT_NE(raw.err.find("--tail"), std::string::npos) << raw.err;
}

// 300 rows of corners, score, class and one point, as those of YOLO26; the score of the first one
// grows with the brightness of the picture.
class DeployHead : public DeployDetect {
 protected:
  void SetUp() override {
    DeployDetect::SetUp();
    if (IsSkipped()) return;
    const std::string net = R"(name: "rows"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2700 } }
layer { name: "rows" type: "Reshape" bottom: "ip" top: "rows" reshape_param { shape { dim: 0 dim: 300 dim: 9 } } }
)";
    temp_.Write("rows.prototxt", net);
    const auto plan = test::PlanText(net, TEST);
    const auto weights = Weights::Make(*plan, 1);
    std::ranges::fill(weights->blob(0).span<float>(), 0.0F);
    std::ranges::fill(weights->blob(0).span<float>().subspan(size_t{4} * 16, 16), 1.0F / 8);
    std::ranges::fill(weights->blob(1).span<float>(), 0.0F);
    const float row[] = {0, 1, 2, 3, 0, 1, 1, 2, 0.5F};
    std::ranges::copy(row, weights->blob(1).span<float>().begin());
    WriteCaffemodel(weights->Export(*plan), temp_.File("m.caffemodel"));
  }
};

TEST_F(DeployHead, BoxesAndPointsAreInPixelsOfThePicture) {
  std::string pixels;
  for (int i = 0; i < 8 * 4; ++i) pixels += static_cast<char>(i % 8 < 4 ? 255 : 0);
  temp_.Write("wide.pgm", "P5\n8 4\n255\n" + pixels);
  const ProcessResult text = Detect({"--model=rows.prototxt", "left.pgm", "dark.pgm"});
  EXPECT_EQ(text.out, "left.pgm: 1 box\n  1 1.0000 0.0 2.0 4.0 6.0\ndark.pgm: 0 boxes\n")
      << text.err;
  EXPECT_EQ(Detect({"--model=rows.prototxt", "--batch=2", "left.pgm", "dark.pgm"}).out, text.out);
  // The input has one row of bars above the picture, and one below.
  const ProcessResult wide = Detect(
      {"--model=rows.prototxt", "--fit=letterbox", "--json", "--draw=drawn.png", "wide.pgm"});
  EXPECT_NE(wide.out.find("\"box\": [0, 0, 4, 4], \"keypoints\": [[2, 2]]}]}"), std::string::npos)
      << wide.out << wide.err;
  EXPECT_TRUE(fs::exists(temp_.File("drawn.png")));
}

TEST_F(DeployHead, AnExportedModelKeepsItsHead) {
  const ProcessResult exported =
      RunProcess({Bin("deploy"), "export", "--model=rows.prototxt", "--weights=m.caffemodel",
                  "--scale=0.00392156862745", "--head=yolov10", "--nms=0.4", "--output=m.crema"},
                 temp_.path());
  EXPECT_NE(exported.out.find("to detect"), std::string::npos) << exported.out << exported.err;
  const ProcessResult found = RunProcess(
      {Bin("deploy"), "detect", "--model=m.crema", "--confidence=0.9", "left.pgm"}, temp_.path());
  EXPECT_EQ(found.out, "left.pgm: 1 box\n  1 1.0000 0.0 2.0 4.0 6.0\n") << found.err;
  const ProcessResult other = RunProcess(
      {Bin("deploy"), "detect", "--model=m.crema", "--head=yolox", "left.pgm"}, temp_.path());
  EXPECT_NE(other.err.find("--head belongs to a net"), std::string::npos) << other.err;
}

TEST_F(DeployHead, HeadsThatDoNotSuitTheNetAreExplained) {
  const auto expect = [&](const std::string& flag, const std::string& text) {
    const ProcessResult result = Detect({"--model=rows.prototxt", flag, "left.pgm"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  };
  expect("--head=retinaface", "the head retinaface has outputs N x boxes x 4, 2 and 10");
  expect("--head=retinaface", "this net has 'rows' Nx300x9");
  expect("--head=yolov9", "'yolov9' is no head of a detector");
  const ProcessResult low =
      RunProcess({Bin("deploy"), "export", "--model=rows.prototxt", "--weights=m.caffemodel",
                  "--confidence=0.2", "--output=m.crema"},
                 temp_.path());
  EXPECT_NE(low.err.find("give it to deploy detect"), std::string::npos) << low.err;
}

// A detector of regions: no weights, and two inputs.
class DeployRegions : public DeployDetect {
 protected:
  void SetUp() override {
    DeployDetect::SetUp();
    if (IsSkipped()) return;
    temp_.Write("regions.prototxt", test::kRegionNet);
    temp_.Write("lamp.pgm", test::PictureOfALamp());
  }
  ProcessResult Deploy(const std::string& action, std::vector<std::string> arguments) const {
    std::vector<std::string> command = {Bin("deploy"), action};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunProcess(command, temp_.path());
  }
  std::string Boxes(std::vector<std::string> arguments) const {
    const ProcessResult result = Deploy("detect", std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
};

constexpr const char* kLampFound = "lamp.pgm: 1 box\n  1 1.0000 4.5 0.0 13.5 9.0\n";

TEST_F(DeployRegions, TheInputTakesTheSizeOfEachPicture) {
  const std::string model = "--model=regions.prototxt", resize = "--resize=32x48";
  EXPECT_EQ(Boxes({model, resize, "lamp.pgm"}), kLampFound);
  // left.pgm is a square whose left half is bright: two places, one above the other.
  const std::string both = Boxes({model, resize, "--batch=2", "lamp.pgm", "left.pgm", "dark.pgm"});
  EXPECT_TRUE(both.starts_with(kLampFound)) << both;
  EXPECT_NE(both.find("left.pgm: 2 boxes\n"), std::string::npos) << both;
  EXPECT_TRUE(both.ends_with("dark.pgm: 0 boxes\n")) << both;
  EXPECT_EQ(Boxes({model, resize, "--fit=reshape", "lamp.pgm"}), kLampFound);
  // Without a size, the short side is 600, and the box of the first of many places is small.
  const std::string large = Boxes({model, "lamp.pgm"});
  EXPECT_NE(large.find("  1 1.0000 0.7 0.0 2.1 1.4\n"), std::string::npos) << large;
  const ProcessResult wrong =
      Deploy("detect", {model, "--fit=reshape", "--resize=32x20", "lamp.pgm"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("needs a resize of the short side"), std::string::npos) << wrong.err;
}

TEST_F(DeployRegions, AnExportedModelKeepsItsSizes) {
  const ProcessResult exported = Deploy(
      "export", {"--model=regions.prototxt", "--resize=32x48", "--nms=0.5", "--output=m.crema"});
  EXPECT_NE(exported.out.find("to detect"), std::string::npos) << exported.out << exported.err;
  EXPECT_EQ(Boxes({"--model=m.crema", "lamp.pgm"}), kLampFound);
  const ProcessResult same = Deploy("verify", {"--model=m.crema", "--against=m.crema", "lamp.pgm"});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_NE(same.out.find("rois_output"), std::string::npos) << same.out;
}

TEST_F(DeployRegions, OtherNetsDoNotReshape) {
  const ProcessResult other =
      Detect({"--model=whole.prototxt", "--fit=reshape", "--resize=32x48", "left.pgm"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("the fit 'reshape' needs a net that takes the size"), std::string::npos)
      << other.err;
}

TEST_F(DeployDetect, JsonConfidenceAndDrawing) {
  const ProcessResult result =
      Detect({"--model=whole.prototxt", "--json", "--confidence=0", "--draw=out.png", "left.pgm"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(
      result.out.starts_with("{\"image\": \"left.pgm\", \"detections\": [{\"label\": \"1\", "
                             "\"index\": 1, \"score\": "))
      << result.out;
  EXPECT_NE(result.out.find("\"box\": [0, 0, 4, 8]}]}"), std::string::npos) << result.out;
  EXPECT_TRUE(fs::exists(temp_.File("out.png")));
  EXPECT_EQ(Detect({"--model=whole.prototxt", "--draw=drawn", "left.pgm", "dark.pgm"}).exit_code, 3)
      << "no one writes .pgm in color, and each image says so";
}

TEST_F(DeployDetect, MistakesAreExplained) {
  const auto expect = [&](std::vector<std::string> arguments, const std::string& text, int code) {
    const ProcessResult result = Detect(std::move(arguments));
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  };
  const std::string model = "--model=whole.prototxt";
  expect({model}, "no images", 2);
  expect({model, "--confidence=2", "left.pgm"}, "--confidence is 2", 2);
  expect({model, "--nms=-1", "left.pgm"}, "--nms is -1", 2);
  expect({model, "--mean=1,2", "left.pgm"}, "--mean has 2 numbers for 1 channels", 2);
  expect({model, "--head=yolov8", "left.pgm"}, "a layer of this net does so", 2);
  expect({model, "--draw=out.xyz", "left.pgm"}, "no picture format", 3);
  temp_.Write("labels.txt", "one\n");
  expect({model, "--labels=labels.txt", "left.pgm"}, "background included", 2);
  temp_.Write("broken.png", "\x89PNG\r\n\x1a\n and nothing behind it");
  expect({model, "broken.png", "left.pgm"}, "broken.png", 3);
}

TEST_F(DeployDetect, SaysWhatThePixelsOfAKnownHeadShouldBe) {
  const fs::path slim = fs::path(CREMA_SOURCE_DIR) / "tests" / "models" / "slim-320";
  const std::vector<std::string> raw = {
      Bin("deploy"), "detect", "--model=" + (slim / "slim-320.prototxt").string(),
      "--weights=" + (slim / "slim-320.caffemodel").string(), (slim / "faces.jpg").string()};
  const std::string hint = "expect --rgb --mean=127 --scale=0.0078125";
  const ProcessResult warned = RunProcess(raw);
  EXPECT_EQ(warned.exit_code, 0) << warned.err;
  EXPECT_NE(warned.err.find(hint), std::string::npos) << warned.err;
  std::vector<std::string> scaled = raw;
  for (const char* flag : {"--rgb", "--mean=127", "--scale=0.0078125"}) scaled.emplace_back(flag);
  const ProcessResult quiet = RunProcess(scaled);
  EXPECT_EQ(quiet.exit_code, 0) << quiet.err;
  EXPECT_EQ(quiet.err.find("the pixels go into"), std::string::npos) << quiet.err;
  // A net whose first layer scales the pixels.
  std::string net = ReadFile((slim / "slim-320.prototxt").string());
  const size_t first = net.find("layer", net.find("\"Input\"") + 1);
  ASSERT_NE(first, std::string::npos);
  net.insert(first,
             "layer { name: \"s\" type: \"Power\" bottom: \"input\" top: \"input\" "
             "power_param { scale: 0.0078125 shift: -0.9921875 } }\n");
  temp_.Write("scaled.prototxt", net);
  std::vector<std::string> own = raw;
  own[2] = "--model=" + temp_.File("scaled.prototxt");
  own.emplace_back("--rgb");
  const ProcessResult same = RunProcess(own);
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.err.find("the pixels go into"), std::string::npos) << same.err;
  EXPECT_EQ(same.out, quiet.out);
}

}  // namespace
}  // namespace crema
