// Detectors of regions, against the formulas of py-faster-rcnn, written a second time.
#include "inference/region_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "core/strings.h"
#include "inference/detector.h"
#include "inference/image_model.h"
#include "inference/segmenter.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/region_net.h"

namespace crema {
namespace {

using test::kRegionNet;

std::string WithText(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// As the commands open a net.
std::shared_ptr<const Model> OpenedRegions(const std::string& text, ModelCard card = {}) {
  NetFile net = ParseNet(text, "net.prototxt");
  PrepareRegionNet(&net, &card);
  return Model::Make(net, {}, card, {}, test::TestRegistry(), NullSink());
}

struct RegionRow {
  std::array<double, 4> box;
  double score;
  int label;
};

// py_cpu_nms.
std::vector<RegionRow> RegionNms(std::vector<RegionRow> rows, double threshold) {
  std::ranges::stable_sort(rows, std::ranges::greater{}, &RegionRow::score);
  std::vector<RegionRow> kept;
  const auto area = [](const std::array<double, 4>& b) {
    return (b[2] - b[0] + 1) * (b[3] - b[1] + 1);
  };
  for (const RegionRow& row : rows) {
    const bool stays = std::ranges::none_of(kept, [&](const RegionRow& k) {
      const double w = std::min(k.box[2], row.box[2]) - std::max(k.box[0], row.box[0]) + 1;
      const double h = std::min(k.box[3], row.box[3]) - std::max(k.box[1], row.box[1]) + 1;
      const double common = std::max(0.0, w) * std::max(0.0, h);
      return common / (area(k.box) + area(row.box) - common) > threshold;
    });
    if (stays) kept.push_back(row);
  }
  return kept;
}

struct RegionOutputs {
  std::vector<float> rois, scores, boxes;
};

RegionOutputs DrawOutputs(size_t rows, size_t classes, size_t numbers, double width,
                          double height) {
  std::mt19937 generator(5);
  const auto draw = [&](double low, double high) {
    return static_cast<float>(low + (high - low) * static_cast<double>(generator()) / 4294967296.0);
  };
  RegionOutputs outputs;
  for (size_t r = 0; r < rows; ++r) {
    const float x = draw(0, width * 0.7), y = draw(0, height * 0.7);
    const float right = x + draw(0, width * 0.3), bottom = y + draw(0, height * 0.3);
    for (const float v : {0.0F, x, y, right, bottom}) outputs.rois.push_back(v);
    for (size_t c = 0; c < classes; ++c) outputs.scores.push_back(draw(0, 1));
    for (size_t k = 0; k < numbers; ++k) outputs.boxes.push_back(draw(-0.4, 0.4));
  }
  return outputs;
}

// im_detect and the loop over classes after it.
std::vector<RegionRow> ImDetect(const RegionOutputs& outputs, size_t classes, bool agnostic,
                                const std::array<double, 2>& scale, int width, int height,
                                double threshold, double overlap) {
  std::vector<RegionRow> all;
  const size_t rows = outputs.rois.size() / 5, numbers = outputs.boxes.size() / rows;
  for (size_t c = 1; c < classes; ++c) {
    std::vector<RegionRow> of_class;
    for (size_t r = 0; r < rows; ++r) {
      std::array<double, 4> box;
      for (size_t k = 0; k < 4; ++k) box[k] = double{outputs.rois[5 * r + 1 + k]} / scale[k % 2];
      const double w = box[2] - box[0] + 1, h = box[3] - box[1] + 1;
      const float* d = outputs.boxes.data() + r * numbers + 4 * (agnostic ? 1 : c);
      const double x = double{d[0]} * w + (box[0] + 0.5 * w);
      const double y = double{d[1]} * h + (box[1] + 0.5 * h);
      const double pw = std::exp(double{d[2]}) * w, ph = std::exp(double{d[3]}) * h;
      box = {std::max(std::min(x - 0.5 * pw, width - 1.0), 0.0),
             std::max(std::min(y - 0.5 * ph, height - 1.0), 0.0),
             std::max(std::min(x + 0.5 * pw, width - 1.0), 0.0),
             std::max(std::min(y + 0.5 * ph, height - 1.0), 0.0)};
      const double score = outputs.scores[r * classes + c];
      if (score > threshold) of_class.push_back({box, score, static_cast<int>(c)});
    }
    const std::vector<RegionRow> kept = RegionNms(of_class, overlap);
    all.insert(all.end(), kept.begin(), kept.end());
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &RegionRow::score);
  return all;
}

void ExpectDecoded(const std::string& net, size_t numbers, std::optional<double> nms) {
  ModelCard card;
  card.head_overlap = nms;
  const auto model = OpenedRegions(net, card);
  const Detector detector(model, 0.3);
  EXPECT_EQ(detector.classes(), 3);
  EXPECT_EQ(detector.outputs()[0], "rois_output");
  constexpr int kWidth = 130, kHeight = 97;
  const Preprocessing& pixels = model->card().preprocessing;
  EXPECT_EQ(pixels.fit, ImageFit::kReshape);
  const ImagePlacement place = PlaceImage(pixels, kHeight, kWidth, 16, 16);
  const std::array<double, 2> scale = {804.0 / 130, 600.0 / 97};  // whole sides
  EXPECT_EQ(place.input_height, 600);
  EXPECT_EQ(place.input_width, 804);
  const RegionOutputs drawn = DrawOutputs(40, 3, numbers, place.input_width, place.input_height);
  const std::array<std::span<const float>, 3> values = {drawn.rois, drawn.scores, drawn.boxes};
  const std::vector<FoundBox> found = detector.BoxesOf(values, 0, kHeight, kWidth, place, 0.3);
  const std::vector<RegionRow> expected =
      ImDetect(drawn, 3, numbers == 8, scale, kWidth, kHeight, 0.3, nms.value_or(0.3));
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GT(found.size(), 10U) << "the test says little";
  const auto all = ImDetect(drawn, 3, numbers == 8, scale, kWidth, kHeight, 0.3, 1);
  ASSERT_LT(found.size(), all.size()) << "NMS drops none";
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].label, expected[i].label) << i;
    EXPECT_EQ(found[i].score, expected[i].score) << i;
    EXPECT_NEAR(found[i].box.xmin, expected[i].box[0], 1e-9) << i;
    EXPECT_NEAR(found[i].box.ymin, expected[i].box[1], 1e-9) << i;
    EXPECT_NEAR(found[i].box.xmax, expected[i].box[2], 1e-9) << i;
    EXPECT_NEAR(found[i].box.ymax, expected[i].box[3], 1e-9) << i;
  }
}

// The outputs of R-FCN: maps of one place, reshaped; one box for all classes.
std::string ReshapedNet() {
  std::string net = WithText(kRegionNet, R"(type: "Flatten" bottom: "boxes" top: "bbox_pred")",
                             R"(type: "Reshape" bottom: "boxes" top: "bbox_pred" )"
                             R"(reshape_param { shape { dim: -1 dim: 8 } })");
  net =
      WithText(net, R"( bottom: "zero" bottom: "zero" bottom: "zero" bottom: "zero" top: "boxes")",
               R"( top: "boxes")");
  net = WithText(
      net, R"(layer { name: "cls_score" type: "Flatten" bottom: "scores" top: "cls_score" })", "");
  return WithText(net, R"(type: "Softmax" bottom: "cls_score" top: "cls_prob" })",
                  R"(type: "Softmax" bottom: "scores" top: "cls_prob_pre" }
layer { name: "cls_prob_reshape" type: "Reshape" bottom: "cls_prob_pre" top: "cls_prob" reshape_param { shape { dim: -1 dim: 3 } } })");
}

TEST(RegionHead, DecodesABoxForEachClass) { ExpectDecoded(kRegionNet, 12, {}); }

TEST(RegionHead, DecodesOneBoxForAllClasses) { ExpectDecoded(ReshapedNet(), 8, {}); }

TEST(RegionHead, TakesTheOverlapOfTheModel) { ExpectDecoded(kRegionNet, 12, 0.1); }

TEST(RegionHead, TheInputTakesTheSizeOfEachPicture) {
  for (const std::string& net : {std::string(kRegionNet), ReshapedNet()}) {
    const Detector detector(OpenedRegions(net), 0.6);
    Preprocessing pixels = detector.image_model().model().card().preprocessing;
    pixels.interpolation = Interpolation::kNearest;
    pixels.resize_height = 32;
    pixels.resize_width = 64;
    // Its first place is bright. A factor of 2 leads to the short side of 32, and 0.5 to the long
    // one of 64.
    const auto picture = [](int height, int width, int side) {
      Image image{.channels = 1, .height = height, .width = width, .pixels = {}};
      for (int i = 0; i < height * width; ++i) {
        image.pixels.push_back(i / width < side && i % width < side ? 255 : 0);
      }
      return image;
    };
    const std::vector<Image> images = {picture(16, 24, 8), picture(32, 128, 32),
                                       picture(16, 24, 0)};
    Detector::Worker worker(detector, pixels);
    const std::vector<std::vector<FoundBox>> found = worker.Detect(images);
    ASSERT_EQ(found.size(), 3U);
    const auto expect = [](const std::vector<FoundBox>& boxes, double xmin, double xmax,
                           double ymax) {
      ASSERT_EQ(boxes.size(), 1U);
      EXPECT_EQ(boxes[0].label, 1);
      EXPECT_GT(boxes[0].score, 0.999);
      EXPECT_EQ(boxes[0].box.xmin, xmin);
      EXPECT_EQ(boxes[0].box.ymin, 0);
      EXPECT_EQ(boxes[0].box.xmax, xmax);
      EXPECT_EQ(boxes[0].box.ymax, ymax);
    };
    // The transform of py-faster-rcnn makes regions a pixel larger than their anchors.
    expect(found[0], 4.5, 13.5, 9);    // of the region 0, 0, 8, 8 of the picture
    expect(found[1], 16.5, 49.5, 31);  // of 0, 0, 32, 30
    EXPECT_TRUE(found[2].empty());
  }
}

TEST(RegionHead, APictureWithoutRegionsHasNoBoxes) {
  const Detector detector(OpenedRegions(WithText(kRegionNet, "min_size: 0", "min_size: 1000")), 0);
  Detector::Worker worker(detector, detector.image_model().model().card().preprocessing);
  const Image image{.channels = 1, .height = 2, .width = 2, .pixels = {255, 255, 255, 255}};
  EXPECT_TRUE(worker.Detect({&image, 1})[0].empty());
}

TEST(RegionHead, ALetterboxKeepsTheSizeOfTheInput) {
  ModelCard card;
  card.preprocessing.fit = ImageFit::kLetterbox;
  card.preprocessing.pad = 0;
  std::string net = WithText(kRegionNet, "dim: 16 dim: 16", "dim: 64 dim: 32");
  const Detector detector(OpenedRegions(net, card), 0.6);
  Image image{.channels = 1, .height = 16, .width = 16, .pixels = {}};
  for (int i = 0; i < 16 * 16; ++i) image.pixels.push_back(i / 16 < 8 && i % 16 < 8 ? 255 : 0);
  card.preprocessing.interpolation = Interpolation::kNearest;
  // Scaled by 2, with 16 rows of bars above.
  Detector::Worker worker(detector, card.preprocessing);
  const std::vector<FoundBox> found = worker.Detect({&image, 1})[0];
  ASSERT_FALSE(found.empty());
  const auto box = std::ranges::find_if(found, [](const FoundBox& f) { return f.box.ymax == 9; });
  ASSERT_NE(box, found.end());
  EXPECT_EQ(box->box.ymin, 0);
  EXPECT_EQ(box->box.xmin, 4.5);
  EXPECT_EQ(box->box.xmax, 13.5);
}

TEST(RegionHead, NetsThatDoNotFitAreExplained) {
  const auto expect = [](const std::string& net, const std::string& message) {
    const std::string error = test::ErrorOf([&] { Detector(OpenedRegions(net), 0.6); });
    EXPECT_TRUE(test::Contains(error, message)) << message << "\n" << error;
  };
  expect(WithText(kRegionNet, R"( bottom: "zero" bottom: "zero" bottom: "zero" top: "boxes")",
                  R"( top: "boxes")"),
         "their boxes (R x 4C, or R x 8 for all classes); it has 'cls_prob' 1x3, 'bbox_pred' 1x9, "
         "'rois_output' 1x5");
  expect(WithText(kRegionNet, "dim: 1 dim: 3 }", "dim: 1 dim: 2 }"),
         "image sizes of shape 1x2, expected 1 x 3: height, width, scale");
  expect(WithText(kRegionNet, R"(type: "Softmax" bottom: "cls_score")",
                  R"(type: "Sigmoid" bottom: "cls_score")"),
         "their scores of C classes (R x C, from a Softmax)");
  // Fast R-CNN takes the regions as an input.
  std::string fast = WithText(kRegionNet, R"(name: "im_info" type: "Input" top: "im_info")",
                              R"(name: "rois" type: "Input" top: "rois")");
  fast = WithText(fast, "dim: 1 dim: 3 }", "dim: 1 dim: 5 }");
  fast = WithText(
      fast,
      R"(layer { name: "proposal" type: "Proposal" bottom: "rpn" bottom: "moves" )"
      R"(bottom: "im_info" top: "rois" proposal_param { ratio: 1 scale: 1 min_size: 0 } })",
      "");
  expect(fast, "a net for detection has one input; this one has 2: data, rois");
  // The names of other heads are those of other outputs.
  ModelCard card;
  card.head = "yolov8";
  const std::string other = test::ErrorOf([&] { Detector(OpenedRegions(kRegionNet, card), 0.6); });
  EXPECT_TRUE(test::Contains(other, "the head yolov8 has outputs")) << other;
}

TEST(RegionHead, OtherNetsAreNotReshaped) {
  ModelCard card;
  card.preprocessing.fit = ImageFit::kReshape;
  card.preprocessing.short_side = 32;
  const std::string error = test::ErrorOf([&] {
    OpenedRegions(
        "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 1 "
        "dim: 4 dim: 4 } } } layer { name: 'y' type: 'Power' bottom: 'data' top: 'y' }",
        card);
  });
  EXPECT_TRUE(test::Contains(error, "the fit 'reshape' needs a net that takes the size")) << error;
}

TEST(RegionHead, NetsOfAnySizeAreNotSegmented) {
  const auto model = OpenedRegions(std::string(kRegionNet) +
                                   "layer { name: 's' type: 'Softmax' bottom: 'rpn' top: 's' }");
  EXPECT_NE(test::ErrorOf([&] { Segmenter(model, "s"); }).find("takes nets of one size"),
            std::string::npos);
}

TEST(RegionHead, TakesTheSizesOfOneImage) {
  std::string two =
      WithText(kRegionNet, "dim: 1 dim: 1 dim: 16 dim: 16", "dim: 2 dim: 1 dim: 16 dim: 16");
  two = WithText(two, "shape { dim: 1 dim: 3 }", "shape { dim: 2 dim: 3 }");
  const auto model = OpenedRegions(two);
  EXPECT_NE(
      test::ErrorOf([&] { ImageModel(model, "detection"); }).find("takes one image at a time"),
      std::string::npos);
}

// Each pair doubles the paths.
TEST(RegionHead, FollowsManyPathsOnce) {
  std::string text =
      "layer { name: 'x' type: 'Input' top: 'x0' input_param { shape { dim: 1 dim: 2 } } }";
  for (int i = 0; i < 40; ++i) {
    text += StrCat("layer { name: 'l", i, "' type: 'Slice' bottom: 'x", i, "' top: 'a", i,
                   "' top: 'b", i, "' } layer { name: 'c", i, "' type: 'Concat' bottom: 'a", i,
                   "' bottom: 'b", i, "' top: 'x", i + 1, "' }");
  }
  const NetFile net = ParseNet(text, "net.prototxt");
  EXPECT_FALSE(IsMovedFrom(net.net, "x40", "Convolution"));
  EXPECT_TRUE(IsMovedFrom(net.net, "x40", "Input"));
}

}  // namespace
}  // namespace crema
