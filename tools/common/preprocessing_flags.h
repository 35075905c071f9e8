// Flags of commands that feed images to nets: --mean, --scale, --std and so on.
#pragma once

#include <string>
#include <vector>

#include "core/shape.h"
#include "inference/preprocessing.h"

namespace crema::tools {

// Returns the names of the flags.
const std::vector<std::string>& PreprocessingFlags();

// Overrides the fields whose flags are given. `input` is the shape C x H x W, or null if it is not
// known yet: then --mean and --std take one number for each channel, and no file. Throws
// kInvalidArgument for values that cannot be read; FindPreprocessingProblem finds those that do not
// fit.
void SetPreprocessingOfFlags(const Shape* input, Preprocessing* preprocessing);

}  // namespace crema::tools
