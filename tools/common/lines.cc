#include "common/lines.h"

#include <string_view>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {

std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // written by some editors
  std::string text = ReadFile(path);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  // The bytes of a picture, taken for names, would fill the terminal.
  if (text.find('\0') != std::string::npos) {
    Fail(ErrorCode::kInvalidArgument, "is a binary file, not a text with a name on each line",
         {.file = path});
  }
  for (const std::string& line : Split(text, '\n')) {
    if (!Trim(line).empty()) lines.emplace_back(Trim(line));
  }
  return lines;
}

}  // namespace crema::tools
