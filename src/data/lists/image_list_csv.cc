// Lists of `path,label[,label...]`.
#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/strings.h"
#include "data/lists/csv_rows.h"
#include "data/lists/image_list.h"

namespace crema {
namespace {

bool IsNumber(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// A misspelt label must not turn a line of data into a heading.
bool IsHeading(const std::vector<std::string>& fields) {
  return std::ranges::none_of(fields, IsNumber) && !LooksLikeImage(fields[0]);
}

}  // namespace

void ImageList::ReadCsv() {
  for (const CsvRow& row : ReadCsvRows(source_)) {
    if (row.line != 1 || !IsHeading(row.fields)) AddCsvRow(row);
  }
}

void ImageList::AddCsvRow(const CsvRow& row) {
  const std::vector<std::string>& fields = row.fields;
  if (fields.size() != label_count() + 1) {
    FailLine(row.line,
             StrCat("there are ", fields.size(), fields.size() == 1 ? " field" : " fields", " in '",
                    Join(fields, ","), "', but a path and ", label_count(),
                    label_count() == 1 ? " label" : " labels",
                    " are wanted (the layer ImageData takes as many labels as "
                    "image_data_param.label_count says)"));
  }
  Add(fields.front(), std::vector<std::string_view>(fields.begin() + 1, fields.end()), row.line);
}

}  // namespace crema
