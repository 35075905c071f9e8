#include "boxes/yaml_fields.h"

#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

constexpr char kEnd = '\0';

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  int line() const { return line_; }
  char Next() const { return at_ < text_.size() ? text_[at_] : kEnd; }
  bool Skip(char wanted) {
    if (Next() != wanted || wanted == kEnd) return false;
    line_ += wanted == '\n';
    ++at_;
    return true;
  }
  // Returns the number of blanks skipped.
  int SkipBlanks() {
    const size_t begin = at_;
    while (Next() == ' ' || Next() == '\t' || Next() == '\r') ++at_;
    if (Next() == '#' && (at_ == 0 || at_ > begin || text_[at_ - 1] == '\n')) SkipToLineEnd();
    return static_cast<int>(at_ - begin);
  }
  void SkipBlankLines() {
    do SkipBlanks();
    while (Skip('\n'));
  }
  void SkipToLineEnd() {
    while (Next() != kEnd && Next() != '\n') ++at_;
  }
  // "- x", a list's item.
  bool SkipDash() {
    if (Next() != '-' || (at_ + 1 < text_.size() && !IsBlank(text_[at_ + 1]))) return false;
    ++at_;
    SkipBlanks();
    return true;
  }
  // The colon after a key.
  bool SkipColon(bool in_brackets) {
    SkipBlanks();
    if (!IsColon(at_, in_brackets)) return false;
    ++at_;
    return true;
  }
  // Reads a value up to the colon, comment, end of the line or, in brackets, comma after it.
  std::string Value(bool in_brackets) {
    if (Next() == '"' || Next() == '\'') return Quoted();
    if (in_brackets && (Next() == '[' || Next() == '{')) return Inner();
    const size_t begin = at_;
    for (; Next() != kEnd && Next() != '\n'; ++at_) {
      if (in_brackets && std::string_view(",]}").find(Next()) != std::string_view::npos) break;
      if (IsColon(at_, in_brackets)) break;
      if (Next() == '#' && at_ > begin && IsBlank(text_[at_ - 1])) break;
    }
    const std::string_view value = Trim(text_.substr(begin, at_ - begin));
    const bool is_null = value == "null" || value == "Null" || value == "NULL" || value == "~";
    return std::string(is_null ? "" : value);
  }
  const std::string& file() const { return file_; }

 private:
  static bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  bool IsColon(size_t at, bool in_brackets) const {
    if (at >= text_.size() || text_[at] != ':') return false;
    if (at + 1 == text_.size() || IsBlank(text_[at + 1])) return true;
    return in_brackets && text_[at + 1] == ',';
  }
  // Skips brackets in brackets.
  std::string Inner() {
    for (int depth = 0; Next() != kEnd; ++at_) {
      depth += Next() == '[' || Next() == '{';
      depth -= Next() == ']' || Next() == '}';
      line_ += Next() == '\n';
      if (depth > 0) continue;
      ++at_;
      break;
    }
    return "";
  }
  std::string Quoted() {
    const char quote = text_[at_++];
    const int first = line_;
    std::string value;
    for (; Next() != kEnd; ++at_) {
      if (Next() == quote) {
        ++at_;
        if (quote == '"' || Next() != quote) return value;
      } else if (quote == '"' && Next() == '\\' && at_ + 1 < text_.size()) {
        ++at_;
      }
      line_ += Next() == '\n';
      value += Next();
    }
    FailLine(file_, first, StrCat("the value in ", quote, " has no end"));
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  int line_ = 1;
};

YamlItem ReadItem(bool in_brackets, Scanner* scanner) {
  YamlItem item{.value = scanner->Value(in_brackets)};
  if (!scanner->SkipColon(in_brackets)) return item;
  item.key = std::move(item.value);
  scanner->SkipBlanks();
  item.value = scanner->Value(in_brackets);
  return item;
}

// Reads [a, b] or {0: a, 1: b}, which may go on in further lines.
void ReadBrackets(Scanner* scanner, YamlField* field) {
  const char end = scanner->Skip('[') ? ']' : '}';
  if (end == '}') scanner->Skip('{');
  field->list = true;
  while (true) {
    scanner->SkipBlankLines();
    if (scanner->Skip(end)) return;
    field->items.push_back(ReadItem(true, scanner));
    scanner->SkipBlankLines();
    if (!scanner->Skip(',') && scanner->Next() != end) {
      FailLine(scanner->file(), field->line, StrCat("the list has no '", end, "' at its end"));
    }
  }
}

void ReadValue(Scanner* scanner, YamlField* field) {
  scanner->SkipBlanks();
  const char first = scanner->Next();
  if (first == '[' || first == '{') {
    ReadBrackets(scanner, field);
  } else if (first != '\n' && first != kEnd) {
    field->items.push_back({.value = scanner->Value(false)});
  }
}

}  // namespace

void FailLine(const std::string& file, int line, const std::string& what) {
  Fail(ErrorCode::kDataLoss, what, {.file = file, .line = line, .column = 1});
}

std::map<std::string, YamlField> ReadYamlFields(const std::string& file) {
  const std::string text = ReadDataFile(file);
  Scanner scanner(WithoutByteOrderMark(text), file);
  std::map<std::string, YamlField> fields;
  YamlField* field = nullptr;  // that a line may belong to
  int within = -1;             // indent of its lines
  for (; scanner.Next() != kEnd; scanner.SkipToLineEnd(), scanner.Skip('\n')) {
    const int indent = scanner.SkipBlanks();
    if (scanner.Next() == '\n' || scanner.Next() == kEnd) continue;
    const bool dash = scanner.SkipDash();
    if (field != nullptr && (indent > 0 || dash)) {
      if (within < 0) within = indent;
      const bool open = field->list || field->items.empty();  // no value in its own line
      if (indent != within || !open) continue;
      field->list = true;
      field->items.push_back(ReadItem(false, &scanner));
      continue;
    }
    const int line = scanner.line();
    const std::string key = scanner.Value(false);
    if (key.starts_with("---") || key.starts_with('%') || key == "...") continue;
    if (indent > 0 || dash || !scanner.SkipColon(false)) {
      FailLine(file, line, "is no line `key: value` of YAML");
    }
    field = &fields[key];
    *field = {.line = line};
    within = -1;
    ReadValue(&scanner, field);
  }
  return fields;
}

}  // namespace crema::tools
