// Scalar values of the text format: "20", "-0.5", "MAX", "'a' 'b'".
#pragma once

#include <google/protobuf/message.h>

#include "format/text_lexer.h"

namespace crema {

// Reads the value at the lexer into the singular field, or appends it to the repeated one. A value
// that does not fit is reported, stepped over, and not stored.
void ReadScalar(TextLexer& lexer, const google::protobuf::FieldDescriptor& field,
                google::protobuf::Message* message, const TextReporter& report);

// What such a field takes, for messages: "an integer from 0 to 4294967295", "a string in quotes".
std::string ExpectedValue(const google::protobuf::FieldDescriptor& field);

}  // namespace crema
