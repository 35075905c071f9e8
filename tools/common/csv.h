// Tables as comma-separated values (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

// A line with its line feed; a field is quoted where it must be.
std::string CsvLine(const std::vector<std::string>& fields);

// A number with six digits; empty for what is no number.
std::string CsvNumber(double value);

// The fields, line by line; empty lines are left out. A quote that is never closed ends with the
// text.
std::vector<std::vector<std::string>> ParseCsv(std::string_view text);

}  // namespace crema::tools
