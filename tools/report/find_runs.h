// Finds and reads the runs of a report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/run_data.h"
#include "report/evaluation_data.h"

namespace crema::tools {

struct ReportedRun {
  RunData run;
  std::optional<EvaluationData> evaluation;
};

struct ReportedRuns {
  std::vector<ReportedRun> runs;   // with unique names
  std::vector<std::string> notes;  // what could not be read in a folder of runs
  std::string order;               // "best test accuracy"; empty: as they were named
};

enum class RunOrder {
  kBestFirst,
  kByName,  // while runs are in progress: each keeps its place and its colour
};

// Reads runs: the metrics of each, and its evaluation in the folder itself or in its subfolder
// `evaluation`. A folder that is no run stands for all runs in it and in its subfolders, in the
// given order. Throws kNotFound for a folder that holds nothing of that; kDataLoss and kIoFailure
// for a run that was named. With kByName, these errors become notes.
ReportedRuns ReadRuns(const std::vector<std::string>& folders, RunOrder order);

// Returns a text that changes when the page of these folders would: of names, sizes and times of
// files. Ignores what cannot be read.
std::string StateOfRuns(const std::vector<std::string>& folders);

}  // namespace crema::tools
