// Selects the curves of a report and the rows of its table of results.
#pragma once

#include <string>
#include <vector>

#include "common/run_data.h"

namespace crema::tools {

struct RunCurve {
  size_t run = 0;
  std::string label;  // "train", "test", "test net 1, element 2"
  enum class Style { kLine, kFaint, kMarked } style = Style::kLine;
  std::vector<MetricPoint> points;
};

struct Chart {
  std::string title;
  std::string note;    // may be empty
  bool smooth = true;  // the page may smooth its curves of the training
  std::vector<RunCurve> series;
};

// Returns loss, one chart per other output, learning rate, and speed, for all runs together.
std::vector<Chart> ChartsOf(const std::vector<RunData>& runs);

// Returns JSON for the script of the page.
std::string ChartsJson(const std::vector<RunData>& runs, const std::vector<Chart>& charts);

// Returns the test series that are results of the run: all but copies of the total loss, and only
// the first elements of long outputs.
std::vector<const MetricSeries*> TestResults(const RunData& run);

// Returns "accuracy", "accuracy[3]" or "accuracy, net 1"; the total loss is "loss".
std::string ResultName(const MetricSeries& series, const RunData& run);

}  // namespace crema::tools
