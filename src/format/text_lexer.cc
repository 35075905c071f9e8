#include "format/text_lexer.h"

#include <algorithm>
#include <utility>

#include "core/strings.h"

namespace crema {
namespace {

using google::protobuf::io::Tokenizer;

bool IsContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns the UTF-8 character at the start of `text`, at least one byte.
std::string FirstCharacter(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && size < 4 && IsContinuationByte(text[size])) ++size;
  return std::string(text.substr(0, size));
}

// Returns true for the minus sign and the dashes of Unicode.
bool IsOtherMinus(std::string_view character) {
  return character == "\u2212" || character == "\u2012" || character == "\u2013" ||
         character == "\u2014";
}

// Describes a character that is not allowed outside of strings and comments.
std::string DescribeStray(const std::string& character) {
  if (character == "\u00A0" || character == "\u3000" || character == "\u200B" ||
      character == "\uFEFF") {
    return "an invisible special space (not a plain one) is here; replace it with a space";
  }
  if (character == "\u201C" || character == "\u201D" || character == "\u2018" ||
      character == "\u2019") {
    return "typographic quote " + character + "; write the plain quote \" instead";
  }
  if (IsOtherMinus(character)) return "'" + character + "' is no minus sign; write -";
  const bool printable = static_cast<unsigned char>(character[0]) >= 0x20;
  if (!printable) return "invalid control character; remove it";
  return "unexpected character '" + character + "'; only strings and comments may hold it";
}

bool IsWordCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '.';
}

// Returns the word of digits and letters around `offset`: "5x5".
std::string_view WordAround(std::string_view text, size_t offset) {
  size_t begin = std::min(offset, text.size());
  size_t end = begin;
  while (begin > 0 && IsWordCharacter(text[begin - 1])) --begin;
  while (end < text.size() && IsWordCharacter(text[end])) ++end;
  return text.substr(begin, end - begin);
}

bool IsAllDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Explains a number with letters in it: "10k", "5x5", "3px".
std::string DescribeBrokenNumber(std::string_view word) {
  constexpr size_t kLongest = 40;
  std::string text = StrCat("'", std::string(word.substr(0, kLongest)), "' is not a number");
  const size_t letter = word.find_first_not_of("0123456789");
  if (letter == std::string_view::npos || letter == 0 || word.size() > kLongest) return text;
  const std::string digits(word.substr(0, letter));
  const std::string_view rest = word.substr(letter);
  if (rest[0] == '.') return text;
  std::string without(word);
  std::erase(without, '_');
  if (rest[0] == '_' && IsAllDigits(without)) return text + "; write " + without;
  if (rest == "k" || rest == "K") return text + "; write " + digits + "000";
  if (rest == "m" || rest == "M") return text + "; write " + digits + "000000";
  if ((rest[0] == 'x' || rest[0] == 'X') && IsAllDigits(rest.substr(1))) {
    return StrCat(text,
                  "; write one number, or two fields for height and width, such as kernel_h and "
                  "kernel_w instead of kernel_size");
  }
  return text + "; write " + digits;
}

// Returns true if the digits around `offset` follow a digit and a comma.
bool IsAfterComma(std::string_view text, size_t offset) {
  const auto is_digit = [&](size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  size_t begin = std::min(offset, text.size());
  while (begin > 0 && is_digit(begin - 1)) --begin;
  return begin > 1 && text[begin - 1] == ',' && is_digit(begin - 2);
}

}  // namespace

std::string Quoted(const Token& token) {
  if (token.IsEnd()) return "the end of the file";
  constexpr size_t kLongest = 40;
  if (token.type == Tokenizer::TYPE_STRING) {
    return "the string " +
           (token.text.size() > kLongest ? token.text.substr(0, kLongest) + "..." : token.text);
  }
  return "'" + token.text.substr(0, kLongest) + "'";
}

TextLexer::TextLexer(std::string_view text, TextReporter report)
    : text_(text),
      report_(std::move(report)),
      stream_(text.data(), static_cast<int>(text.size())),
      tokenizer_(&stream_, this) {
  line_starts_.push_back(0);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_starts_.push_back(i + 1);
  }
  tokenizer_.set_allow_f_after_float(true);
  tokenizer_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  current_ = Read();
  next_ = Read();
}

void TextLexer::Advance() {
  current_ = std::move(next_);
  next_ = Read();
}

bool TextLexer::TryConsume(std::string_view symbol) {
  if (!current_.Is(symbol)) return false;
  Advance();
  return true;
}

void TextLexer::SkipTokenOrBlock() {
  int64_t depth = 0;
  do {
    if (current_.Opens()) ++depth;
    if (current_.Closes()) --depth;
    Advance();
  } while (depth > 0 && !current_.IsEnd());
}

Token TextLexer::Read() {
  tokenizer_.Next();
  while (SkipStrayByte() || SkipForeignComment()) {
  }
  const Tokenizer::Token& raw = tokenizer_.current();
  return {raw.type, raw.text, Convert(raw.line, raw.column)};
}

// The tokenizer returns non-ASCII bytes as symbols; AddError has reported them.
bool TextLexer::SkipStrayByte() {
  const Tokenizer::Token& raw = tokenizer_.current();
  if (raw.type != Tokenizer::TYPE_SYMBOL || static_cast<unsigned char>(raw.text[0]) < 0x80) {
    return false;
  }
  tokenizer_.Next();
  return true;
}

bool TextLexer::SkipForeignComment() {
  const Tokenizer::Token& raw = tokenizer_.current();
  if (raw.type != Tokenizer::TYPE_SYMBOL || raw.text != "/") return false;
  const Position position = Convert(raw.line, raw.column);
  const size_t begin = cursor_.offset;
  const bool is_block = text_.substr(begin).starts_with("/*");
  if (!is_block && !text_.substr(begin).starts_with("//")) return false;
  // "http://..." and "a//b" without quotes are no comments.
  constexpr std::string_view kBefore = " \t\r\n{}";
  if (begin > 0 && kBefore.find(text_[begin - 1]) == std::string_view::npos) return false;
  const size_t end = is_block ? text_.find("*/", begin + 2) : text_.find('\n', begin);
  comment_end_ = end == std::string_view::npos ? text_.size() + 1 : end + (is_block ? 2 : 1);
  report_(position, StrCat("comments begin with '#', on each line: write # instead of ",
                           is_block ? "/*" : "//"));
  error_line_ = position.line;
  do {
    tokenizer_.Next();
    Convert(raw.line, raw.column);
  } while (raw.type != Tokenizer::TYPE_END && cursor_.offset < comment_end_);
  return true;
}

Position TextLexer::Convert(int line, int column) {
  if (line < 0 || static_cast<size_t>(line) >= line_starts_.size()) return {line + 1, column + 1};
  if (cursor_.line != line || cursor_.tokenizer_column > column) {
    cursor_ = {line, line_starts_[static_cast<size_t>(line)], 0, 0};
  }
  constexpr int kTabWidth = 8;  // fixed by the tokenizer
  while (cursor_.tokenizer_column < column && cursor_.offset < text_.size()) {
    const char c = text_[cursor_.offset++];
    cursor_.tokenizer_column += c == '\t' ? kTabWidth - cursor_.tokenizer_column % kTabWidth : 1;
    if (!IsContinuationByte(c)) ++cursor_.column;
  }
  return {line + 1, cursor_.column + 1};
}

void TextLexer::AddError(int line, int column, const std::string& message) {
  const Position position = Convert(line, column);
  const std::string_view rest = text_.substr(std::min(cursor_.offset, text_.size()));
  if (cursor_.offset < comment_end_) return;
  // "1e−3": the character after this one is reported.
  if (message.starts_with("\"e\" must be") && IsOtherMinus(FirstCharacter(rest))) return;
  // "0,001": the parser reports the comma.
  if (message.find("leading zero") != std::string::npos && IsAfterComma(text_, cursor_.offset))
    return;
  const bool is_first_of_line = std::exchange(error_line_, position.line) != position.line;
  if (message.starts_with("Interpreting non ascii")) {
    if (!rest.empty() && !IsContinuationByte(rest[0])) {
      report_(position, DescribeStray(FirstCharacter(rest)));
    }
  } else if (message.starts_with("Invalid control")) {
    report_(position, "invalid control character; remove it");
  } else if (message.starts_with("String literals cannot cross") ||
             message.starts_with("Multiline strings") || message.starts_with("Unexpected end of")) {
    report_(position, "a string is not closed: a quote is missing before here");
  } else if (message.find("escape sequence") != std::string::npos ||
             message.starts_with("Expected hex digits")) {
    if (!is_first_of_line) return;
    report_(position, "'\\' begins an escape sequence: in a path, write '/' (or '\\\\')");
  } else if (message.starts_with("Need space between number")) {
    report_(position, DescribeBrokenNumber(WordAround(text_, cursor_.offset)));
  } else {
    report_(position, "cannot be read: " + message);
  }
}

}  // namespace crema
