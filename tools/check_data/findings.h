// What is wrong with data sets, or worth knowing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "check_data/set_summary.h"

namespace crema::tools {

struct Finding {
  bool problem = false;  // else a note
  std::string kind;      // a word for programs
  std::string set;       // path of the data set
  std::string text;      // what it is, without the number
  Examples examples;
};

// Of each set, and between the first (training) and the second (test). Reads the keys of examples
// from the sets.
std::vector<Finding> FindAll(std::span<const SetSummary> sets);

// Labels between the first (0, for boxes 1) and the last that no image has.
std::vector<int> LabelGaps(const SetSummary& set);

}  // namespace crema::tools
