#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "format/field_setting.h"
#include "format/text_lexer.h"
#include "format/upgrade.h"

namespace crema {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::io::Tokenizer;

// A value as written. `text` of a string is unquoted and joined.
struct Literal {
  Position begin;
  Tokenizer::TokenType type = Tokenizer::TYPE_END;
  bool negative = false;
  std::string text;
};

std::string Written(const Literal& literal) {
  constexpr size_t kLongest = 40;
  std::string text = literal.text.substr(0, kLongest);
  if (literal.text.size() > kLongest) text += "...";
  if (literal.type == Tokenizer::TYPE_STRING) return "the string \"" + text + "\"";
  return StrCat(literal.negative ? "-" : "", text);
}

std::string ToLower(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return lower;
}

bool ValueIsMissing(const TextLexer& lexer) {
  const Token& token = lexer.current();
  if (token.IsEnd() || token.Closes() || token.Is(",") || token.Is(";")) return true;
  if (!token.IsName()) return false;
  const Token& next = lexer.next();
  return next.Is(":") || (next.Is("{") && next.begin.line == token.begin.line);
}

bool IsNameOfField(const TextLexer& lexer) {
  return lexer.current().IsName() && (lexer.next().Is(":") || lexer.next().Is("{"));
}

// Skips the rest of a value that ends with its line, and returns it without spaces.
std::string TakeRestOfLine(TextLexer& lexer) {
  std::string text;
  const int line = lexer.current().begin.line;
  while (lexer.current().begin.line == line && !lexer.current().IsEnd() &&
         !lexer.current().Is("}") && (text.empty() || !IsNameOfField(lexer))) {
    text += lexer.current().text;
    lexer.Advance();
  }
  return text;
}

// Skips "(5, 5)" and returns "5, 5".
std::string TakeTuple(TextLexer& lexer) {
  std::string text;
  const int line = lexer.current().begin.line;
  lexer.Advance();
  while (!lexer.current().Is(")") && lexer.current().begin.line == line) {
    text += lexer.current().text + (lexer.current().Is(",") ? " " : "");
    lexer.Advance();
  }
  lexer.TryConsume(")");
  return text;
}

// Reports and skips values of other languages: (5, 5), ${NAME}, a path without quotes. Returns
// false if there is none.
bool RefuseForeignValue(TextLexer& lexer, const FieldDescriptor& field,
                        const TextReporter& report) {
  const Token value = lexer.current();
  const Token& next = lexer.next();
  const bool is_string = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (value.Is("(")) {
    const std::string values = TakeTuple(lexer);
    report(value.begin, field.is_repeated()
                            ? StrCat("several values are a list in brackets: write ", field.name(),
                                     ": [", values, "]")
                            : StrCat("'", field.name(), "' expects ", ExpectedValue(field),
                                     ", got (", values, ")"));
    return true;
  }
  if (value.Is("$")) {
    const std::string written = TakeRestOfLine(lexer);
    if (lexer.current().Is("}")) lexer.Advance();  // of ${NAME}
    report(value.begin,
           StrCat("variables such as ", written, written.find('{') == 1 ? "}" : "",
                  " are not replaced: write the value, or give --set ", field.name(), "=VALUE"));
    return true;
  }
  const bool begins_path = value.Is("/") || value.Is(".") || value.Is("~");
  const bool continues = (next.Is("/") || next.Is(".") || next.Is("-")) &&
                         next.begin.line == value.begin.line && value.IsName();
  if (!is_string || !(begins_path || continues)) return false;
  report(value.begin, StrCat("'", field.name(), "' expects a string in quotes; write \"",
                             TakeRestOfLine(lexer), "\""));
  return true;
}

// Reads a literal; reports a problem and returns nothing if there is none.
std::optional<Literal> ReadLiteral(TextLexer& lexer, const FieldDescriptor& field,
                                   const TextReporter& report) {
  Literal literal;
  literal.begin = lexer.current().begin;
  const auto expected = [&] {
    return StrCat("'", field.name(), "' expects ", ExpectedValue(field), ", got ");
  };
  if (RefuseForeignValue(lexer, field, report)) return std::nullopt;
  if (ValueIsMissing(lexer)) {
    report(literal.begin, expected() + "nothing before " + Quoted(lexer.current()));
    return std::nullopt;
  }
  if (lexer.current().Opens()) {
    report(literal.begin, expected() + (lexer.current().Is("[") ? "a list: it takes one value"
                                                                : "a block that begins with " +
                                                                      Quoted(lexer.current())));
    lexer.SkipTokenOrBlock();
    return std::nullopt;
  }
  literal.negative = lexer.TryConsume("-");
  literal.type = lexer.current().type;
  if (literal.type == Tokenizer::TYPE_SYMBOL || literal.type == Tokenizer::TYPE_END) {
    report(literal.begin, expected() + Quoted(lexer.current()));
    if (!lexer.current().Closes()) lexer.Advance();
    return std::nullopt;
  }
  if (literal.type != Tokenizer::TYPE_STRING) {
    literal.text = lexer.current().text;
    lexer.Advance();
    return literal;
  }
  for (; lexer.current().type == Tokenizer::TYPE_STRING; lexer.Advance()) {
    Tokenizer::ParseStringAppend(lexer.current().text, &literal.text);
  }
  return literal;
}

struct IntegerRange {
  uint64_t below_zero;  // the smallest value, negated
  uint64_t highest;
};

IntegerRange RangeOf(FieldDescriptor::CppType type) {
  constexpr uint64_t kInt32 = std::numeric_limits<int32_t>::max();
  constexpr uint64_t kInt64 = std::numeric_limits<int64_t>::max();
  switch (type) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_ENUM:
      return {kInt32 + 1, kInt32};
    case FieldDescriptor::CPPTYPE_INT64:
      return {kInt64 + 1, kInt64};
    case FieldDescriptor::CPPTYPE_UINT32:
      return {0, std::numeric_limits<uint32_t>::max()};
    default:
      return {0, std::numeric_limits<uint64_t>::max()};
  }
}

// Parses an integer as 64-bit two's complement; nothing if malformed or out of range.
std::optional<uint64_t> ParseInteger(const Literal& literal, FieldDescriptor::CppType type) {
  if (literal.type != Tokenizer::TYPE_INTEGER) return std::nullopt;
  const IntegerRange range = RangeOf(type);
  uint64_t value = 0;
  const uint64_t limit = literal.negative ? range.below_zero : range.highest;
  if (!Tokenizer::ParseInteger(literal.text, limit, &value)) return std::nullopt;
  return literal.negative ? ~value + 1 : value;
}

std::optional<double> ParseReal(const Literal& literal) {
  double value = 0;
  if (literal.type == Tokenizer::TYPE_INTEGER) {
    // As in protobuf, only integer fields accept hexadecimal and octal.
    if (literal.text.size() > 1 && literal.text[0] == '0') return std::nullopt;
    std::from_chars(literal.text.data(), literal.text.data() + literal.text.size(), value);
  } else if (literal.type == Tokenizer::TYPE_FLOAT) {
    value = Tokenizer::ParseFloat(literal.text);
  } else if (literal.type == Tokenizer::TYPE_IDENTIFIER) {
    const std::string lower = ToLower(literal.text);
    if (lower == "nan") {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (lower == "inf" || lower == "infinity") {
      value = std::numeric_limits<double>::infinity();
    } else {
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  return literal.negative ? -value : value;
}

std::optional<bool> ParseBool(const Literal& literal) {
  if (literal.negative) return std::nullopt;
  if (literal.type == Tokenizer::TYPE_INTEGER) {
    uint64_t value = 0;
    if (!Tokenizer::ParseInteger(literal.text, 1, &value)) return std::nullopt;
    return value == 1;
  }
  if (literal.type != Tokenizer::TYPE_IDENTIFIER) return std::nullopt;
  if (literal.text == "true" || literal.text == "True" || literal.text == "t") return true;
  if (literal.text == "false" || literal.text == "False" || literal.text == "f") return false;
  return std::nullopt;
}

const EnumValueDescriptor* ParseEnum(const Literal& literal, const FieldDescriptor& field) {
  if (literal.type == Tokenizer::TYPE_IDENTIFIER && !literal.negative) {
    return field.enum_type()->FindValueByName(literal.text);
  }
  const auto number = ParseInteger(literal, FieldDescriptor::CPPTYPE_ENUM);
  if (!number) return nullptr;
  return field.enum_type()->FindValueByNumber(static_cast<int>(static_cast<int64_t>(*number)));
}

std::vector<std::string> EnumNames(const FieldDescriptor& field) {
  std::vector<std::string> names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    names.push_back(field.enum_type()->value(i)->name());
  }
  return names;
}

// Returns the value that a whole number stands for that is written as "20", 20.0 or 3e1; empty for
// anything else.
std::string MeantInteger(const Literal& literal, const FieldDescriptor& field) {
  double value = 0;
  const char* const end = literal.text.data() + literal.text.size();
  const auto [stop, error] = std::from_chars(literal.text.data(), end, value);
  constexpr double kMost = 1e15;
  if (stop != end || error != std::errc() || value != std::floor(value) || value > kMost) return "";
  Literal meant = literal;
  meant.type = Tokenizer::TYPE_INTEGER;
  meant.text = std::to_string(static_cast<int64_t>(value));
  if (!ParseInteger(meant, field.cpp_type())) return "";
  return Written(meant);
}

// Returns the value that was meant by one of another form, as it is to be written; empty if
// unknown.
std::string MeantValue(const Literal& literal, const FieldDescriptor& field) {
  const std::string lower = ToLower(literal.text);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string type = field.name() == "type" ? TypeNamedByV1(literal.text) : "";
      return StrCat("\"", type.empty() ? Written(literal) : type, "\"");
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      if (field.enum_type()->FindValueByName(literal.text) == nullptr) return "";
      return literal.text + ", without quotes";
    case FieldDescriptor::CPPTYPE_BOOL:
      if (lower == "true" || lower == "yes" || lower == "on") return "true";
      return lower == "false" || lower == "no" || lower == "off" ? "false" : "";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      const char* const end = literal.text.data() + literal.text.size();
      const auto [stop, error] = std::from_chars(literal.text.data(), end, value);
      return stop == end && error == std::errc() && !literal.text.empty() ? literal.text : "";
    }
    default:
      return MeantInteger(literal, field);
  }
}

// Names of other tools for values. A sentence begins with ';'.
constexpr struct {
  std::string_view field;
  std::string_view value;
  std::string_view hint;
} kForeignValues[] = {
    {"pool", "AVERAGE", " (did you mean 'AVE'?)"},
    {"pool", "AVG", " (did you mean 'AVE'?)"},
    {"pool", "MEAN", " (did you mean 'AVE'?)"},
    {"operation", "ADD", " (did you mean 'SUM'?)"},
    {"operation", "MUL", " (did you mean 'PROD'?)"},
    {"normalization", "MEAN", "; VALID is the mean over the labels that count"},
    {"solver_mode", "CUDA", " (did you mean 'GPU'?)"},
    {"phase", "VAL", " (did you mean 'TEST'?)"},
    {"pad", "SAME", "; half of an odd kernel_size keeps the size: pad: 2 for 5"},
    {"pad", "VALID", "; write 0"},
    {"batch_size", "AUTO", "; write AUTO in capital letters"},
};

std::string HintOfForeignValue(const Literal& literal, const FieldDescriptor& field) {
  for (const auto& row : kForeignValues) {
    if (row.field == field.name() && ToLower(row.value) == ToLower(literal.text)) {
      return std::string(row.hint);
    }
  }
  return "";
}

// Explains why the literal was rejected, and the remedy.
std::string Refusal(const Literal& literal, const FieldDescriptor& field) {
  const std::string meant = MeantValue(literal, field);
  const std::string foreign = HintOfForeignValue(literal, field);
  const std::string remedy = meant.empty() ? foreign : "; write " + meant;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const std::vector<std::string> names = EnumNames(field);
    return StrCat("'", field.name(), "' has no value ", Written(literal),
                  !remedy.empty() ? remedy : DidYouMean(literal.text, names),
                  meant.empty() ? "; allowed: " + Join(names, ", ") : "");
  }
  return StrCat("'", field.name(), "' expects ", ExpectedValue(field), ", got ", Written(literal),
                remedy);
}

template <typename T>
struct Accessors {
  void (Reflection::*set)(Message*, const FieldDescriptor*, T) const;
  void (Reflection::*add)(Message*, const FieldDescriptor*, T) const;
};

template <typename T>
void Store(Message* message, const FieldDescriptor& field, const Accessors<T>& accessors, T value) {
  const Reflection& reflection = *message->GetReflection();
  const auto method = field.is_repeated() ? accessors.add : accessors.set;
  (reflection.*method)(message, &field, std::move(value));
}

// `batch_size: AUTO` of a data layer.
bool IsAutoBatch(const Literal& literal, const FieldDescriptor& field) {
  return field.name() == "batch_size" && literal.type == Tokenizer::TYPE_IDENTIFIER &&
         literal.text == "AUTO" && !literal.negative &&
         field.containing_type()->name().ends_with("DataParameter");
}

bool StoreInteger(const Literal& literal, const FieldDescriptor& field, Message* message) {
  const auto value = ParseInteger(literal, field.cpp_type());
  if (!value) return false;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      Store<int32_t>(message, field, {&Reflection::SetInt32, &Reflection::AddInt32},
                     static_cast<int32_t>(static_cast<int64_t>(*value)));
      return true;
    case FieldDescriptor::CPPTYPE_INT64:
      Store<int64_t>(message, field, {&Reflection::SetInt64, &Reflection::AddInt64},
                     static_cast<int64_t>(*value));
      return true;
    case FieldDescriptor::CPPTYPE_UINT32:
      Store<uint32_t>(message, field, {&Reflection::SetUInt32, &Reflection::AddUInt32},
                      static_cast<uint32_t>(*value));
      return true;
    default:
      Store<uint64_t>(message, field, {&Reflection::SetUInt64, &Reflection::AddUInt64}, *value);
      return true;
  }
}

bool StoreReal(const Literal& literal, const FieldDescriptor& field, Message* message) {
  const auto value = ParseReal(literal);
  if (!value) return false;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    Store<double>(message, field, {&Reflection::SetDouble, &Reflection::AddDouble}, *value);
    return true;
  }
  // A double that rounds beyond the range of float becomes infinity, without undefined behaviour.
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr double kBeyond = 0x1.ffffffp127;
  const double size = std::abs(*value);
  double narrow = std::isnan(*value) ? *value : std::min(size, kMost);
  if (size >= kBeyond) narrow = std::numeric_limits<double>::infinity();
  narrow = std::copysign(narrow, *value);
  Store<float>(message, field, {&Reflection::SetFloat, &Reflection::AddFloat},
               static_cast<float>(narrow));
  return true;
}

bool StoreLiteral(Literal& literal, const FieldDescriptor& field, Message* message) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (literal.type != Tokenizer::TYPE_STRING || literal.negative) return false;
      Store<std::string>(message, field, {&Reflection::SetString, &Reflection::AddString},
                         std::move(literal.text));
      return true;
    case FieldDescriptor::CPPTYPE_BOOL: {
      const auto value = ParseBool(literal);
      if (!value) return false;
      Store<bool>(message, field, {&Reflection::SetBool, &Reflection::AddBool}, *value);
      return true;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value = ParseEnum(literal, field);
      if (value == nullptr) return false;
      Store<const EnumValueDescriptor*>(message, field,
                                        {&Reflection::SetEnum, &Reflection::AddEnum}, value);
      return true;
    }
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return StoreReal(literal, field, message);
    default:
      return StoreInteger(literal, field, message);
  }
}

}  // namespace

std::string ExpectedValue(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return "a string in quotes";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "one of " + Join(EnumNames(field), ", ");
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a block in braces";
    default: {
      const IntegerRange range = RangeOf(field.cpp_type());
      return StrCat("an integer from ", range.below_zero == 0 ? "" : "-", range.below_zero, " to ",
                    range.highest);
    }
  }
}

void ReadScalar(TextLexer& lexer, const FieldDescriptor& field, Message* message,
                const TextReporter& report) {
  std::optional<Literal> literal = ReadLiteral(lexer, field, report);
  if (!literal) return;
  if (IsAutoBatch(*literal, field)) {
    return message->GetReflection()->SetUInt32(message, &field, kAutoBatch);
  }
  if (!StoreLiteral(*literal, field, message)) report(literal->begin, Refusal(*literal, field));
}

}  // namespace crema
