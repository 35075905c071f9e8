// Text that comes from files, for messages and terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crema {

// Returns the length of the UTF-8 sequence at the start of `text`; 0 if it is invalid: overlong, a
// surrogate, or beyond U+10FFFF (table 3-7 of the Unicode standard). Requires: not empty.
size_t Utf8Length(std::string_view text);

// Returns the text on one line that no terminal interprets: control characters and invalid UTF-8
// become \x0a. Of a text above `most` bytes the middle is replaced by "...".
std::string Printable(std::string_view text, size_t most = std::string_view::npos);

}  // namespace crema
