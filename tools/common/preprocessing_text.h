// Writes a preprocessing as flags of deploy. Apart from the flags themselves, so that commands
// without them can use it.
#pragma once

#include <string>

#include "inference/preprocessing.h"

namespace crema::tools {

// Returns the flags that stand for a preprocessing, each after a space; a mean image is FILE.
std::string FlagsOfPreprocessing(const Preprocessing& preprocessing);

}  // namespace crema::tools
