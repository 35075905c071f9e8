#include "common/lines.h"

#include <string_view>

#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {

std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // written by some editors
  std::string text = ReadFile(path);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  for (const std::string& line : Split(text, '\n')) {
    if (!Trim(line).empty()) lines.emplace_back(Trim(line));
  }
  return lines;
}

}  // namespace crema::tools
