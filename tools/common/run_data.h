// Reads a run folder; docs/run_folder.md has its files. Tolerant: a run may be in progress, or from
// another version.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/hyperparameters.h"

namespace crema::tools {

struct MetricPoint {
  double iteration = 0;
  double epoch = 0;
  double seconds = 0;  // of work since the first row of the run, without pauses before a resume
  double value = 0;    // NaN: not finite, or unknown
};

struct MetricSeries {
  enum class Kind { kTrain, kTrainOutput, kTest };
  Kind kind = Kind::kTrain;
  // kTrain: "loss", "smoothed_loss", "lr", "samples_per_second", "wait_share". Else the blob; "" is
  // the total loss of a test net.
  std::string name;
  int64_t net = 0;
  int64_t element = 0;
  std::vector<MetricPoint> points;
};

struct RunData {
  std::string name;    // name of the folder; unique in a report
  std::string folder;  // as given
  // Existing members of run.json as text ("seed", "net", ...).
  std::map<std::string, std::string> facts;
  std::string solver_text;  // solver.prototxt; may be empty
  Hyperparameters hyperparameters;
  std::vector<double> starts;  // seconds since 1970, of starts.jsonl
  std::vector<MetricSeries> series;
  int64_t unreadable = 0;           // ignored rows
  std::vector<std::string> faults;  // of its files: "a/run.json is damaged: ..."

  // Returns null if there is none.
  const MetricSeries* Find(MetricSeries::Kind kind, const std::string& name) const;
};

// Returns the number of iterations that the metrics show as completed; -1 without metrics.
double CompletedIterations(const RunData& run);

// Returns true if the folder holds metrics.csv or metrics.jsonl.
bool HoldsMetrics(const std::string& folder);

// Throws kNotFound for a folder that does not exist, kIoFailure. A folder without metrics gives a
// run without series.
RunData ReadRun(const std::string& folder);

// Reduces to about `most` points: the minimum and maximum of each section, the first and the last.
std::vector<MetricPoint> Thinned(const std::vector<MetricPoint>& points, size_t most);

}  // namespace crema::tools
