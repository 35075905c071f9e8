// The actions of `deploy`. Each takes the arguments after its name and returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

int Bench(const std::vector<std::string>& arguments);
int Classify(const std::vector<std::string>& arguments);
int Detect(const std::vector<std::string>& arguments);
int Export(const std::vector<std::string>& arguments);
int RunNet(const std::vector<std::string>& arguments);
int Segment(const std::vector<std::string>& arguments);
int Verify(const std::vector<std::string>& arguments);

}  // namespace crema::tools
