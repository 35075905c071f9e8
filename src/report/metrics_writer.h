// Writes metrics.csv and metrics.jsonl of a run folder; docs/run_folder.md has the schema.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/pace.h"
#include "report/run_folder.h"
#include "solvers/training_observer.h"

namespace crema {

// One row. Fields that a kind lacks are empty (CSV) or omitted (JSON).
struct MetricsRow {
  enum class Kind { kTrain, kOutput, kTest };
  Kind kind = Kind::kTrain;
  int64_t iteration = 0;
  double epoch = 0;
  double time = 0;  // seconds since 1970
  // kTrain. NaN: unknown.
  double loss = 0;
  double smoothed_loss = 0;
  double rate = 0;
  double samples_per_second = 0;
  double wait_share = 0;
  // kTrain, with a loss scale: its value, and the number of skipped updates so far.
  double loss_scale = 0;
  int64_t skipped_updates = 0;
  // kOutput, kTest: one element of an output blob. Without a blob name: the total loss of the test
  // net.
  size_t net = 0;
  std::string blob = {};
  size_t element = 0;
  double value = 0;
};

std::string MetricsCsvHeader();  // ends with a newline, like all three
std::string CsvLine(const MetricsRow& row);
std::string JsonLine(const MetricsRow& row);

// Returns the lines of either file for iterations before `iteration`; drops the rest, and an
// incomplete last line.
std::string MetricsBefore(const std::string& text, int64_t iteration);

// Returns true for multiples of `interval` (0: displayed iterations) and for the last iteration.
bool IsRowDue(const IterationReport& report, int64_t interval);

// Thread safety: one thread.
class MetricsWriter final : public TrainingObserver {
 public:
  // Removes rows of `first_iteration` and later from the files (of a run resumed from a snapshot).
  // `folder` must outlive this.
  MetricsWriter(RunFolder& folder, int64_t first_iteration, int64_t interval);

  void OnIteration(const IterationReport& report) override;
  void OnTest(const TestReport& report) override;
  void OnSnapshotStart() override;

 private:
  void Write(const std::vector<MetricsRow>& rows);

  int64_t interval_;
  Pace pace_;  // since the last row
  RankPace ranks_;
  GrowingFile csv_;
  GrowingFile json_;
};

}  // namespace crema
