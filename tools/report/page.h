// Generates the page of `report`: one self-contained file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/evaluation_data.h"
#include "common/run_data.h"

namespace crema::tools {

struct ReportedRun {
  RunData run;
  std::optional<EvaluationData> evaluation;
};

// Reads every run: its metrics, and its evaluation in the folder itself or in its subfolder
// `evaluation`. Throws kNotFound for a folder with neither, kDataLoss, kIoFailure.
std::vector<ReportedRun> ReadRuns(const std::vector<std::string>& folders);

// The first lines of a page have this text.
inline constexpr std::string_view kPageMark = "<meta name=\"generator\" content=\"crema report\">";

std::string ReportPage(const std::string& title, const std::vector<ReportedRun>& runs);

// Parts of the page, as HTML.
std::string ResultsHtml(const std::vector<RunData>& runs);
std::string EvaluationHtml(const RunData& run, size_t index, const EvaluationData& evaluation);
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace crema::tools
