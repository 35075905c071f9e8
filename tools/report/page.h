// The page that `report` writes: one file without references to others.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/evaluation_data.h"
#include "report/run_data.h"

namespace crema::tools {

struct ReportedRun {
  RunData run;
  std::optional<EvaluationData> evaluation;
};

// Reads every run: its metrics, and its evaluation where the folder `evaluation` within it is one,
// or where it is one itself. Throws kNotFound for a folder that holds neither, kDataLoss,
// kIoFailure.
std::vector<ReportedRun> ReadRuns(const std::vector<std::string>& folders);

std::string ReportPage(const std::string& title, const std::vector<ReportedRun>& runs);

// Its parts, each HTML.
std::string ResultsHtml(const std::vector<RunData>& runs);
std::string EvaluationHtml(const RunData& run, size_t index, const EvaluationData& evaluation);
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace crema::tools
