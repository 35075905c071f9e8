// Manually computed values of the layers of online hard example mining.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "crema.pb.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::CallBuiltin;
using test::ExpectNear;

TEST(OhemTest, SmoothL1CostsOfRegions) {
  const RunResult result = CallBuiltin(
      "SmoothL1LossOHEM",
      {.prototxt = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 4 }",
       .inputs = {{{2, 2}, {3, 0.5, 0, -4}}, {{2, 2}, {0, 0, 0, 0}}, {{2, 2}, {1, 1, 1, 0.5}}},
       .outputs = 2,
       .output_grads = {{1}, {0, 0}}});
  ExpectNear(result.outputs[0], {(2.625 + 1.5) / 4});
  ExpectNear(result.outputs[1], {2.625, 1.5});
  ExpectNear(result.input_grads[0], {0.25, 0.125, 0, -0.125});
  ExpectNear(result.input_grads[1], {-0.25, -0.125, 0, 0.125});
}

TEST(OhemTest, SoftmaxCostsOfRegions) {
  const double e = std::exp(1.0), p = e / (1 + e);
  const RunResult result = CallBuiltin("SoftmaxWithLossOHEM",
                                       {.prototxt = "loss_param { ignore_label: -1 }",
                                        .inputs = {{{3, 2}, {1, 0, 1, 0, 5, 6}}, {{3}, {0, 1, -1}}},
                                        .outputs = 3,
                                        .output_grads = {{1}, Values(6, 0), Values(3, 0)}});
  ExpectNear(result.outputs[0], {(-std::log(p) - std::log(1 - p)) / 2});
  ExpectNear(result.outputs[1], {p, 1 - p, p, 1 - p, 1 - p, p});
  ExpectNear(result.outputs[2], {-std::log(p), -std::log(1 - p), 0});
  ExpectNear(result.input_grads[0], {(p - 1) / 2, (1 - p) / 2, p / 2, -p / 2, 0, 0});
}

TEST(OhemTest, TheHardestRegionsOfEachImageAreKept) {
  const double nan = std::nan("");
  const Values rois{0, 1, 2, 3, 4, 1, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 1, 1, 2, 3, 4};
  const RunResult result =
      CallBuiltin("BoxAnnotatorOHEM", {.prototxt = "box_annotator_ohem_param { roi_per_img: 2 }",
                                       .inputs = {{{5, 5}, rois},
                                                  {{5}, {0.5, nan, 0.7, 0.5, 0.1}},
                                                  {{5}, {3, 4, 5, 6, 7}},
                                                  {{5, 2}, {1, 1, 1, 1, 0, 1, 1, 1, 1, 0}}},
                                       .outputs = 2});
  // Regions 0 and 3 of image 0 have equal losses.
  ExpectNear(result.outputs[0], {3, 4, 5, -1, 7});
  ExpectNear(result.outputs[1], {1, 1, 1, 1, 0, 1, 0, 0, 1, 0});
}

// The end of R-FCN's training net: only the chosen regions train.
TEST(OhemTest, ANetMinesItsRegions) {
  const auto plan = PlanText(
      "layer { name: 'i' type: 'Input' top: 'rois' top: 'scores' top: 'labels' top: 'boxes' top: "
      "'targets' top: 'w' input_param { shape { dim: 8 dim: 5 } shape { dim: 8 dim: 3 } shape { "
      "dim: 8 } shape { dim: 8 dim: 4 } shape { dim: 8 dim: 4 } shape { dim: 8 dim: 4 } } }"
      "layer { name: 'c' type: 'SoftmaxWithLossOHEM' bottom: 'scores' bottom: 'labels' top: 't1' "
      "top: 't2' top: 'cost1' loss_weight: 0 loss_weight: 0 loss_weight: 0 propagate_down: false "
      "propagate_down: false }"
      "layer { name: 'b' type: 'SmoothL1LossOHEM' bottom: 'boxes' bottom: 'targets' bottom: 'w' "
      "top: 't3' top: 'cost2' loss_weight: 0 loss_weight: 0 propagate_down: false propagate_down: "
      "false propagate_down: false }"
      "layer { name: 's1' type: 'Silence' bottom: 't1' bottom: 't2' bottom: 't3' }"
      "layer { name: 'f' type: 'Flatten' bottom: 'cost2' top: 'cost2f' flatten_param { axis: 0 } }"
      "layer { name: 'e' type: 'Eltwise' bottom: 'cost1' bottom: 'cost2f' top: 'cost' }"
      "layer { name: 'a' type: 'BoxAnnotatorOHEM' bottom: 'rois' bottom: 'cost' bottom: 'labels' "
      "bottom: 'w' top: 'l2' top: 'w2' box_annotator_ohem_param { roi_per_img: 2 } }"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'l2' top: 'loss' "
      "loss_param { ignore_label: -1 } }"
      "layer { name: 'loss2' type: 'SmoothL1LossOHEM' bottom: 'boxes' bottom: 'targets' bottom: "
      "'w2' top: 'loss2' loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 2 } }",
      TRAIN);
  EXPECT_GE(plan->FindValue("loss2"), 0);
}

}  // namespace
}  // namespace crema::test
