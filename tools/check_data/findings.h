// Faults and notable facts of data sets.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "check_data/set_summary.h"

namespace crema::tools {

struct Finding {
  bool problem = false;  // false: a note
  std::string kind;      // identifier for programs
  std::string set;       // path of the data set
  std::string text;      // description without the number
  Examples examples;
};

// Returns findings of each set, and between the first (training) and the second (test). Reads the
// keys of examples from the sets.
std::vector<Finding> FindAll(std::span<const SetSummary> sets);

// Returns labels without images between the first (0; 1 for boxes) and the last.
std::vector<int> LabelGaps(const SetSummary& set);

}  // namespace crema::tools
