// A sequence of weights files that a user names.
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

// Loads the files in order: later ones add and override; fillers fill the rest of weights made by
// MakeToLoad. Writes a table for each file and warnings to `log`, unless it is null. Throws the
// errors of ReadCaffemodel and Weights::Load.
LoadReport LoadFiles(const WeightsFiles& files, const Plan& plan, Weights* weights, LogSink* log);

}  // namespace crema
