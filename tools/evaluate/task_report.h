// The reports of evaluate --report, one per task.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "evaluate/answers.h"
#include "evaluate/report_folder.h"
#include "runtime/session.h"

namespace crema::tools {

// Thread safety: one thread.
class TaskReport {
 public:
  virtual ~TaskReport() = default;
  // Called after each batch; `first` is the number of earlier samples.
  virtual void OnBatch(const Session& session, int64_t first, int64_t samples) = 0;
  // Writes the tables and adds totals to the summary.
  virtual void Write(const ReportFolder& folder, Summary* summary) const = 0;
  // Returns the result in a few words.
  virtual std::string Headline() const = 0;
};

struct TaskReportOptions {
  Answers answers;
  ClassNames names;
  size_t worst = 0;  // number of samples shown
};

std::unique_ptr<TaskReport> NewClassificationReport(const Plan& plan, TaskReportOptions options);
std::unique_ptr<TaskReport> NewSegmentationReport(TaskReportOptions options);
// `pixels`: of the input images, for COCO's size ranges.
std::unique_ptr<TaskReport> NewDetectionReport(TaskReportOptions options, int64_t pixels);

// Throws kDataLoss unless `label` is a whole number 0..classes-1. `sample` counts from 0.
int64_t CheckedLabel(float label, int64_t classes, int64_t sample, const std::string& blob);

}  // namespace crema::tools
