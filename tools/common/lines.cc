#include "common/lines.h"

#include <string_view>

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema::tools {

std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  const std::string text = ReadFile(path);
  // The bytes of a picture, taken for names, would fill the terminal.
  if (text.find('\0') != std::string::npos) {
    Fail(ErrorCode::kInvalidArgument, "is a binary file, not a text with a name on each line",
         {.file = path});
  }
  for (const std::string& line : Split(WithoutByteOrderMark(text), '\n')) {
    if (!Trim(line).empty()) lines.emplace_back(Trim(line));
  }
  return lines;
}

}  // namespace crema::tools
