// Formats and parses comma-separated values (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

// Returns a line with its line feed; quotes fields if necessary.
std::string CsvLine(const std::vector<std::string>& fields);

// Formats with six digits; empty for NaN and infinity.
std::string CsvNumber(double value);

// Returns the fields by line; ignores empty lines. An unclosed quote ends at the end of the text.
std::vector<std::vector<std::string>> ParseCsv(std::string_view text);

}  // namespace crema::tools
