// Tokenizes a prototxt, with one token of lookahead and positions as an editor shows them.
#pragma once

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "format/source_map.h"

namespace crema {

struct Token {
  google::protobuf::io::Tokenizer::TokenType type = google::protobuf::io::Tokenizer::TYPE_END;
  std::string text;
  Position begin;

  bool Is(std::string_view symbol) const {
    return type == google::protobuf::io::Tokenizer::TYPE_SYMBOL && text == symbol;
  }
  bool IsName() const { return type == google::protobuf::io::Tokenizer::TYPE_IDENTIFIER; }
  bool IsEnd() const { return type == google::protobuf::io::Tokenizer::TYPE_END; }
  bool Opens() const { return Is("{") || Is("<") || Is("["); }
  bool Closes() const { return Is("}") || Is(">") || Is("]"); }
};

using TextReporter = std::function<void(Position, std::string)>;

// Formats a token for an error message: "'abc'", "end of file".
std::string Quoted(const Token& token);

// Reports and skips characters that cannot be part of a token.
class TextLexer final : private google::protobuf::io::ErrorCollector {
 public:
  // `text` must outlive the lexer and be shorter than 2^31 bytes.
  TextLexer(std::string_view text, TextReporter report);

  const Token& current() const { return current_; }
  const Token& next() const { return next_; }
  void Advance();
  bool TryConsume(std::string_view symbol);
  // Skips the current token, or the whole block or list if it opens one. Not recursive.
  void SkipTokenOrBlock();

  bool HasLexicalErrorOn(int line) const { return error_line_ == line; }

 private:
  void AddError(int line, int column, const std::string& message) override;
  Token Read();
  bool SkipStrayByte();
  // Reports and skips a comment of C++ or C at the current raw token.
  bool SkipForeignComment();
  // Converts from the tokenizer's count (lines and columns from 0, tabs up to a multiple of 8).
  Position Convert(int line, int column);

  std::string_view text_;
  std::vector<size_t> line_starts_;
  TextReporter report_;
  int error_line_ = 0;
  size_t comment_end_ = 0;  // nothing before this offset is an error
  // State of Convert, which continues from the last token: a line may hold a million of them.
  struct Cursor {
    int line = -1;
    size_t offset = 0;
    int tokenizer_column = 0;
    int column = 0;
  } cursor_;
  google::protobuf::io::ArrayInputStream stream_;
  google::protobuf::io::Tokenizer tokenizer_;
  Token current_;
  Token next_;
};

// Scalar values: "20", "-0.5", "MAX", "'a' 'b'".
//
// Reads a value into the singular field, or appends it to the repeated one. Reports and skips a
// value that does not fit.
void ReadScalar(TextLexer& lexer, const google::protobuf::FieldDescriptor& field,
                google::protobuf::Message* message, const TextReporter& report);

// Describes the values of a field for messages: "an integer from 0 to 4294967295", "a string in
// quotes".
std::string ExpectedValue(const google::protobuf::FieldDescriptor& field);

}  // namespace crema
