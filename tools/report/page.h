// Generates the page of `report`: one self-contained file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/run_data.h"
#include "report/evaluation_data.h"
#include "report/find_runs.h"

namespace crema::tools {

// The first lines of a page have this text.
inline constexpr std::string_view kPageMark = "<meta name=\"generator\" content=\"crema report\">";

enum class PageUse {
  kFile,  // loads nothing
  kLive,  // asks the server that it comes from for its newest state
};

// `time` is the time of the page, in seconds since 1970.
std::string ReportPage(const std::string& title, const ReportedRuns& runs, PageUse use,
                       double time);

// Parts of the page, as HTML.
// `order` says what the runs are ordered by; may be empty.
std::string ResultsHtml(const std::vector<RunData>& runs, const std::string& order);
std::string EvaluationHtml(const RunData& run, size_t index, const EvaluationData& evaluation);
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace crema::tools
