// Hyperparameters of a run, from the files of its folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace crema::tools {

// Names and values, in the order of the page. The first ones are of interest for every run; the
// others, for a comparison.
struct Hyperparameters {
  std::vector<std::pair<std::string, std::string>> main;
  std::vector<std::pair<std::string, std::string>> others;

  // Returns an empty text if there is none of this name.
  std::string Find(const std::string& name) const;
};

// Reads solver.prototxt, net.prototxt and the --set flags of starts.jsonl. Tolerant: a missing or
// malformed file only leaves values out. Throws kIoFailure.
Hyperparameters ReadHyperparameters(const std::string& folder);

}  // namespace crema::tools
