// Reads a folder written by evaluate --report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/json_rows.h"

namespace crema::tools {

struct EvaluationData {
  std::string folder;  // empty: no evaluation
  JsonMembers summary;
  JsonMembers macro;  // means over classes
  using Table = std::vector<std::vector<std::string>>;
  Table classes;    // per_class.csv with its header
  Table confusion;  // confusion_matrix.csv with its header; empty for detectors
  Table worst;      // worst.csv with its header; empty unless classification
};

// Returns true if the folder has a summary.json.
bool HoldsEvaluation(const std::string& folder);

// Requires: HoldsEvaluation. Throws kDataLoss for a malformed file, kIoFailure.
EvaluationData ReadEvaluation(const std::string& folder);

// Returns a file of the folder; empty if missing. `name` comes from a table and must not leave the
// folder.
std::string FileOfEvaluation(const EvaluationData& evaluation, const std::string& name);

}  // namespace crema::tools
