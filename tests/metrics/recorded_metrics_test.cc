// Compares with scikit-learn and pycocotools: tests/recordings/record_metrics.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "metrics/box_verdicts.h"
#include "metrics/confusion_matrix.h"
#include "metrics/detection_scores.h"
#include "metrics/roc.h"

namespace crema {
namespace {

using Numbers = std::vector<double>;

class RecordedMetrics : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(std::string(CREMA_SOURCE_DIR) + "/tests/recordings/metrics.txt");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string name;
      words >> name;
      for (double v = 0; words >> v;) recorded_[name].push_back(v);
    }
    ASSERT_FALSE(recorded_.empty());
    for (const double label : Of("class_labels")) labels_.push_back(static_cast<int32_t>(label));
    for (const double score : Of("class_scores")) scores_.push_back(static_cast<float>(score));
  }
  const Numbers& Of(const std::string& name) { return recorded_.at(name); }

  ConfusionMatrix Matrix() const {
    ConfusionMatrix matrix(kClasses);
    for (size_t i = 0; i < labels_.size(); ++i) {
      const auto row = scores_.begin() + static_cast<int64_t>(i) * kClasses;
      matrix.Add(labels_[i], std::max_element(row, row + kClasses) - row);
    }
    return matrix;
  }

  static constexpr int64_t kClasses = 5;
  std::map<std::string, Numbers> recorded_;
  std::vector<int32_t> labels_;
  std::vector<float> scores_;
};

TEST_F(RecordedMetrics, ConfusionMatrixAndRates) {
  const ConfusionMatrix matrix = Matrix();
  for (int64_t t = 0; t < kClasses; ++t) {
    const auto c = static_cast<size_t>(t);
    for (int64_t p = 0; p < kClasses; ++p) {
      EXPECT_EQ(matrix.Count(t, p), Of("confusion")[static_cast<size_t>(t * kClasses + p)]);
    }
    EXPECT_DOUBLE_EQ(matrix.Precision(t), Of("precision")[c]);
    EXPECT_DOUBLE_EQ(matrix.Recall(t), Of("recall")[c]);
    EXPECT_DOUBLE_EQ(matrix.F1(t), Of("f1")[c]);
    EXPECT_EQ(matrix.Support(t), Of("support")[c]);
    EXPECT_DOUBLE_EQ(matrix.Iou(t), Of("iou")[c]);
  }
  EXPECT_DOUBLE_EQ(matrix.Accuracy(), Of("accuracy")[0]);
  EXPECT_DOUBLE_EQ(matrix.Mean(&ConfusionMatrix::Iou), Of("mean_iou")[0]);
}

TEST_F(RecordedMetrics, MeansOverClasses) {
  const ConfusionMatrix matrix = Matrix();
  const std::vector<ConfusionMatrix::Rate> rates = {&ConfusionMatrix::Precision,
                                                    &ConfusionMatrix::Recall, &ConfusionMatrix::F1};
  for (size_t i = 0; i < rates.size(); ++i) {
    EXPECT_DOUBLE_EQ(matrix.Mean(rates[i]), Of("macro")[i]);
    EXPECT_DOUBLE_EQ(matrix.WeightedMean(rates[i]), Of("weighted")[i]);
  }
}

TEST_F(RecordedMetrics, AreaUnderRocOfEachClass) {
  const Numbers areas = AreasUnderRoc(scores_, labels_, kClasses);
  for (size_t c = 0; c < areas.size(); ++c) EXPECT_NEAR(areas[c], Of("auc")[c], 1e-12);
}

TEST_F(RecordedMetrics, IntegralOfPrecision) {
  std::vector<JudgedDetection> detections;
  for (const double hit : Of("hits")) {
    const auto place = static_cast<double>(detections.size());
    detections.push_back({-place, hit != 0 ? Verdict::kHit : Verdict::kMiss});
  }
  const auto objects = std::ranges::count(Of("hits"), 1.0);
  EXPECT_NEAR(AveragePrecision(detections, objects, ApRule::kIntegral), Of("integral")[0], 1e-12);
}

TEST_F(RecordedMetrics, CocoRules) {
  DetectionScores scores(DetectionRule{});
  const Numbers& objects = Of("objects");
  for (size_t i = 0; i < objects.size(); i += 6) {
    const double* o = &objects[i];
    scores.AddObject(static_cast<int64_t>(o[1]), static_cast<int64_t>(o[0]),
                     {{o[2], o[3], o[4], o[5]}, false});
  }
  const Numbers& detections = Of("detections");
  for (size_t i = 0; i < detections.size(); i += 7) {
    const double* d = &detections[i];
    scores.AddDetection(static_cast<int64_t>(d[1]), static_cast<int64_t>(d[0]),
                        {d[2], {d[3], d[4], d[5], d[6]}});
  }
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(scores.OfClass(c + 1).coco, Of("coco_class")[static_cast<size_t>(c)], 1e-9);
  }
  const DetectionRates mean = scores.Mean();
  const Numbers& summary = Of("coco_summary");
  EXPECT_NEAR(mean.coco, summary[0], 1e-9);
  EXPECT_NEAR(mean.coco50, summary[1], 1e-9);
  EXPECT_NEAR(mean.coco75, summary[2], 1e-9);
  EXPECT_NEAR(mean.coco_small, summary[3], 1e-9);
  EXPECT_NEAR(mean.coco_medium, summary[4], 1e-9);
  EXPECT_NEAR(mean.coco_large, summary[5], 1e-9);
}

}  // namespace
}  // namespace crema
