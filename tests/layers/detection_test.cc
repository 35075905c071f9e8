// Hand-computed values of the detection layers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/error.h"
#include "crema.pb.h"
#include "format/file.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using test::CallBuiltin;
using test::ExpectClose;

// Two priors: the left and the right half; variances of 1.
const Blob kHalves{{1, 2, 8}, {0, 0, 0.5, 1, 0.5, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};

TEST(PriorBoxTest, BoxesAndVariancesOfOnePlace) {
  const RunResult result = CallBuiltin(
      "PriorBox", {.prototxt = "prior_box_param { min_size: 4.9 max_size: 9 aspect_ratio: 4 "
                               "flip: false variance: 0.5 }",
                   .inputs = {{{1, 1, 1, 1}, {0}}, {{1, 1, 20, 40}, Values(800)}}});
  // Around (20, 10): 4 x 4, 6 x 6, 8 x 2.
  ExpectClose(result.outputs[0],
              {0.45, 0.4, 0.55, 0.6, 0.425, 0.35, 0.575, 0.65, 0.4, 0.45, 0.6, 0.55,
               0.5,  0.5, 0.5,  0.5, 0.5,   0.5,  0.5,   0.5,  0.5, 0.5,  0.5, 0.5});
}

TEST(DetectionOutputTest, RowsByLabelAndScore) {
  const RunResult result = CallBuiltin(
      "DetectionOutput",
      {.prototxt = "detection_output_param { num_classes: 3 confidence_threshold: 0.2 }",
       .inputs = {{{1, 8}, Values(8, 0)}, {{1, 6}, {0.9, 0.1, 0.5, 0.1, 0.3, 0.6}}, kHalves},
       .phase = TEST});
  ExpectClose(result.outputs[0], {0, 1, 0.3, 0.5, 0, 1,   1,  //
                                  0, 2, 0.6, 0.5, 0, 1,   1,  //
                                  0, 2, 0.5, 0,   0, 0.5, 1});
}

TEST(DetectionOutputTest, NothingFoundIsOneRowAnImage) {
  const RunResult result = CallBuiltin(
      "DetectionOutput",
      {.prototxt = "detection_output_param { num_classes: 2 confidence_threshold: 0.2 }",
       .inputs = {{{2, 8}, Values(16, 0)}, {{2, 4}, Values(8, 0)}, kHalves}});
  ExpectClose(result.outputs[0], {0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1});
}

TEST(DetectionOutputTest, WritesResultFiles) {
  const TempDir temp;
  temp.Write("map.txt", "item { name: 'none' label: 0 } item { name: 'dog' label: 1 }");
  temp.Write("sizes.txt", "first 100 200\nsecond 10 20\n");
  for (const auto& [format, file, text] :
       {std::tuple{"VOC", "det_dog.txt", "first 0.5 0 0 100 100\nsecond 0.75 10 0 20 10\n"},
        std::tuple{"ILSVRC", "det_.txt", "first 1 0.5 0 0 100 100\nsecond 1 0.75 10 0 20 10\n"},
        std::tuple{"COCO", "det_.json",
                   "[\n{\"image_id\": \"first\", \"category_id\": 1, \"bbox\": [0.00, 0.00, "
                   "100.00, 100.00], \"score\": 0.5},\n{\"image_id\": \"second\", "
                   "\"category_id\": 1, \"bbox\": [10.00, 0.00, 10.00, 10.00], \"score\": "
                   "0.75}\n]\n"}}) {
    CallBuiltin(
        "DetectionOutput",
        {.prototxt = "detection_output_param { num_classes: 2 confidence_threshold: 0.2 "
                     "save_output_param { output_directory: '" +
                     temp.File("results") + "' output_name_prefix: 'det_' output_format: '" +
                     format + "' label_map_file: '" + temp.File("map.txt") + "' name_size_file: '" +
                     temp.File("sizes.txt") + "' } }",
         .inputs = {{{2, 8}, Values(16, 0)}, {{2, 4}, {0, 0.5, 0, 0, 0, 0, 0, 0.75}}, kHalves}});
    EXPECT_EQ(ReadFile(temp.File(std::string("results/") + file)), text);
  }
}

TEST(DetectionOutputTest, ResultFilesHoldNumbersOnly) {
  const TempDir temp;
  temp.Write("map.txt", "item { name: 'dog' label: 1 }");
  temp.Write("sizes.txt", "first 100 200\n");
  const auto message = [&](double offset, double score) -> std::string {
    try {
      CallBuiltin("DetectionOutput",
                  {.prototxt = "detection_output_param { num_classes: 2 confidence_threshold: 0.2 "
                               "save_output_param { output_directory: '" +
                               temp.File("results") + "' output_format: 'COCO' label_map_file: '" +
                               temp.File("map.txt") + "' name_size_file: '" +
                               temp.File("sizes.txt") + "' } }",
                   .inputs = {{{1, 8}, Values(8, offset)}, {{1, 4}, {0, score, 0, 0}}, kHalves}});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(NAN, 0.5).find("image 'first' has score 0.5 and the box (nan"),
            std::string::npos);
  EXPECT_NE(message(0, INFINITY).find("score inf"), std::string::npos);
  EXPECT_EQ(message(INFINITY, 0.5), "");  // limited to the image
}

TEST(MultiBoxLossTest, OneMatchAndOneNegative) {
  const LayerCall call{
      .prototxt = "multibox_loss_param { num_classes: 2 neg_pos_ratio: 1 loc_weight: 2 }",
      .inputs = {{{1, 8}, {0.5, 0, 0, 2, 9, 9, 9, 9}},
                 {{1, 4}, {0, 0, 0, std::log(3)}},
                 kHalves,
                 {{1, 1, 2, 8}, {0, 1, 0, 0, 0, 0.5, 1, 0, -1, 7, 0, 0, 0, 0, 0, 0}}},
      .output_grads = {{1}}};
  const RunResult result = CallBuiltin("MultiBoxLoss", call);
  // Box: 2 (0.125 + 1.5); classes: ln 2 for the match, -ln 1/4 for the negative.
  ExpectClose(result.outputs[0], {3.25 + std::log(2) + std::log(4)});
  ExpectClose(result.input_grads[0], {1, 0, 0, 2, 0, 0, 0, 0});
  ExpectClose(result.input_grads[1], {0.5, -0.5, -0.75, 0.75});
}

TEST(MultiBoxLossTest, ObjectsThatCannotBeAreErrors) {
  const auto message = [](const Values& object) -> std::string {
    try {
      CallBuiltin(
          "MultiBoxLoss",
          {.prototxt = "multibox_loss_param { num_classes: 2 }",
           .inputs = {
               {{1, 8}, Values(8, 0)}, {{1, 4}, Values(4, 0)}, kHalves, {{1, 1, 1, 8}, object}}});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({0, 0, 0, 0, 0, 1, 1, 0}).find("background"), std::string::npos);
  EXPECT_NE(message({1, 1, 0, 0, 0, 1, 1, 0}).find("item 1 in row 0"), std::string::npos);
  EXPECT_NE(message({0, 1.5, 0, 0, 0, 1, 1, 0}).find("label 1.5"), std::string::npos);
  EXPECT_NE(message({0, 1, 0, NAN, 0, 1, 1, 0}).find("not a number"), std::string::npos);
}

TEST(DetectionEvaluateTest, HitsMissesAndDifficultObjects) {
  const RunResult result = CallBuiltin(
      "DetectionEvaluate",
      {.prototxt = "detection_evaluate_param { num_classes: 2 evaluate_difficult_gt: false }",
       .inputs = {{{1, 1, 4, 7}, {0, 1, 0.5, 0, 0, 1, 1,  //
                                  0, 1, 0.9, 0, 0, 1, 1,  //
                                  0, 1, 0.7, 5, 5, 6, 6,  //
                                  1, 1, 0.8, 0, 0, 1, 1}},
                  {{1, 1, 2, 8}, {0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 5, 5, 6, 6, 1}}}});
  ExpectClose(result.outputs[0], {-1, 1, 1,   -1, -1,  //
                                  0,  1, 0.9, 1,  0,   //
                                  0,  1, 0.7, 0,  0,   //
                                  0,  1, 0.5, 0,  1,   //
                                  1,  1, 0.8, 0,  1});
}

// 4 x 4, value 10 row + column.
Blob Map() {
  Blob map{{1, 1, 4, 4}, {}};
  for (int i = 0; i < 16; ++i) map.values.push_back(10 * (i / 4) + i % 4);
  return map;
}

TEST(RegionTest, PoolingTakesTheLargestOfEachBin) {
  const RunResult result =
      CallBuiltin("ROIPooling", {.prototxt = "roi_pooling_param { pooled_h: 2 pooled_w: 2 }",
                                 .inputs = {Map(), {{1, 5}, {0, 1, 0, 2, 2}}},
                                 .output_grads = {{1, 2, 4, 8}}});
  // Rows 0..2 and columns 1..2 in overlapping bins of 1.5 x 1.
  ExpectClose(result.outputs[0], {11, 12, 21, 22});
  Values grad(16, 0);
  grad[5] = 1;
  grad[6] = 2;
  grad[9] = 4;
  grad[10] = 8;
  ExpectClose(result.input_grads[0], grad);
}

TEST(RegionTest, AlignInterpolates) {
  // Bins of 1 x 1 around (0.5, 0.5): the mean of four places.
  ExpectClose(CallBuiltin("ROIAlign", {.prototxt = "roi_align_param { pooled_h: 1 pooled_w: 2 }",
                                       .inputs = {Map(), {{1, 5}, {0, 0, 0, 2, 1}}}})
                  .outputs[0],
              {5.5, 6.5});
}

TEST(RegionTest, PositionSensitiveBinsReadTheirOwnChannels) {
  Values x;
  for (int c = 0; c < 4; ++c) x.insert(x.end(), 4, c + 1);
  ExpectClose(
      CallBuiltin(
          "PSROIPooling",
          {.prototxt = "psroi_pooling_param { spatial_scale: 1 output_dim: 1 group_size: 2 }",
           .inputs = {{{1, 4, 2, 2}, x}, {{1, 5}, {0, 0, 0, 1, 1}}}})
          .outputs[0],
      {1, 2, 3, 4});
}

TEST(RegionTest, RegionsOfOtherImagesAreRefused) {
  const LayerCall call{.prototxt = "roi_align_param { pooled_h: 1 pooled_w: 1 }",
                       .inputs = {Map(), {{1, 5}, {1, 0, 0, 2, 1}}}};
  EXPECT_THROW(CallBuiltin("ROIAlign", call), Error);
}

TEST(ProposalTest, AnchorsOfTheFirstPlace) {
  // Scores put the anchor of scale 2 first; it is limited to the image of 20 x 30.
  const RunResult result = CallBuiltin(
      "Proposal",
      {.prototxt = "proposal_param { ratio: 1 scale: 1 scale: 2 min_size: 1 nms_thresh: 0.9 }",
       .inputs = {{{1, 4, 1, 1}, {0, 0, 0.3, 0.6}},
                  {{1, 8, 1, 1}, Values(8, 0)},
                  {{1, 3}, {20, 30, 1}}},
       .outputs = 2});
  ExpectClose(result.outputs[0], {0, 0, 0, 24, 19, 0, 0, 0, 16, 16});
  ExpectClose(result.outputs[1], {0.6, 0.3});
}

}  // namespace
}  // namespace crema::test
