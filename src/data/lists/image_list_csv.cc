// Lists of `path,label[,label...]`.
#include <algorithm>
#include <charconv>
#include <optional>

#include "core/strings.h"
#include "data/lists/image_list.h"

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

void ImageList::ReadCsv(const std::string& text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  uint32_t line = 0;
  for (size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
       begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view trimmed = Trim(std::string_view(text).substr(begin, end - begin));
    ++line;
    if (!trimmed.empty()) AddCsvLine(trimmed, line);
    begin = end + 1;
  }
}

void ImageList::AddCsvLine(std::string_view line, uint32_t number) {
  const auto fields = FieldsOf(line);
  if (!fields) {
    FailLine(number, StrCat("the quotes of '", line,
                            "' do not fit: a quoted field ends before the next comma, on its line, "
                            "and holds \"\" for each quote"));
  }
  if (number == 1 && IsHeading(*fields)) return;
  if (fields->size() != label_count() + 1) {
    FailLine(
        number,
        StrCat("there are ", fields->size(), fields->size() == 1 ? " field" : " fields", " in '",
               line, "', but a path and ", label_count(), label_count() == 1 ? " label" : " labels",
               " are wanted (the layer ImageData takes as many labels as "
               "image_data_param.label_count says)"));
  }
  Add(fields->front(), std::vector<std::string_view>(fields->begin() + 1, fields->end()), number);
}

}  // namespace crema
