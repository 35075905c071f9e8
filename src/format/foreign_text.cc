#include "format/foreign_text.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "core/strings.h"

namespace crema {
namespace {

constexpr size_t kMostRead = size_t{1} << 20;  // bytes that are looked at

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool IsBlankOrComment(std::string_view line) {
  const std::string_view text = Trim(line);
  return text.empty() || text[0] == '#';
}

// "404: Not Found", "403 Forbidden"
bool IsAnswerOfServer(std::string_view line) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const bool has_code = line.size() > 4 && (line[0] == '4' || line[0] == '5') &&
                        is_digit(line[1]) && is_digit(line[2]) &&
                        (line[3] == ':' || line[3] == ' ');
  return has_code || line == "Not Found" || line.starts_with("HTTP/1.");
}

bool IsPython(std::string_view line) {
  return line.starts_with("import ") || line.starts_with("def ") || line.starts_with("class ") ||
         (line.starts_with("from ") && line.find(" import ") != std::string_view::npos);
}

bool IsName(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

// Returns true if each line is "name:", "name: value" or "- value", and some are of forms that a
// prototxt does not have.
bool IsYaml(const std::vector<std::string_view>& lines) {
  bool found = false;
  for (const std::string_view line : lines) {
    if (IsBlankOrComment(line)) continue;
    std::string_view rest = Trim(line);
    if (rest == "---" || rest.starts_with("- ")) {
      found = true;
      continue;
    }
    const size_t colon = rest.find(':');
    if (colon == std::string_view::npos || !IsName(Trim(rest.substr(0, colon)))) return false;
    rest.remove_prefix(colon + 1);
    if (rest.empty()) found = true;  // a block follows
  }
  return found;
}

}  // namespace

ForeignText FindForeignText(std::string_view text, std::string_view expected) {
  const std::vector<std::string_view> lines = LinesOf(text.substr(0, kMostRead));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with("<<<<<<< ")) continue;
    return {"a merge conflict is left here: keep one of the two versions and remove the marks",
            static_cast<int>(i) + 1};
  }
  const auto first = std::ranges::find_if_not(lines, IsBlankOrComment);
  if (first == lines.end()) return {};
  const std::string_view begin = Trim(*first);
  if (begin[0] == '{' || begin == "[") {
    return {StrCat("is JSON, not ", expected,
                   ": write fields as NAME: VALUE, without quotes around NAME and without the "
                   "outer braces")};
  }
  if (IsAnswerOfServer(begin)) {
    return {StrCat("is the answer of a web server ('", begin.substr(0, 60), "'), not ", expected,
                   ": a download failed; download the file again")};
  }
  if (std::ranges::any_of(lines, IsPython)) return {StrCat("is a Python program, not ", expected)};
  if (IsYaml(lines)) {
    return {StrCat("is YAML, not ", expected,
                   ": write fields as NAME: VALUE, strings in quotes and blocks in { }")};
  }
  return {};
}

}  // namespace crema
