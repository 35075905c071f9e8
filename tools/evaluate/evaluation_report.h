// evaluate --report: from the batches of an evaluation to a folder of tables and pictures.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "evaluate/task_report.h"
#include "runtime/evaluate.h"

namespace crema::tools {

struct EvaluationReportOptions {
  std::string folder;
  std::string model;       // for the summary
  std::string weights;     // likewise
  std::string prediction;  // blob; empty: the net tells
  std::string label;       // likewise
  std::string labels;      // file with class names; may be empty
  size_t worst = 0;        // samples shown
};

// Thread safety: one thread.
class EvaluationReport {
 public:
  // Makes the folder, so that it is known to be writable before anything is computed. Throws
  // kIoFailure; kNotFound where there is no file of names.
  explicit EvaluationReport(EvaluationReportOptions options);

  // For EvaluationOptions::on_batch, with keep_blobs. The first batch throws what FindAnswers
  // does, and kInvalidArgument where the names are not as many as the classes.
  void OnBatch(const Session& session, int64_t samples);
  // Writes everything; what to print about it.
  std::string Write(const Evaluation& evaluation) const;

 private:
  void Begin(const Plan& plan);

  EvaluationReportOptions options_;
  ReportFolder folder_;
  ClassNames names_;
  Answers answers_;
  std::unique_ptr<TaskReport> report_;
  std::string net_;
  int64_t samples_ = 0;
};

}  // namespace crema::tools
