// The reports of evaluate --report, one for each kind of task.
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
  // After each batch; `first` is how many samples came before.
  virtual void OnBatch(const Session& session, int64_t first, int64_t samples) = 0;
  // Writes the tables, and adds what sums them up.
  virtual void Write(const ReportFolder& folder, Summary* summary) const = 0;
  // The same in a few words, for people.
  virtual std::string Headline() const = 0;
};

struct TaskReportOptions {
  Answers answers;
  ClassNames names;
  size_t worst = 0;  // samples shown
};

std::unique_ptr<TaskReport> NewClassificationReport(const Plan& plan, TaskReportOptions options);
std::unique_ptr<TaskReport> NewSegmentationReport(TaskReportOptions options);
// `pixels`: of the images that the net sees; for the sizes of COCO.
std::unique_ptr<TaskReport> NewDetectionReport(TaskReportOptions options, int64_t pixels);

// Throws kDataLoss unless `label` is a whole number 0..classes-1. `sample` counts from 0.
int64_t CheckedLabel(float label, int64_t classes, int64_t sample, const std::string& blob);

}  // namespace crema::tools
