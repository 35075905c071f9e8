// Which curves a report draws, and what its table of results says.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace crema::tools {

struct ChartSeries {
  size_t run = 0;
  std::string label;  // "train", "test", "test net 1, element 2"
  enum class Style { kLine, kFaint, kMarked } style = Style::kLine;
  std::vector<MetricPoint> points;
};

struct Chart {
  std::string title;
  std::string note;  // may be empty
  std::vector<ChartSeries> series;
};

// Loss, one chart for each other output, learning rate, speed; of all runs together.
std::vector<Chart> ChartsOf(const std::vector<RunData>& runs);

// As JSON for the script of the page.
std::string ChartsJson(const std::vector<RunData>& runs, const std::vector<Chart>& charts);

// Whether a smaller value of an output of this name is the better one.
bool SmallerIsBetter(const std::string& name);

// The series of a test that stand for a result of the run: all but copies of the total loss. Only
// the first elements of long outputs.
std::vector<const MetricSeries*> TestResults(const RunData& run);

// "accuracy", "accuracy[3]", "accuracy, net 1"; the total loss is "loss".
std::string ResultName(const MetricSeries& series, const RunData& run);

}  // namespace crema::tools
