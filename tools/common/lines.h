// Reads small text files written by users.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

// Returns the non-empty lines of a file, trimmed, without a byte order mark. Throws like ReadFile,
// and kInvalidArgument for a binary file.
std::vector<std::string> ReadLines(const std::string& path);

}  // namespace crema::tools
