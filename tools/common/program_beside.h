// Finds other commands of Crema.
#pragma once

#include <string>

namespace crema::tools {

// Returns the path of another command of the same build or installation; the name alone, to be
// found by PATH, if the path of this one is unknown.
std::string ProgramBeside(const char* name);

}  // namespace crema::tools
