#include "data/image_list.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema {
namespace {

[[noreturn]] void FailLine(const std::string& source, uint32_t line, std::string message) {
  Where where{.file = source};
  where.line = static_cast<int>(line);
  where.column = 1;
  Fail(ErrorCode::kDataLoss, std::move(message), std::move(where));
}

ImageList::Entry ParseLine(std::string_view text, uint32_t line, const std::string& source,
                           const std::string& root) {
  const size_t space = text.rfind(' ');
  if (space == std::string_view::npos) {
    FailLine(source, line,
             StrCat("'", text, "' is not `path label`: there is no space before the label"));
  }
  const std::string_view label = text.substr(space + 1);
  ImageList::Entry entry{.path = root, .line = line};
  entry.path += Trim(text.substr(0, space));
  const auto [end, error] = std::from_chars(label.begin(), label.end(), entry.label);
  if (error != std::errc() || end != label.end()) {
    FailLine(source, line,
             StrCat("the label '", label, "' behind '", entry.path,
                    "' is not a whole number; write `path label`, one image a line"));
  }
  return entry;
}

}  // namespace

ImageList::ImageList(const std::string& source, const std::string& root) : source_(source) {
  const std::string text = ReadFile(source);
  uint32_t line = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view trimmed = Trim(std::string_view(text).substr(begin, end - begin));
    ++line;
    if (!trimmed.empty()) entries_.push_back(ParseLine(trimmed, line, source, root));
    begin = end + 1;
  }
  if (entries_.empty()) {
    Fail(ErrorCode::kDataLoss, "lists no images: write `path label`, one image a line",
         {.file = source});
  }
}

std::string ImageList::Name(const Entry& entry) const {
  return StrCat("'", entry.path, "' (line ", entry.line, " of '", source_, "')");
}

}  // namespace crema
