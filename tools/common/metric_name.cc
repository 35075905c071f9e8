#include "common/metric_name.h"

#include <algorithm>
#include <cctype>

namespace crema::tools {

bool SmallerIsBetter(const std::string& name) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.empty() || lower.find("loss") != std::string::npos ||
         lower.find("err") != std::string::npos;
}

}  // namespace crema::tools
