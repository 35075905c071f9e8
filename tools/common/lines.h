// Small text files that users write.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

// The lines of a file that are not empty, without the spaces around them and a
// byte order mark. Throws as ReadFile.
std::vector<std::string> ReadLines(const std::string& path);

}  // namespace crema::tools
