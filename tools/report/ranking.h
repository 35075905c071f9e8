// Results of runs: the last, the best, and the order of runs by them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/find_runs.h"

namespace crema::tools {

// Returns the last finite point.
std::optional<MetricPoint> LastOf(const MetricSeries* series);
// Returns the smallest or the largest finite point.
std::optional<MetricPoint> BestOf(const MetricSeries& series, bool smallest);
// Returns the test result of this name (ResultName); null if there is none.
const MetricSeries* ResultNamed(const RunData& run, const std::string& name);
// Returns the names of all test results of the runs, in their order.
std::vector<std::string> ResultNames(const std::vector<const RunData*>& runs);

// Orders runs by the best value of the test result that most of them have, if possible one that
// should be large; without tests, by the last training loss. Runs without it come last. Returns
// what they are ordered by: "best test accuracy".
std::string SortByBest(std::vector<ReportedRun>* runs);

}  // namespace crema::tools
