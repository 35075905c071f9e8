#include "evaluate/evaluation_report.h"

#include <utility>

#include "common/lines.h"
#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

// Pixels of the images that the net reads; 1 if it reads none.
int64_t InputPixels(const Plan& plan) {
  for (const PlannedLayer& layer : plan.layers) {
    if (!layer.inputs.empty() || layer.outputs.empty()) continue;
    const BlobSpec& spec = plan.values[static_cast<size_t>(layer.outputs[0])].spec;
    const Shape& shape = spec.shape;
    if (shape.axes() == 4 && spec.dtype == DType::kU8) return shape[1] * shape[2];
    if (shape.axes() == 4 && (shape[1] == 1 || shape[1] == 3)) return shape[2] * shape[3];
  }
  return 1;
}

}  // namespace

EvaluationReport::EvaluationReport(EvaluationReportOptions options)
    : options_(std::move(options)),
      names_(options_.labels.empty() ? ClassNames() : ClassNames(ReadLines(options_.labels))),
      folder_(options_.folder) {}

void EvaluationReport::CheckNames() const {
  const auto names = static_cast<int64_t>(names_.given().size());
  const int64_t classes = answers_.classes == 1 ? 2 : answers_.classes;
  if (names != 0 && names != classes) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(options_.labels, " has ", names, " labels, but the net has ", classes, " classes",
                answers_.task == Task::kDetection ? ", background included" : ""));
  }
}

void EvaluationReport::Begin(const Plan& plan) {
  net_ = plan.name;
  try {
    answers_ = FindAnswers(plan, options_.prediction, options_.label);
    CheckNames();
  } catch (...) {
    folder_.RemoveIfUnused();
    throw;
  }
  TaskReportOptions options{.answers = answers_, .names = names_, .worst = options_.worst};
  switch (answers_.task) {
    case Task::kClassification:
      report_ = NewClassificationReport(plan, std::move(options));
      return;
    case Task::kSegmentation:
      report_ = NewSegmentationReport(std::move(options));
      return;
    case Task::kDetection:
      report_ = NewDetectionReport(std::move(options), InputPixels(plan));
      return;
  }
}

void EvaluationReport::OnBatch(const Session& session, int64_t samples) {
  if (report_ == nullptr) Begin(session.plan());
  report_->OnBatch(session, samples_, samples);
  samples_ += samples;
}

std::string EvaluationReport::Write(const Evaluation& evaluation) const {
  CREMA_CHECK(report_ != nullptr);  // an evaluation has at least one batch
  Summary summary;
  summary.Text("net", net_);
  summary.Text("model", options_.model);
  summary.Text("weights", options_.weights);
  summary.Text("prediction", answers_.prediction);
  summary.Text("label", answers_.label);
  summary.Text("compared_by", answers_.layer);
  summary.Number("samples", static_cast<double>(evaluation.samples));
  summary.Number("loss", evaluation.loss);
  report_->Write(folder_, &summary);
  if (!names_.given().empty()) summary.Texts("class_names", names_.given());
  folder_.Write("summary.json", summary.Json());
  return StrCat(report_->Headline(), "\nReport: ", folder_.path(), " (predictions '",
                answers_.prediction, "', labels '", answers_.label, "')\n");
}

}  // namespace crema::tools
