// Weights files that a user names, one after the other.
#pragma once

#include <string>
#include <vector>

#include "core/log.h"
#include "runtime/weights.h"

namespace crema {

struct WeightsFiles {
  std::vector<std::string> paths;
  OnMismatch on_mismatch = OnMismatch::kError;
  MissingLayers missing = MissingLayers::kError;  // in all of the files together
};

// Loads the files in their order: later ones add and override; fillers do the rest of weights that
// were made to be loaded. Writes a table for each file and
// warnings to `log`, unless it is null. Throws what ReadCaffemodel and Weights::Load throw.
LoadReport LoadFiles(const WeightsFiles& files, const Plan& plan, Weights* weights, LogSink* log);

}  // namespace crema
