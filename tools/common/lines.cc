#include "common/lines.h"

#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {

std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  for (const std::string& line : Split(ReadFile(path), '\n')) {
    if (!Trim(line).empty()) lines.emplace_back(Trim(line));
  }
  return lines;
}

}  // namespace crema::tools
