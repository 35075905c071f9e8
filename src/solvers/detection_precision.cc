#include "solvers/detection_precision.h"

#include <span>

#include "core/byte_text.h"
#include "core/strings.h"
#include "runtime/output_means.h"
#include "runtime/session.h"

namespace crema {
namespace {

constexpr size_t kColumns = 5;  // of a row of DetectionEvaluate

Verdict VerdictOf(const float* row) {
  if (row[3] != 0) return Verdict::kHit;
  return row[4] != 0 ? Verdict::kMiss : Verdict::kIgnored;
}

}  // namespace

std::optional<ApRule> FindApRule(const std::string& ap_version) {
  if (ap_version == "11point") return ApRule::kVoc07;
  if (ap_version == "MaxIntegral") return ApRule::kVoc12;
  if (ap_version == "Integral") return ApRule::kIntegral;
  return std::nullopt;
}

DetectionPrecision::DetectionPrecision(const Plan& plan, ApRule rule) : rule_(rule) {
  for (int v : plan.outputs) {
    const PlannedValue& value = plan.values[static_cast<size_t>(v)];
    if (HoldsVerdicts(plan, v)) outputs_[value.name].loss_weight = value.loss_weight;
  }
}

void DetectionPrecision::Start() {
  for (auto& [blob, output] : outputs_) output.classes.clear();
}

void DetectionPrecision::Add(const Session& session) {
  for (auto& [blob, output] : outputs_) {
    const HostView view(session, session.Data(blob));
    const std::span<const float> rows = view->span<float>();
    for (size_t at = 0; at + kColumns <= rows.size(); at += kColumns) {
      const float* row = &rows[at];
      OfClass& scores = output.classes[static_cast<int64_t>(row[1])];
      if (row[0] < 0) {  // the number of objects of the class in the batch
        scores.objects += static_cast<int64_t>(row[2]);
      } else {
        scores.detections.push_back({double{row[2]}, VerdictOf(row)});
      }
    }
  }
}

std::string DetectionPrecision::Save() const {
  std::string saved;
  for (const auto& [blob, output] : outputs_) {
    AppendValue(output.classes.size(), &saved);
    for (const auto& [label, scores] : output.classes) {
      AppendValue(label, &saved);
      AppendValue(scores.objects, &saved);
      AppendValue(scores.detections.size(), &saved);
      for (const JudgedDetection& one : scores.detections) AppendValue(one, &saved);
    }
  }
  return saved;
}

void DetectionPrecision::Join(std::string_view saved) {
  for (auto& [blob, output] : outputs_) {
    for (auto classes = TakeValue<size_t>(&saved); classes > 0; --classes) {
      OfClass& scores = output.classes[TakeValue<int64_t>(&saved)];
      scores.objects += TakeValue<int64_t>(&saved);
      for (auto count = TakeValue<size_t>(&saved); count > 0; --count) {
        scores.detections.push_back(TakeValue<JudgedDetection>(&saved));
      }
    }
  }
}

double DetectionPrecision::PrecisionOf(const OfClass& scores) const {
  return scores.objects == 0 ? 0 : AveragePrecision(scores.detections, scores.objects, rule_);
}

std::vector<OutputValue> DetectionPrecision::Means(LogSink* log) const {
  std::vector<OutputValue> means;
  for (const auto& [blob, output] : outputs_) {
    double sum = 0;
    for (const auto& [label, scores] : output.classes) {
      const double precision = PrecisionOf(scores);
      sum += precision;
      if (log != nullptr) log->Write(Severity::kInfo, StrCat("class", label, ": ", precision));
    }
    const auto classes = static_cast<double>(output.classes.size());
    means.push_back({blob, classes == 0 ? 0 : sum / classes, output.loss_weight});
  }
  return means;
}

}  // namespace crema
