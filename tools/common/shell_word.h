// Writes arguments of commands that a user may copy.
#pragma once

#include <string>

namespace crema::tools {

// Returns an argument in quotes, if the shell needs them.
std::string ForShell(const std::string& text);

}  // namespace crema::tools
