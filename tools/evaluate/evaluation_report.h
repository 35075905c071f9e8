// evaluate --report: writes tables and pictures of an evaluation to a folder.
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
  std::string weights;     // for the summary
  std::string prediction;  // blob; empty: derived from the net
  std::string label;       // likewise
  std::string labels;      // file with class names; may be empty
  size_t worst = 0;        // number of samples shown
};

// Thread safety: one thread.
class EvaluationReport {
 public:
  // Reads the names, then creates the folder, so that both fail before the computation. Throws
  // kIoFailure; kNotFound if the file of names is missing.
  explicit EvaluationReport(EvaluationReportOptions options);

  // For EvaluationOptions::on_batch, with keep_blobs. The first batch throws what FindAnswers
  // throws, and kInvalidArgument if the number of names differs from the classes; no empty folder
  // is left.
  void OnBatch(const Session& session, int64_t samples);
  // Writes everything and returns a summary to print.
  std::string Write(const Evaluation& evaluation) const;

 private:
  void Begin(const Plan& plan);
  void CheckNames() const;

  EvaluationReportOptions options_;
  ClassNames names_;
  ReportFolder folder_;
  Answers answers_;
  std::unique_ptr<TaskReport> report_;
  std::string net_;
  int64_t samples_ = 0;
};

}  // namespace crema::tools
