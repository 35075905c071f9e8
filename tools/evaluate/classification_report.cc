// Report for nets that predict one class per sample.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "common/csv.h"
#include "common/sample_picture.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "evaluate/task_report.h"
#include "evaluate/worst_samples.h"
#include "metrics/confusion_matrix.h"
#include "metrics/roc.h"
#include "runtime/session.h"

namespace crema::tools {
namespace {

// Keeps all scores for the area under the ROC curve, up to this many (1 GiB).
constexpr size_t kMostScores = size_t{1} << 28;
constexpr int64_t kTop = 5;

void Softmax(std::span<float> scores) {
  const float most = std::ranges::max(scores);
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - most);
  for (float& score : scores) score /= sum;
}

class ClassificationReport final : public TaskReport {
 public:
  ClassificationReport(const Plan& plan, TaskReportOptions options)
      : options_(std::move(options)),
        answers_(options_.answers),
        classes_(std::max<int64_t>(2, answers_.classes)),
        matrix_(classes_),
        worst_(options_.worst),
        picture_(plan, answers_.data_layer),
        row_(static_cast<size_t>(classes_)) {}

  void OnBatch(const Session& session, int64_t first, int64_t samples) override {
    const HostView predictions(session, session.Data(answers_.prediction));
    const HostView answers(session, session.Data(answers_.label));
    const std::span<const float> scores = predictions->span<float>();
    const std::span<const float> labels = answers->span<float>();
    const auto width = static_cast<size_t>(answers_.classes);
    // Sequences have several answers per sample.
    const bool one_each = static_cast<int64_t>(labels.size()) == samples;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (answers_.ignored && labels[i] == static_cast<float>(*answers_.ignored)) continue;
      ReadRow(scores.subspan(i * width, width));
      const auto index = static_cast<int64_t>(i);
      const int64_t label = CheckedLabel(labels[i], classes_, first + index, answers_.label);
      Count(label);
      if (one_each) Judge(session, label, first, index);
    }
  }

  void Write(const ReportFolder& folder, Summary* summary) const override {
    const std::vector<double> areas = Areas();
    WriteClasses(folder, areas);
    folder.WriteConfusion(matrix_, options_.names);
    worst_.Write(folder, options_.names);
    summary->Text("kind", "classification");
    summary->Number("classes", static_cast<double>(classes_));
    summary->Number("judged", static_cast<double>(judged_));
    summary->Number("top1", Share(top1_));
    summary->Number("top5", classes_ > kTop ? Share(top5_) : NAN);
    summary->Number("log_loss", judged_ == 0 ? NAN : loss_ / static_cast<double>(judged_));
    summary->Object("macro", Means(&ConfusionMatrix::Mean));
    summary->Object("weighted", Means(&ConfusionMatrix::WeightedMean));
    summary->Number("auc_macro", MeanArea(areas));
    // Two classes have a single curve; class 1 is the positive one.
    summary->Number("auc", classes_ == 2 && areas.size() == 2 ? areas[1] : NAN);
    if (scores_dropped_) {
      summary->Text("auc_note", StrCat("more than ", kMostScores, " scores: no AUC"));
    }
  }

  std::string Headline() const override {
    char text[160];
    std::snprintf(text, sizeof(text), "top-1 %.4f, macro F1 %.4f, log loss %.4g", Share(top1_),
                  matrix_.Mean(&ConfusionMatrix::F1),
                  judged_ == 0 ? NAN : loss_ / static_cast<double>(judged_));
    return text;
  }

 private:
  // Writes class probabilities to row_.
  void ReadRow(std::span<const float> scores) {
    if (answers_.classes == 1) {
      row_[0] = answers_.probabilities ? 1 - scores[0] : 0;
      row_[1] = scores[0];
    } else {
      std::ranges::copy(scores, row_.begin());
    }
    if (!answers_.probabilities) Softmax(row_);
  }

  void Count(int64_t label) {
    predicted_ = std::ranges::max_element(row_) - row_.begin();
    matrix_.Add(label, predicted_);
    const int64_t rank = RankOf(row_, label);
    top1_ += rank <= 1;
    top5_ += rank <= kTop;
    ++judged_;
    label_loss_ = -std::log(std::max(double{row_[static_cast<size_t>(label)]}, double{FLT_MIN}));
    loss_ += label_loss_;
    if (scores_.size() + row_.size() > kMostScores) scores_dropped_ = true;
    if (scores_dropped_) return;
    scores_.insert(scores_.end(), row_.begin(), row_.end());
    labels_.push_back(static_cast<int32_t>(label));
  }

  void Judge(const Session& session, int64_t label, int64_t first, int64_t index) {
    if (!worst_.Wants(label_loss_)) return;
    WorstSample sample{.loss = label_loss_,
                       .sample = first + index,
                       .name = {},
                       .label = label,
                       .predicted = predicted_,
                       .probability = row_[static_cast<size_t>(predicted_)],
                       .label_probability = row_[static_cast<size_t>(label)],
                       .png = {}};
    if (answers_.data_layer >= 0) {
      const auto* state = session.state(static_cast<size_t>(answers_.data_layer));
      if (state != nullptr) sample.name = state->SampleName(index);
    }
    if (picture_.exists()) sample.png = picture_.Png(session, index);
    worst_.Add(std::move(sample));
  }

  double Share(int64_t right) const {
    return judged_ == 0 ? NAN : static_cast<double>(right) / static_cast<double>(judged_);
  }

  std::vector<double> Areas() const {
    return scores_dropped_ ? std::vector<double>() : AreasUnderRoc(scores_, labels_, classes_);
  }

  static double MeanArea(const std::vector<double>& areas) {
    double sum = 0;
    int known = 0;
    for (const double area : areas) {
      if (std::isnan(area)) continue;
      sum += area;
      ++known;
    }
    return known == 0 ? NAN : sum / known;
  }

  using MeanOver = double (ConfusionMatrix::*)(ConfusionMatrix::Rate) const;
  Summary Means(MeanOver mean) const {
    Summary means;
    means.Number("precision", (matrix_.*mean)(&ConfusionMatrix::Precision));
    means.Number("recall", (matrix_.*mean)(&ConfusionMatrix::Recall));
    means.Number("f1", (matrix_.*mean)(&ConfusionMatrix::F1));
    return means;
  }

  void WriteClasses(const ReportFolder& folder, const std::vector<double>& areas) const {
    std::string csv = CsvLine({"class", "name", "precision", "recall", "f1", "support", "auc"});
    for (int64_t c = 0; c < classes_; ++c) {
      const double area = areas.empty() ? NAN : areas[static_cast<size_t>(c)];
      csv += CsvLine({std::to_string(c), options_.names.Of(c), CsvNumber(matrix_.Precision(c)),
                      CsvNumber(matrix_.Recall(c)), CsvNumber(matrix_.F1(c)),
                      std::to_string(matrix_.Support(c)), CsvNumber(area)});
    }
    folder.Write("per_class.csv", csv);
  }

  const TaskReportOptions options_;
  const Answers& answers_;
  const int64_t classes_;
  ConfusionMatrix matrix_;
  WorstSamples worst_;
  const SamplePicture picture_;
  // Probabilities of the current sample.
  std::vector<float> row_;
  int64_t predicted_ = 0;
  double label_loss_ = 0;
  // The scores of all samples.
  std::vector<float> scores_;
  std::vector<int32_t> labels_;
  bool scores_dropped_ = false;
  int64_t judged_ = 0;
  int64_t top1_ = 0;
  int64_t top5_ = 0;
  double loss_ = 0;
};

}  // namespace

std::unique_ptr<TaskReport> NewClassificationReport(const Plan& plan, TaskReportOptions options) {
  return std::make_unique<ClassificationReport>(plan, std::move(options));
}

int64_t CheckedLabel(float label, int64_t classes, int64_t sample, const std::string& blob) {
  if (label >= 0 && label < static_cast<float>(classes) && label == std::floor(label)) {
    return static_cast<int64_t>(label);
  }
  Fail(ErrorCode::kDataLoss,
       StrCat("label ", label, " of sample ", sample, " in blob '", blob,
              "' is no class: whole numbers 0..", classes - 1, " are expected"));
}

}  // namespace crema::tools
