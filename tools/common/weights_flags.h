// --on_mismatch, for commands that load weights.
#pragma once

#include <string>
#include <vector>

#include "runtime/weights.h"

namespace crema::tools {

// Returns the files of --weights (each entry may name several, separated by commas; zoo:NAME is
// ResolveZooFile) with the policy of --on_mismatch. Throws kInvalidArgument for an unknown value.
WeightsFiles WeightsOfFlags(const std::vector<std::string>& entries, MissingLayers missing);

}  // namespace crema::tools
