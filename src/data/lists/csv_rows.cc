#include "data/lists/csv_rows.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema {
namespace {

// Removes a quoted field from `text`, which begins after the opening quote. Returns nothing if the
// closing quote is missing.
std::optional<std::string> TakeQuoted(std::string_view* text) {
  std::string field;
  while (true) {
    const size_t quote = text->find('"');
    if (quote == std::string_view::npos) return std::nullopt;
    field += text->substr(0, quote);
    text->remove_prefix(quote + 1);
    if (!text->starts_with('"')) return field;
    field += '"';  // two quotes are one
    text->remove_prefix(1);
  }
}

// Returns nothing if the quotes are malformed.
std::optional<std::vector<std::string>> FieldsOf(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    line = line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
    const bool quoted = line.starts_with('"');
    if (quoted) {
      line.remove_prefix(1);
      auto field = TakeQuoted(&line);
      if (!field) return std::nullopt;
      fields.push_back(std::move(*field));
    }
    const size_t comma = line.find(',');
    const std::string_view rest = Trim(line.substr(0, comma));
    if (quoted && !rest.empty()) return std::nullopt;
    if (!quoted) fields.emplace_back(rest);
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<CsvRow> ReadCsvRows(const std::string& file) {
  const std::string text = ReadDataFile(file);
  std::vector<CsvRow> rows;
  uint32_t number = 0;
  for (size_t begin = text.size() - WithoutByteOrderMark(text).size(); begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trim(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    auto fields = FieldsOf(line);
    if (!fields) {
      Fail(ErrorCode::kDataLoss,
           StrCat("the quotes of '", line,
                  "' do not fit: a quoted field ends before the next comma, on its line, and holds "
                  "\"\" for each quote"),
           {.file = file, .line = static_cast<int>(number), .column = 1});
    }
    rows.push_back({.fields = std::move(*fields), .line = number});
  }
  return rows;
}

}  // namespace crema
