// Lists of `path label[ label...]`.
#include <algorithm>

#include "core/strings.h"
#include "data/lists/image_list.h"

namespace crema {

void ImageList::ReadLines(const std::string& text) {
  uint32_t line = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view trimmed = Trim(std::string_view(text).substr(begin, end - begin));
    ++line;
    if (!trimmed.empty()) AddLine(trimmed, line);
    begin = end + 1;
  }
}

void ImageList::AddLine(std::string_view line, uint32_t number) {
  std::vector<std::string_view> labels(label_count());
  std::string_view path = line;
  for (size_t left = labels.size(); left-- > 0;) {
    const size_t space = path.rfind(' ');
    if (space == std::string_view::npos) {
      const std::string lack = labels.size() == 1
                                   ? "there is no space before the label"
                                   : StrCat("there are not ", labels.size(), " labels in it");
      FailLine(number, StrCat("'", line, "' is not `", form_, "`: ", lack,
                              line.find(',') == std::string_view::npos
                                  ? ""
                                  : "; with commas, name the list .csv"));
    }
    labels[left] = path.substr(space + 1);
    path = Trim(path.substr(0, space));
  }
  Add(path, labels, number);
}

}  // namespace crema
