// Recognizes texts that are no prototxt at all, so that one message says so.
#pragma once

#include <string>
#include <string_view>

namespace crema {

struct ForeignText {
  std::string message;  // "is a Python program, not <expected>"; empty if nothing is recognized
  int line = 0;         // from 1; 0 for the whole file
};

// Recognizes JSON, YAML, Python programs, answers of web servers and marks of merge conflicts.
// `text` must have problems as a prototxt; `expected` has its article, as "a net".
ForeignText FindForeignText(std::string_view text, std::string_view expected);

}  // namespace crema
