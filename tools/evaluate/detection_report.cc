// Report for nets that detect boxes. Rows of detections: image, label, score, xmin, ymin, xmax,
// ymax; of objects: image, label, instance, xmin, ymin, xmax, ymax, difficult; rows with image -1
// are not boxes.
#include <cmath>
#include <cstdio>
#include <span>

#include "common/csv.h"
#include "evaluate/task_report.h"
#include "metrics/detection_scores.h"
#include "runtime/session.h"

namespace crema::tools {
namespace {

constexpr size_t kDetectionColumns = 7;
constexpr size_t kObjectColumns = 8;

Box BoxAt(const float* row) {
  return {double{row[0]}, double{row[1]}, double{row[2]}, double{row[3]}};
}

class DetectionReport final : public TaskReport {
 public:
  DetectionReport(TaskReportOptions options, int64_t pixels)
      : options_(std::move(options)),
        answers_(options_.answers),
        scores_({.overlap = answers_.overlap,
                 .difficult_counts = answers_.difficult_counts,
                 .pixels = static_cast<double>(pixels)}) {}

  void OnBatch(const Session& session, int64_t first, int64_t) override {
    const HostView predictions(session, session.Data(answers_.prediction));
    const HostView answers(session, session.Data(answers_.label));
    const std::span<const float> found = predictions->span<float>();
    for (size_t at = 0; at + kDetectionColumns <= found.size(); at += kDetectionColumns) {
      const float* row = &found[at];
      if (row[0] < 0 || row[1] < 0) continue;
      scores_.AddDetection(CheckedLabel(row[1], answers_.classes, first, answers_.prediction),
                           first + static_cast<int64_t>(row[0]), {double{row[2]}, BoxAt(row + 3)});
    }
    const std::span<const float> objects = answers->span<float>();
    for (size_t at = 0; at + kObjectColumns <= objects.size(); at += kObjectColumns) {
      const float* row = &objects[at];
      if (row[0] < 0) continue;
      const int64_t image = first + static_cast<int64_t>(row[0]);
      scores_.AddObject(CheckedLabel(row[1], answers_.classes, image, answers_.label), image,
                        {BoxAt(row + 3), row[7] != 0});
    }
  }

  void Write(const ReportFolder& folder, Summary* summary) const override {
    std::string csv = CsvLine({"class", "name", "objects", "detections", "ap_voc07", "ap_voc12",
                               "ap_integral", "ap_coco", "ap_coco50", "ap_coco75", "ap_coco_small",
                               "ap_coco_medium", "ap_coco_large"});
    for (int64_t c = 0; c < answers_.classes; ++c) {
      if (c == answers_.background) continue;
      const DetectionRates rates = scores_.OfClass(c);
      csv += CsvLine({std::to_string(c), options_.names.Of(c), std::to_string(rates.objects),
                      std::to_string(rates.detections), CsvNumber(rates.voc07),
                      CsvNumber(rates.voc12), CsvNumber(rates.integral), CsvNumber(rates.coco),
                      CsvNumber(rates.coco50), CsvNumber(rates.coco75), CsvNumber(rates.coco_small),
                      CsvNumber(rates.coco_medium), CsvNumber(rates.coco_large)});
    }
    folder.Write("per_class.csv", csv);
    const DetectionRates mean = scores_.Mean();
    summary->Text("kind", "detection");
    summary->Number("classes", static_cast<double>(answers_.classes));
    summary->Number("objects", static_cast<double>(mean.objects));
    summary->Number("detections", static_cast<double>(mean.detections));
    summary->Number("overlap", answers_.overlap);
    summary->Number("map_voc07", mean.voc07);
    summary->Number("map_voc12", mean.voc12);
    summary->Number("map_integral", mean.integral);
    summary->Number("map_coco", mean.coco);
    summary->Number("map_coco50", mean.coco50);
    summary->Number("map_coco75", mean.coco75);
    summary->Number("map_coco_small", mean.coco_small);
    summary->Number("map_coco_medium", mean.coco_medium);
    summary->Number("map_coco_large", mean.coco_large);
  }

  std::string Headline() const override {
    const DetectionRates mean = scores_.Mean();
    char text[128];
    std::snprintf(text, sizeof(text), "mAP VOC07 %.4f, VOC12 %.4f, COCO %.4f", mean.voc07,
                  mean.voc12, mean.coco);
    return text;
  }

 private:
  const TaskReportOptions options_;
  const Answers& answers_;
  DetectionScores scores_;
};

}  // namespace

std::unique_ptr<TaskReport> NewDetectionReport(TaskReportOptions options, int64_t pixels) {
  return std::make_unique<DetectionReport>(std::move(options), pixels);
}

}  // namespace crema::tools
