// --on_mismatch, for all commands that load weights.
#pragma once

#include <string>
#include <vector>

#include "runtime/weights_files.h"

namespace crema::tools {

// The files of --weights (each entry may name several, separated by commas) with what
// --on_mismatch says. Throws kInvalidArgument for another value of it.
WeightsFiles WeightsOfFlags(const std::vector<std::string>& entries, MissingLayers missing);

}  // namespace crema::tools
