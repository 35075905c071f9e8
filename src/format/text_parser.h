// Parses protobuf's text format and reports all problems of a file in one pass.
#pragma once

#include <google/protobuf/message.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "format/source_map.h"
#include "format/text_lexer.h"

namespace crema {

// Recursive descent guided by the message's descriptor. Continues after a problem with the next
// value. One object parses one text. Thread safety: one thread.
class TextParser {
 public:
  // `source` may be null. `text` must outlive the parser.
  TextParser(std::string_view text, const std::string& file, SourceMap* source);

  void Parse(google::protobuf::Message* message);

  std::vector<Problem>& problems() { return problems_; }

 private:
  using Message = google::protobuf::Message;
  using Field = google::protobuf::FieldDescriptor;
  using Type = google::protobuf::Descriptor;

  // One message being read. `close` is its closing symbol, empty for the file itself.
  struct Scope {
    Message* message;
    std::string name;
    Position name_position;
    Position open;
    std::string close;
  };

  void ReadFields();
  void ReadField();
  void ReadKnownField(const Field& field, const Token& name);
  void ReadValue(const Field& field, Message* target, const Token& name);
  void ReadList(const Field& field, Message* target, const Token& name);
  void ReadBlock(const Field& field, Message* target, const Token& name, Position at);
  bool TryConsumeEquals(bool is_block, const Token& name);
  void CheckAfterNumber(const Field& field, const Token& value);
  void RefuseExpression(const Token& value);
  void SkipUnknownField(const Token& name);
  void SkipValue();
  bool LooksLikeForgottenBrace(const Token& name) const;
  bool AtEndOfScope();
  void CheckRequired(const Scope& scope);
  void CheckForkFields(const Message& layer);
  void ExplainForkLayer(const Message& layer, size_t first_problem, Position end);
  void NameLayer(const Message& layer, size_t first_problem, Position end);

  void Report(Position position, std::string message);
  void Record(Position position);
  const Type& type() const { return *scopes_.back().message->GetDescriptor(); }

  std::string file_;
  SourceMap* source_;
  std::vector<Problem> problems_;
  std::vector<Scope> scopes_;
  // Positions of first occurrences, for "given twice"; keyed by path.
  SourceMap first_;
  std::string path_;
  size_t layer_path_size_ = 0;  // length of path_ up to the enclosing layer
  int discarding_ = 0;          // nesting depth of duplicate blocks
  bool closed_early_ = false;   // the innermost scope ends without its brace
  TextReporter reporter_;
  TextLexer lexer_;
};

// Returns " (did you mean 'x'?)", or the block that has the field, or nothing. `outer` are the
// enclosing types.
std::string UnknownFieldHint(std::string_view name, const google::protobuf::Descriptor& type,
                             std::span<const google::protobuf::Descriptor* const> outer);

}  // namespace crema
