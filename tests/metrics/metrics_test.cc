// Compares with results computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "crema.pb.h"
#include "metrics/box_verdicts.h"
#include "metrics/confusion_matrix.h"
#include "metrics/detection_scores.h"
#include "metrics/roc.h"

namespace crema {
namespace {

constexpr Verdict kHit = Verdict::kHit;
constexpr Verdict kMiss = Verdict::kMiss;
constexpr Verdict kIgnored = Verdict::kIgnored;

ConfusionMatrix Matrix(const std::vector<std::vector<int>>& counts) {
  ConfusionMatrix matrix(static_cast<int64_t>(counts.size()));
  for (size_t t = 0; t < counts.size(); ++t) {
    for (size_t p = 0; p < counts.size(); ++p) {
      for (int i = 0; i < counts[t][p]; ++i) {
        matrix.Add(static_cast<int64_t>(t), static_cast<int64_t>(p));
      }
    }
  }
  return matrix;
}

TEST(ConfusionMatrix, RatesOfTwoClasses) {
  const ConfusionMatrix matrix = Matrix({{3, 1}, {2, 4}});
  EXPECT_DOUBLE_EQ(matrix.Precision(0), 3.0 / 5);
  EXPECT_DOUBLE_EQ(matrix.Recall(0), 3.0 / 4);
  EXPECT_DOUBLE_EQ(matrix.F1(0), 6.0 / 9);
  EXPECT_DOUBLE_EQ(matrix.Iou(1), 4.0 / 7);
  EXPECT_DOUBLE_EQ(matrix.Accuracy(), 7.0 / 10);
  EXPECT_EQ(matrix.Support(1), 6);
  EXPECT_EQ(matrix.Predicted(1), 5);
}

TEST(ConfusionMatrix, ClassesThatNeverOccurDoNotCount) {
  const ConfusionMatrix matrix = Matrix({{1, 0, 0}, {1, 0, 0}, {0, 0, 0}});
  EXPECT_EQ(matrix.Precision(1), 0);
  EXPECT_EQ(matrix.Recall(1), 0);
  EXPECT_TRUE(std::isnan(matrix.F1(2)));
  EXPECT_DOUBLE_EQ(matrix.Mean(&ConfusionMatrix::Recall), 0.5);
  EXPECT_TRUE(std::isnan(ConfusionMatrix(2).Accuracy()));
  EXPECT_TRUE(std::isnan(ConfusionMatrix(2).Mean(&ConfusionMatrix::Iou)));
}

TEST(Roc, CountsPairsAndHalvesTies) {
  EXPECT_DOUBLE_EQ(AreaUnderRoc({{1, true}, {0, false}}), 1);
  EXPECT_DOUBLE_EQ(AreaUnderRoc({{0, true}, {1, false}}), 0);
  EXPECT_DOUBLE_EQ(AreaUnderRoc({{1, true}, {1, false}}), 0.5);
  EXPECT_DOUBLE_EQ(AreaUnderRoc({{0.8F, true}, {0.5F, true}, {0.5F, false}, {0.6F, false}}),
                   2.5 / 4);
  EXPECT_TRUE(std::isnan(AreaUnderRoc({{1, true}, {2, true}})));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_DOUBLE_EQ(AreaUnderRoc({{nan, true}, {0, false}, {1, true}}), 0.5);
}

TEST(Roc, RankCountsTiesAgainstTheLabel) {
  const std::vector<float> scores = {0.2F, 0.5F, 0.2F, 0.1F};
  EXPECT_EQ(RankOf(scores, 1), 1);
  EXPECT_EQ(RankOf(scores, 0), 3);
  EXPECT_EQ(RankOf(scores, 3), 4);
}

// Hit, miss, hit, miss of three objects: precision 1, 1/2, 2/3, 1/2 at recall 1/3, 1/3, 2/3, 2/3.
TEST(AveragePrecision, ByEachRule) {
  const std::vector<JudgedDetection> detections = {
      {0.6, kHit}, {0.9, kHit}, {0.5, kMiss}, {0.7, kIgnored}, {0.8, kMiss}};
  const auto ap = [&](ApRule rule) { return AveragePrecision(detections, 3, rule); };
  EXPECT_DOUBLE_EQ(ap(ApRule::kVoc07), (4 * 1 + 3 * 2.0 / 3) / 11);      // recall 0..0.3, 0.4..0.6
  EXPECT_NEAR(ap(ApRule::kCoco), (34 * 1 + 33 * 2.0 / 3) / 101, 1e-12);  // 0..0.33, 0.34..0.66
  EXPECT_DOUBLE_EQ(ap(ApRule::kVoc12), 1.0 / 3 + 2.0 / 9);
  EXPECT_DOUBLE_EQ(ap(ApRule::kIntegral), 1.0 / 3 + 2.0 / 9);
}

// Miss, hit, hit: the best precision from there on is 2/3 everywhere, at the steps 1/2 and 2/3.
TEST(AveragePrecision, TheIntegralTakesThePrecisionOfItsStep) {
  const std::vector<JudgedDetection> detections = {{3, kMiss}, {2, kHit}, {1, kHit}};
  EXPECT_DOUBLE_EQ(AveragePrecision(detections, 2, ApRule::kVoc12), 2.0 / 3);
  EXPECT_DOUBLE_EQ(AveragePrecision(detections, 2, ApRule::kIntegral), (1.0 / 2 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(AveragePrecision(detections, 2, ApRule::kVoc07), 2.0 / 3);
}

// 3 of 10 objects give a recall of 0.3, though 3 * 0.1 is larger in floating point.
TEST(AveragePrecision, ElevenPointsAreTenths) {
  const std::vector<JudgedDetection> detections = {{3, kHit}, {2, kHit}, {1, kHit}};
  EXPECT_DOUBLE_EQ(AveragePrecision(detections, 10, ApRule::kVoc07), 4.0 / 11);
}

TEST(AveragePrecision, WithoutObjectsOrDetections) {
  EXPECT_TRUE(std::isnan(AveragePrecision({{1, kMiss}}, 0, ApRule::kVoc07)));
  for (const ApRule rule : {ApRule::kVoc07, ApRule::kVoc12, ApRule::kIntegral, ApRule::kCoco}) {
    EXPECT_EQ(AveragePrecision({}, 2, rule), 0);
  }
}

std::vector<Verdict> Verdicts(const Judged& judged) {
  std::vector<Verdict> verdicts;
  for (const JudgedDetection& detection : judged.detections) verdicts.push_back(detection.verdict);
  return verdicts;
}

TEST(BoxVerdicts, TheSecondDetectionOfAnObjectMisses) {
  const ImageBoxes boxes = {{{0.5, {0, 0, 10, 10}}, {0.9, {0, 0, 10, 9}}, {0.1, {50, 50, 60, 60}}},
                            {{{0, 0, 10, 10}}, {{20, 20, 30, 30}}}};
  EXPECT_EQ(Verdicts(JudgeVoc(boxes, 0.5, false)), (std::vector{kHit, kMiss, kMiss}));
  EXPECT_EQ(Verdicts(JudgeCoco(boxes, 0.5)), (std::vector{kHit, kMiss, kMiss}));
  EXPECT_EQ(JudgeVoc(boxes, 0.5, false).objects, 2);
  // The better one overlaps too little; then the worse one hits.
  EXPECT_EQ(Verdicts(JudgeCoco(boxes, 0.95)), (std::vector{kMiss, kHit, kMiss}));
}

// VOC keeps the object of the largest overlap, COCO tries the next free one.
TEST(BoxVerdicts, OnlyCocoTakesTheSecondBestObject) {
  const ImageBoxes boxes = {{{0.9, {0, 0, 10, 10}}, {0.8, {0, 0, 10, 9}}},
                            {{{0, 0, 10, 10}}, {{0, 0, 10, 7}}}};
  EXPECT_EQ(Verdicts(JudgeVoc(boxes, 0.5, false)), (std::vector{kHit, kMiss}));
  EXPECT_EQ(Verdicts(JudgeCoco(boxes, 0.5)), (std::vector{kHit, kHit}));
}

TEST(BoxVerdicts, DifficultObjectsAreIgnored) {
  const ImageBoxes boxes = {{{0.9, {0, 0, 10, 10}}, {0.8, {0, 0, 10, 10}}},
                            {{{0, 0, 10, 10}, true}}};
  EXPECT_EQ(Verdicts(JudgeVoc(boxes, 0.5, false)), (std::vector{kIgnored, kIgnored}));
  EXPECT_EQ(JudgeVoc(boxes, 0.5, false).objects, 0);
  EXPECT_EQ(Verdicts(JudgeVoc(boxes, 0.5, true)), (std::vector{kHit, kMiss}));
  EXPECT_EQ(Verdicts(JudgeCoco(boxes, 0.5)), (std::vector{kIgnored, kMiss}));
}

TEST(BoxVerdicts, CocoLooksAtSizes) {
  const ImageBoxes boxes = {{{0.9, {0, 0, 10, 10}}, {0.8, {0, 0, 40, 40}}, {0.7, {50, 0, 90, 40}}},
                            {{{0, 0, 10, 10}}, {{0, 0, 40, 40}}}};
  const Judged judged = JudgeCoco(boxes, 0.5, {0, 1024});
  EXPECT_EQ(Verdicts(judged), (std::vector{kHit, kIgnored, kIgnored}));
  EXPECT_EQ(judged.objects, 1);
}

TEST(DetectionScores, ClassesWithoutObjectsDoNotCount) {
  DetectionScores scores({.pixels = 300 * 300});
  scores.AddObject(1, 0, {{0.1, 0.1, 0.5, 0.5}});
  scores.AddDetection(1, 0, {0.9, {0.1, 0.1, 0.5, 0.5}});
  scores.AddDetection(2, 0, {0.9, {0.1, 0.1, 0.5, 0.5}});
  const DetectionRates mean = scores.Mean();
  EXPECT_EQ(mean.objects, 1);
  EXPECT_EQ(mean.detections, 2);
  EXPECT_DOUBLE_EQ(mean.voc07, 1);
  EXPECT_DOUBLE_EQ(mean.coco, 1);
  EXPECT_DOUBLE_EQ(mean.coco_large, 1);
  EXPECT_TRUE(std::isnan(mean.coco_small));
  EXPECT_TRUE(std::isnan(scores.OfClass(2).voc12));
  EXPECT_TRUE(std::isnan(scores.OfClass(7).voc12));
}

}  // namespace
}  // namespace crema
