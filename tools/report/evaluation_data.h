// The folder that evaluate --report wrote.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/json_rows.h"

namespace crema::tools {

struct EvaluationData {
  std::string folder;  // empty: there is none
  JsonMembers summary;
  JsonMembers macro;  // means over classes
  using Table = std::vector<std::vector<std::string>>;
  Table classes;    // per_class.csv with its header
  Table confusion;  // confusion_matrix.csv with its header; empty for detectors
  Table worst;      // worst.csv with its header; empty for others than classifiers
};

// Whether the folder holds a summary.json.
bool HoldsEvaluation(const std::string& folder);

// Requires: it does. Throws kDataLoss where a file is not what it should be, kIoFailure.
EvaluationData ReadEvaluation(const std::string& folder);

// A file of the folder; empty when it is not there. `name` comes from a table and may not lead out
// of the folder.
std::string FileOfEvaluation(const EvaluationData& evaluation, const std::string& name);

}  // namespace crema::tools
