// Parses scalar values of the text format: "20", "-0.5", "MAX", "'a' 'b'".
#pragma once

#include <google/protobuf/message.h>

#include "format/text_lexer.h"

namespace crema {

// Reads a value into the singular field, or appends it to the repeated one. Reports and skips a
// value that does not fit.
void ReadScalar(TextLexer& lexer, const google::protobuf::FieldDescriptor& field,
                google::protobuf::Message* message, const TextReporter& report);

// Describes the values of a field for messages: "an integer from 0 to 4294967295", "a string in
// quotes".
std::string ExpectedValue(const google::protobuf::FieldDescriptor& field);

}  // namespace crema
