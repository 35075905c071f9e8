#include "format/text_parser.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/strings.h"
#include "format/fork_layers.h"
#include "format/fork_rewrites.h"
#include "format/text_lexer.h"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::io::Tokenizer;

constexpr size_t kMaxDepth = 100;
// Positions of further elements of a list are not worth their memory.
constexpr int kMaxRecordedElements = 1024;

bool IsLayer(const Descriptor& type) {
  return type.full_name() == "crema.LayerParameter" || type.full_name() == "crema.V1LayerParameter";
}

std::string StringOf(const Message& message, const char* field_name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(field_name);
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return "";
  return message.GetReflection()->GetString(message, field);
}

// Returns the name of a layer; the first format nests it one level deeper.
std::string NameOf(const Message& layer) {
  const std::string name = StringOf(layer, "name");
  const FieldDescriptor* nested = layer.GetDescriptor()->FindFieldByName("layer");
  if (!name.empty() || nested == nullptr) return name;
  return StringOf(layer.GetReflection()->GetMessage(layer, nested), "name");
}

constexpr const char* kUnknownField = "unknown field '";

// Fields of fork layer types that are easily mistaken for Caffe's.
struct ForkField {
  const char* field;
  const char* layer_type;
  const char* meant;
};
constexpr ForkField kForkFields[] = {{"bn_param", "BN", "batch_norm_param"}};

Problem MakeProblem(const std::string& file, Position at, std::string message) {
  Problem problem;
  problem.code = ErrorCode::kInvalidArgument;
  problem.where.file = file;
  problem.where.line = at.line;
  problem.where.column = at.column;
  problem.message = std::move(message);
  return problem;
}

std::string At(Position position) { return StrCat(position.line, ":", position.column); }

}  // namespace

TextParser::TextParser(std::string_view text, const std::string& file, SourceMap* source)
    : file_(file),
      source_(source),
      reporter_([this](Position at, std::string what) { Report(at, std::move(what)); }),
      lexer_(text,
             // Not muted: the lexer's error comes first on its line.
             [this](Position at, std::string what) {
               problems_.push_back(MakeProblem(file_, at, std::move(what)));
             }) {}

void TextParser::Parse(Message* message) {
  scopes_.push_back({message, "the file", {1, 1}, {1, 1}, ""});
  ReadFields();
  CheckRequired(scopes_.back());
  if (IsLayer(*message->GetDescriptor())) {
    CheckForkFields(*message);
    ExplainForkLayer(*message, 0, lexer_.current().begin);
    NameLayer(*message, 0, lexer_.current().begin);
  }
  scopes_.pop_back();
}

void TextParser::Report(Position position, std::string message) {
  // A broken character or quote makes the rest of its line look broken, too.
  if (lexer_.HasLexicalErrorOn(position.line)) return;
  Problem problem = MakeProblem(file_, position, std::move(message));
  if (path_.size() > layer_path_size_) {
    problem.where.field = path_.substr(layer_path_size_ == 0 ? 0 : layer_path_size_ + 1);
    if (problem.where.field.ends_with(']')) {
      problem.where.field.resize(problem.where.field.rfind('['));
    }
  }
  problems_.push_back(std::move(problem));
}

void TextParser::Record(Position position) {
  if (source_ != nullptr) source_->Add(path_, position);
}

bool TextParser::AtEndOfScope() {
  const Scope& scope = scopes_.back();
  const Token& token = lexer_.current();
  if (closed_early_) {
    closed_early_ = false;
    return true;
  }
  if (token.IsEnd()) {
    if (!scope.close.empty()) {
      Report(token.begin,
             StrCat("the file ends, but '", scope.name, "' is not closed: a '", scope.close,
                    "' is missing for the one opened at ", At(scope.open)));
    }
    return true;
  }
  if (!token.Closes() || token.Is("]")) return false;
  if (scope.close.empty()) {
    Report(token.begin, StrCat("unexpected ", Quoted(token), ": nothing is open here; remove it"));
    lexer_.Advance();
    return false;
  }
  if (!token.Is(scope.close)) {
    Report(token.begin, StrCat("expected '", scope.close, "' to close what is opened at ",
                               At(scope.open), ", got ", Quoted(token)));
  }
  return true;
}

void TextParser::ReadFields() {
  while (!AtEndOfScope()) {
    if (lexer_.TryConsume(",") || lexer_.TryConsume(";")) continue;
    ReadField();
  }
}

void TextParser::ReadField() {
  const Token name = lexer_.current();
  if (name.Is("[")) {
    Report(name.begin, "extension fields in brackets are not known here; remove this one");
    lexer_.SkipTokenOrBlock();
    SkipValue();
    return;
  }
  if (name.type == Tokenizer::TYPE_STRING && lexer_.next().Is(":")) {
    Report(name.begin, StrCat("names of fields have no quotes, got ", Quoted(name)));
    lexer_.Advance();
    SkipValue();
    return;
  }
  if (!name.IsName()) {
    Report(name.begin, StrCat("expected the name of a field, got ", Quoted(name)));
    lexer_.SkipTokenOrBlock();
    return;
  }
  const FieldDescriptor* field = type().FindFieldByName(name.text);
  if (field == nullptr && LooksLikeForgottenBrace(name)) {
    Report(name.begin, StrCat("'", scopes_.back().name, "' is not closed before this '", name.text,
                              "': a '", scopes_.back().close, "' is missing for the one opened at ",
                              At(scopes_.back().open)));
    closed_early_ = true;
    return;
  }
  lexer_.Advance();
  if (field == nullptr) {
    SkipUnknownField(name);
  } else {
    ReadKnownField(*field, name);
  }
}

// A top-level field that opens a block inside of another block: "layer {".
bool TextParser::LooksLikeForgottenBrace(const Token& name) const {
  if (scopes_.size() < 2) return false;
  const Token& next = lexer_.next();
  if (!next.Is("{") && !next.Is("<") && !next.Is(":")) return false;
  const FieldDescriptor* outermost =
      scopes_.front().message->GetDescriptor()->FindFieldByName(name.text);
  return outermost != nullptr && outermost->is_repeated() &&
         outermost->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

void TextParser::SkipUnknownField(const Token& name) {
  std::vector<const Descriptor*> outer;
  for (size_t i = 0; i + 1 < scopes_.size(); ++i) {
    outer.push_back(scopes_[i].message->GetDescriptor());
  }
  const size_t kept = path_.size();
  path_ += StrCat(kept == 0 ? "" : ".", name.text);
  Report(name.begin,
         StrCat(kUnknownField, name.text, "'", UnknownFieldHint(name.text, type(), outer)));
  path_.resize(kept);
  SkipValue();
}

// Skips the value of an unknown field, judging by its tokens.
void TextParser::SkipValue() {
  const bool colon = lexer_.TryConsume(":") || lexer_.TryConsume("=");
  if (lexer_.current().Opens()) {
    lexer_.SkipTokenOrBlock();
    return;
  }
  if (!colon) return;
  const Token& token = lexer_.current();
  const bool next_field = token.IsName() && (lexer_.next().Is(":") || lexer_.next().Is("{"));
  if (token.IsEnd() || token.Closes() || next_field) return;
  lexer_.TryConsume("-");
  while (lexer_.current().type == Tokenizer::TYPE_STRING &&
         lexer_.next().type == Tokenizer::TYPE_STRING) {
    lexer_.Advance();
  }
  if (!lexer_.current().Closes()) lexer_.Advance();
}

void TextParser::ReadKnownField(const Field& field, const Token& name) {
  const size_t kept = path_.size();
  path_ += StrCat(kept == 0 ? "" : ".", field.name());
  Message* target = scopes_.back().message;
  std::unique_ptr<Message> discarded;
  if (!field.is_repeated()) {
    if (discarding_ == 0 && first_.Has(path_)) {
      Report(name.begin, StrCat("'", field.name(), "' is given twice, first at ",
                                At({first_.Locate(path_).line, first_.Locate(path_).column}),
                                "; keep one of them"));
      discarded.reset(target->New());
      target = discarded.get();
    }
    first_.Add(path_, name.begin);
    Record(name.begin);
  }
  if (discarded) ++discarding_;
  ReadValue(field, target, name);
  if (discarded) --discarding_;
  path_.resize(kept);
}

void TextParser::ReadValue(const Field& field, Message* target, const Token& name) {
  const bool is_block = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  const bool colon = lexer_.TryConsume(":") || TryConsumeEquals(is_block, name);
  if (!colon && !is_block && !lexer_.current().Opens()) {
    const auto type_of_next = lexer_.current().type;
    Report(lexer_.current().begin,
           StrCat("expected ':' after '", name.text, "', got ", Quoted(lexer_.current())));
    // Only the colon is missing: continue with the value.
    const bool has_value =
        type_of_next != Tokenizer::TYPE_SYMBOL && type_of_next != Tokenizer::TYPE_END;
    if (has_value && !(lexer_.next().Is(":") || lexer_.next().Is("{"))) lexer_.Advance();
    return;
  }
  if (lexer_.current().Is("[") && field.is_repeated()) {
    ReadList(field, target, name);
  } else if (is_block) {
    ReadBlock(field, target, name, name.begin);
  } else {
    const size_t kept = path_.size();
    if (field.is_repeated()) {
      const int index = target->GetReflection()->FieldSize(*target, &field);
      path_ += StrCat("[", index, "]");
      if (index < kMaxRecordedElements) Record(name.begin);
    }
    const Token value = lexer_.current();
    ReadScalar(lexer_, field, target, reporter_);
    CheckAfterNumber(field, value);
    path_.resize(kept);
  }
}

// Reports and consumes a '=' where a ':' belongs.
bool TextParser::TryConsumeEquals(bool is_block, const Token& name) {
  if (!lexer_.current().Is("=")) return false;
  const Token value = lexer_.next();
  const bool is_value = value.type != Tokenizer::TYPE_SYMBOL && !value.IsEnd();
  std::string remedy = is_value ? name.text + ": " + value.text : name.text + ": VALUE";
  if (is_block) remedy = name.text + " { ... }";
  Report(lexer_.current().begin,
         StrCat("expected ':' after '", name.text, "', got '='; write ", remedy));
  lexer_.Advance();
  return true;
}

// Reports and consumes what is taken for a part of a number: "0,01", "1/256", "10%".
void TextParser::CheckAfterNumber(const Field& field, const Token& value) {
  const auto is_number = [](const Token& token) {
    return token.type == Tokenizer::TYPE_INTEGER || token.type == Tokenizer::TYPE_FLOAT;
  };
  if (!is_number(value)) return;
  const Token& after = lexer_.current();
  const Token& next = lexer_.next();
  const bool real = field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT ||
                    field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  if (after.Is("%")) {
    Report(value.begin, StrCat("a value is a plain number, without '%': ", value.text, " % is ",
                               Tokenizer::ParseFloat(value.text) / 100));
    lexer_.Advance();
    return;
  }
  if (after.Is("*") || after.Is("^")) {
    RefuseExpression(value);
    return;
  }
  if (!is_number(next) || !(after.Is(",") || after.Is("/"))) return;
  const std::string written = StrCat(value.text, after.text, next.text);
  if (after.Is("/")) {
    Report(value.begin,
           StrCat("a value is one number, got ", written, "; write ",
                  Tokenizer::ParseFloat(value.text) / Tokenizer::ParseFloat(next.text)));
  } else if (field.is_repeated()) {
    Report(value.begin, StrCat("several values are a list in brackets: write ", field.name(), ": [",
                               value.text, ", ", next.text, "]"));
  } else if (real) {
    Report(value.begin,
           StrCat("decimals take a point, not a comma: write ", value.text, ".", next.text));
  } else {
    Report(value.begin, StrCat("'", field.name(), "' expects ", ExpectedValue(field), ", got ",
                               written, "; write it without a comma"));
  }
  while ((lexer_.current().Is(",") || lexer_.current().Is("/")) && is_number(lexer_.next())) {
    lexer_.Advance();
    lexer_.Advance();
  }
}

// Reports and consumes what follows the first number of "10*3" and "10^-3".
void TextParser::RefuseExpression(const Token& value) {
  const Token sign = lexer_.current();
  lexer_.Advance();
  const bool negative = lexer_.TryConsume("-");
  const Token second = lexer_.current();
  const double a = Tokenizer::ParseFloat(value.text);
  double b = 0;
  if (second.type == Tokenizer::TYPE_INTEGER || second.type == Tokenizer::TYPE_FLOAT) {
    b = Tokenizer::ParseFloat(second.text) * (negative ? -1 : 1);
    lexer_.Advance();
  }
  Report(value.begin,
         StrCat("a value is one number, got ", value.text, sign.text, negative ? "-" : "",
                second.text, "; write ", sign.Is("*") ? a * b : std::pow(a, b)));
}

void TextParser::ReadList(const Field& field, Message* target, const Token& name) {
  const Position open = lexer_.current().begin;
  lexer_.Advance();
  while (!lexer_.TryConsume("]")) {
    const Position at = lexer_.current().begin;
    if (lexer_.current().IsEnd() || lexer_.current().Closes()) {
      Report(at, StrCat("the list of '", name.text, "' is not closed: a ']' is missing for the '['",
                        " at ", At(open)));
      return;
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ReadBlock(field, target, name, at);
    } else {
      const size_t kept = path_.size();
      const int index = target->GetReflection()->FieldSize(*target, &field);
      path_ += StrCat("[", index, "]");
      if (index < kMaxRecordedElements) Record(at);
      ReadScalar(lexer_, field, target, reporter_);
      path_.resize(kept);
    }
    if (lexer_.current().Is("]") || lexer_.TryConsume(",")) continue;
    if (lexer_.current().IsEnd() || lexer_.current().Closes()) continue;
    Report(lexer_.current().begin, StrCat("expected ',' or ']' in the list of '", name.text,
                                          "', got ", Quoted(lexer_.current())));
    if (lexer_.current().IsName() && lexer_.next().Is(":")) return;
    lexer_.SkipTokenOrBlock();
  }
}

void TextParser::ReadBlock(const Field& field, Message* target, const Token& name, Position at) {
  const Token open = lexer_.current();
  const bool opens = open.Is("{") || open.Is("<");
  if (!opens) {
    Report(open.begin, StrCat("'", name.text, "' expects a block in braces: write ", name.text,
                              " { ... }; got ", Quoted(open)));
    const bool is_value = open.type != Tokenizer::TYPE_SYMBOL && !open.IsEnd();
    const bool is_field = open.IsName() && (lexer_.next().Is(":") || lexer_.next().Is("{"));
    if (open.Is("[") || (is_value && !is_field)) lexer_.SkipTokenOrBlock();
    // Only the brace is missing: continue with the fields.
    if (!is_field || field.message_type()->FindFieldByName(open.text) == nullptr) return;
  }
  if (scopes_.size() > kMaxDepth) {
    Report(open.begin, StrCat("blocks are nested deeper than ", kMaxDepth, " levels"));
    lexer_.SkipTokenOrBlock();
    return;
  }
  const size_t kept = path_.size();
  const google::protobuf::Reflection& reflection = *target->GetReflection();
  if (field.is_repeated()) {
    const int index = reflection.FieldSize(*target, &field);
    path_ += StrCat("[", index, "]");
    Record(at);
  }
  Message* block = field.is_repeated() ? reflection.AddMessage(target, &field)
                                       : reflection.MutableMessage(target, &field);
  const bool is_layer = IsLayer(*block->GetDescriptor());
  const size_t first_problem = problems_.size();
  const size_t outer_layer =
      std::exchange(layer_path_size_, is_layer ? path_.size() : layer_path_size_);
  scopes_.push_back({block, name.text, at, open.begin, open.Is("<") ? ">" : "}"});
  if (opens) lexer_.Advance();
  ReadFields();
  CheckRequired(scopes_.back());
  const Position end = lexer_.current().begin;
  if (is_layer) {
    CheckForkFields(*block);
    ExplainForkLayer(*block, first_problem, end);
    NameLayer(*block, first_problem, end);
  }
  if (lexer_.current().Is(scopes_.back().close) || lexer_.current().Closes()) lexer_.Advance();
  scopes_.pop_back();
  layer_path_size_ = outer_layer;
  path_.resize(kept);
}

void TextParser::CheckRequired(const Scope& scope) {
  const Descriptor& described = *scope.message->GetDescriptor();
  for (int i = 0; i < described.field_count(); ++i) {
    const FieldDescriptor& field = *described.field(i);
    // A value that was rejected has been reported already.
    const std::string path = StrCat(path_, path_.empty() ? "" : ".", field.name());
    if (!field.is_required() || first_.Has(path)) continue;
    Report(scope.name_position, StrCat("'", field.name(), "' is missing in '", scope.name,
                                       "'; it takes ", ExpectedValue(field)));
  }
}

void TextParser::CheckForkFields(const Message& layer) {
  for (const ForkField& fork : kForkFields) {
    const FieldDescriptor* field = layer.GetDescriptor()->FindFieldByName(fork.field);
    const std::string path = StrCat(path_, path_.empty() ? "" : ".", fork.field);
    if (field == nullptr || !first_.Has(path)) continue;
    const std::string type = StringOf(layer, "type");
    if (type == fork.layer_type || type == "SyncBN") continue;
    const Where where = first_.Locate(path);
    Report({where.line, where.column},
           StrCat(kUnknownField, fork.field, "' (did you mean '", fork.meant, "'?)"));
    // Nothing was added if there are too many problems, or one for this line.
    if (!problems_.empty() && problems_.back().where.line == where.line) {
      problems_.back().where.field = fork.field;
    }
  }
}

// The layers of forks bring fields of their own: one error says what to do about the layer.
void TextParser::ExplainForkLayer(const Message& layer, size_t first_problem, Position end) {
  const std::string type = StringOf(layer, "type");
  const std::string message = ForkLayerMessage(type);
  if (message.empty() || HasForkRewrite(type)) return;  // whose fields are known
  const auto unknown = [&](const Problem& problem) {
    return problem.where.field.find('.') == std::string::npos &&
           problem.message.starts_with(kUnknownField) &&
           Position{problem.where.line, problem.where.column} <= end;
  };
  const auto begin = problems_.begin() + static_cast<std::ptrdiff_t>(first_problem);
  const auto first = std::find_if(begin, problems_.end(), unknown);
  if (first == problems_.end()) return;
  first->message = message;
  problems_.erase(std::remove_if(first + 1, problems_.end(), unknown), problems_.end());
}

// Sets the layer name of problems afterwards, since the name may follow the broken field.
void TextParser::NameLayer(const Message& layer, size_t first_problem, Position end) {
  const std::string name = NameOf(layer);
  for (size_t i = first_problem; i < problems_.size(); ++i) {
    Where& where = problems_[i].where;
    // The lexer is one token ahead and may have reported a problem of the next layer.
    if (where.layer.empty() && Position{where.line, where.column} <= end) where.layer = name;
  }
}

}  // namespace crema
