// The heads of YOLOv2 and YOLOv3 against boxes that other programs found.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

// The predictions of the recordings: two anchors, boxes made small, and classes times `sharp`.
Blob Waves(std::vector<int64_t> shape, int seed, float sharp = 1) {
  const int64_t channels = shape[1] / 2, places = shape[2] * shape[3];
  Values values;
  for (int64_t i = 0; i < shape[0] * shape[1] * places; ++i) {
    const auto at = static_cast<double>(i);
    auto value = static_cast<float>(3 * std::sin(at * (0.37 * (seed + 1)) + 0.0021 * at * at));
    const int64_t c = i / places % channels;
    if (c == 2 || c == 3) value *= 0.25F;
    if (c >= 5) value *= sharp;
    values.push_back(double{value});
  }
  return {std::move(shape), std::move(values)};
}

Values Found(const char* type, const std::string& text, const std::vector<Blob>& inputs) {
  return CallLayer(*TestRegistry().Find(type), {.prototxt = text, .inputs = inputs, .phase = TEST})
      .outputs[0];
}

Values FoundV2(const std::string& text, const std::vector<Blob>& inputs) {
  return Found("YoloDetectionOutput",
               StrCat("yolo_detection_output_param { num_box: 2 biases: 1.1 biases: 1.5 biases: 2 "
                      "biases: 1 ",
                      text, " }"),
               inputs);
}

Values FoundV3(const std::string& text, float sharp) {
  return Found("Yolov3DetectionOutput",
               StrCat("yolov3_detection_output_param { num_classes: 3 num_box: 2 biases: 10 "
                      "biases: 14 biases: 23 biases: 27 biases: 37 biases: 58 mask: 1 mask: 2 "
                      "mask: 0 mask: 1 anchors_scale: 32 anchors_scale: 16 mask_group_num: 2 ",
                      text, " }"),
               {Waves({1, 16, 2, 3}, 0, sharp), Waves({1, 16, 4, 6}, 1, sharp)});
}

// Rows of image, label, score and box.
void ExpectRows(const Values& got, const Values& expected, double score_tolerance = 1e-5) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], i % 7 == 2 ? score_tolerance : 1e-5)
        << "row " << i / 7 << " column " << i % 7;
  }
}

// Found by ncnn 1.0.20261020.
const Values kOneGrid{0, 3, 0.9017584, 0.2423653, 0.7438208,   0.6118188, 0.8626555,  //
                      0, 3, 0.8788461, 0.6913161, 0.443626,    0.8856037, 0.5862865,  //
                      0, 3, 0.6816151, 0.7699958, 0.3119913,   1.034207,  0.5769091,  //
                      0, 2, 0.6656095, 0.1475115, 0.6219113,   0.2759276, 0.8361174,  //
                      0, 1, 0.597032,  0.467725,  0.4668266,   0.7575104, 1.004726,   //
                      0, 3, 0.5877656, 0.7580876, -0.2979852,  1.222853,  0.3658772,  //
                      0, 2, 0.5727474, 0.6245794, 0.03091568,  0.8149804, 0.1490189,  //
                      0, 2, 0.5635857, 0.3157173, 0.5729483,   0.5032775, 0.9025995,  //
                      0, 1, 0.5489826, -0.283536, -0.02065124, 0.4430324, 0.413636,   //
                      0, 2, 0.5034682, 0.4302288, 0.03258318,  0.7238017, 0.3119227,  //
                      0, 3, 0.5027362, 0.585674,  -0.1328279,  0.9894144, 0.3117651};

TEST(YoloOutput, FindsTheBoxesOfNcnnInOneGrid) {
  const std::string text = "num_classes: 3 confidence_threshold: 0.5 nms_threshold: 0.3";
  ExpectRows(FoundV2(text, {Waves({1, 16, 4, 5}, 0)}), kOneGrid);
}

TEST(YoloOutput, FindsTheBoxesOfNcnnInTwoGrids) {
  const std::string text = "num_classes: 2 confidence_threshold: 0.7 nms_threshold: 0.1";
  ExpectRows(FoundV2(text, {Waves({1, 14, 3, 3}, 1), Waves({1, 14, 5, 4}, 2)}),
             {0, 1, 0.8986846, 0.4508123,  0.01246137, 1.39884,   0.187609,   //
              0, 1, 0.8807256, 0.2072246,  0.7918326,  0.7194421, 0.9969627,  //
              0, 1, 0.8445368, 0.1949758,  0.4267448,  0.413911,  0.6883317,  //
              0, 1, 0.782599,  0.1391086,  0.06706048, 0.4953827, 0.2787832,  //
              0, 1, 0.7646889, 0.3269435,  0.6698065,  1.476228,  0.8272697,  //
              0, 2, 0.703277,  -0.1843334, 0.2781494,  0.210045,  0.4318138});
}

// ncnn's score is 1 / (1 + e^-object (1 + e^-class)), which is the product of both probabilities
// only if that of the class is 1: here nearly so.
TEST(YoloOutput, FindsTheBoxesOfNcnnInTheGridsOfV3) {
  ExpectRows(FoundV3("confidence_threshold: 0.7 nms_threshold: 0.1", 16),
             {0, 2, 0.9522768, 0.782432,    0.3958193,   0.8670329, 0.539242,   //
              0, 3, 0.9521198, 0.2965898,   -0.1255255,  0.6334177, 0.2522939,  //
              0, 3, 0.9464701, -0.1938004,  0.6274045,   0.2631425, 1.115448,   //
              0, 2, 0.9457201, 0.9066881,   0.1086189,   1.071353,  0.3499303,  //
              0, 1, 0.944041,  0.5428306,   0.6632577,   0.7746938, 0.8665473,  //
              0, 3, 0.9439971, 0.7557793,   -0.1241702,  0.9614754, 0.1519694,  //
              0, 2, 0.9424627, 0.4878682,   0.6619561,   0.5370827, 0.766335,   //
              0, 2, 0.9258651, 0.3845725,   0.7092339,   0.4656802, 0.8241746,  //
              0, 1, 0.9146859, 0.4938117,   0.7894114,   0.5437799, 0.9066662,  //
              0, 2, 0.9143569, 0.3100874,   0.380192,    0.4236021, 0.5798993,  //
              0, 3, 0.8766823, 0.009581082, -0.07955717, 0.1570856, 0.3739887,  //
              0, 2, 0.8431246, 0.7713901,   0.2166879,   0.9157773, 0.4385349,  //
              0, 3, 0.7207269, 0.612242,    0.4362464,   0.663217,  0.5400403},
             1e-3);
}

// Found by a plain computation of the formulas of MobileNet-YOLO in double precision.
TEST(YoloOutput, ScoresOfV3AreProductsOfProbabilities) {
  ExpectRows(FoundV3("confidence_threshold: 0.65 nms_threshold: 0.1", 1),
             {0, 1, 0.8968062, 0.5428306,   0.6632577,   0.7746938, 0.8665473,  //
              0, 1, 0.8854626, 0.03608219,  0.6703863,   0.1733367, 0.8747562,  //
              0, 2, 0.8819439, 0.4878682,   0.6619561,   0.5370827, 0.766335,   //
              0, 2, 0.8741081, 0.3845724,   0.7092339,   0.4656802, 0.8241746,  //
              0, 1, 0.8713039, 0.4938117,   0.7894114,   0.5437799, 0.9066662,  //
              0, 3, 0.8391904, 0.7557793,   -0.1241701,  0.9614753, 0.1519694,  //
              0, 3, 0.8328478, 0.009581083, -0.07955716, 0.1570856, 0.3739887,  //
              0, 2, 0.7465747, 0.9035226,   0.1835877,   1.072844,  0.4946592,  //
              0, 3, 0.7370756, 0.2965898,   -0.1255255,  0.6334177, 0.2522939,  //
              0, 2, 0.7366954, 0.7713901,   0.216688,    0.9157772, 0.438535,   //
              0, 2, 0.7267967, 0.782432,    0.3958194,   0.8670329, 0.539242,   //
              0, 2, 0.7023742, 0.3100874,   0.380192,    0.4236021, 0.5798994,  //
              0, 3, 0.6769134, 0.612242,    0.4362464,   0.6632169, 0.5400403});
}

TEST(YoloOutput, ImagesOfABatchDoNotSuppressEachOther) {
  const Blob one = Waves({1, 16, 4, 5}, 0);
  Blob two{{2, 16, 4, 5}, one.values};
  two.values.insert(two.values.end(), one.values.begin(), one.values.end());
  Values expected = kOneGrid;
  for (size_t i = 0; i < kOneGrid.size(); ++i) {
    expected.push_back(i % 7 == 0 ? 1 : kOneGrid[i]);
  }
  ExpectRows(FoundV2("num_classes: 3 confidence_threshold: 0.5 nms_threshold: 0.3", {two}),
             expected);
}

TEST(YoloOutput, NothingFoundIsOneRowAnImage) {
  ExpectRows(FoundV2("num_classes: 3 confidence_threshold: 1", {Waves({2, 16, 2, 2}, 0)}),
             {0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1});
}

TEST(YoloOutput, ScoresThatAreNoNumberAreNoDetections) {
  Blob predictions = Waves({1, 16, 1, 1}, 0);
  predictions.values[4] = std::nan("");   // object of the first anchor
  predictions.values[13] = std::nan("");  // first class of the second
  ExpectRows(FoundV2("num_classes: 3 confidence_threshold: -1", {predictions}),
             {0, -1, -1, -1, -1, -1, -1});
}

TEST(YoloOutput, BoxesThatAreNotFiniteAreNoDetections) {
  Blob predictions = Waves({1, 16, 1, 1}, 0);
  predictions.values[0] = std::nan("");  // column of the first anchor
  predictions.values[10] = 1e4F;         // width of the second
  ExpectRows(FoundV2("num_classes: 3 confidence_threshold: -1", {predictions}),
             {0, -1, -1, -1, -1, -1, -1});
}

}  // namespace
}  // namespace crema::test
