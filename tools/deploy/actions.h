// What `deploy` can do; each takes the arguments behind its name and returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

int Classify(const std::vector<std::string>& arguments);
int Detect(const std::vector<std::string>& arguments);

}  // namespace crema::tools
