// Report for nets that predict a class for each position of an image.
#include <cmath>
#include <cstdio>
#include <span>

#include "common/csv.h"
#include "crema.pb.h"
#include "evaluate/task_report.h"
#include "metrics/confusion_matrix.h"
#include "runtime/session.h"

namespace crema::tools {
namespace {

class SegmentationReport final : public TaskReport {
 public:
  explicit SegmentationReport(TaskReportOptions options)
      : options_(std::move(options)), answers_(options_.answers), matrix_(answers_.classes) {}

  void OnBatch(const Session& session, int64_t first, int64_t samples) override {
    const HostView prediction(session, session.Data(answers_.prediction));
    const HostView answers(session, session.Data(answers_.label));
    const std::span<const float> scores = prediction->span<float>();
    const std::span<const float> labels = answers->span<float>();
    const auto inner = static_cast<size_t>(prediction->shape().count(answers_.axis + 1));
    const auto classes = static_cast<size_t>(answers_.classes);
    const size_t of_sample = labels.size() / static_cast<size_t>(std::max<int64_t>(1, samples));
    for (size_t at = 0; at < labels.size(); ++at) {
      if (answers_.ignored && labels[at] == static_cast<float>(*answers_.ignored)) continue;
      const int64_t sample = first + static_cast<int64_t>(at / std::max<size_t>(1, of_sample));
      const int64_t label = CheckedLabel(labels[at], answers_.classes, sample, answers_.label);
      const size_t begin = at / inner * classes * inner + at % inner;
      size_t best = 0;
      for (size_t c = 1; c < classes; ++c) {
        if (scores[begin + c * inner] > scores[begin + best * inner]) best = c;
      }
      matrix_.Add(label, static_cast<int64_t>(best));
    }
  }

  void Write(const ReportFolder& folder, Summary* summary) const override {
    std::string csv =
        CsvLine({"class", "name", "iou", "precision", "recall", "f1", "pixels", "predicted"});
    for (int64_t c = 0; c < matrix_.classes(); ++c) {
      csv += CsvLine({std::to_string(c), options_.names.Of(c), CsvNumber(matrix_.Iou(c)),
                      CsvNumber(matrix_.Precision(c)), CsvNumber(matrix_.Recall(c)),
                      CsvNumber(matrix_.F1(c)), std::to_string(matrix_.Support(c)),
                      std::to_string(matrix_.Predicted(c))});
    }
    folder.Write("per_class.csv", csv);
    folder.WriteConfusion(matrix_, options_.names);
    summary->Text("kind", "segmentation");
    summary->Number("classes", static_cast<double>(matrix_.classes()));
    summary->Number("pixels", static_cast<double>(matrix_.Total()));
    summary->Number("mean_iou", matrix_.Mean(&ConfusionMatrix::Iou));
    summary->Number("weighted_iou", matrix_.WeightedMean(&ConfusionMatrix::Iou));
    summary->Number("pixel_accuracy", matrix_.Accuracy());
    summary->Number("mean_class_accuracy", matrix_.Mean(&ConfusionMatrix::Recall));
  }

  std::string Headline() const override {
    char text[96];
    std::snprintf(text, sizeof(text), "mean IoU %.4f, pixel accuracy %.4f",
                  matrix_.Mean(&ConfusionMatrix::Iou), matrix_.Accuracy());
    return text;
  }

 private:
  const TaskReportOptions options_;
  const Answers& answers_;
  ConfusionMatrix matrix_;
};

}  // namespace

std::unique_ptr<TaskReport> NewSegmentationReport(TaskReportOptions options) {
  return std::make_unique<SegmentationReport>(std::move(options));
}

}  // namespace crema::tools
