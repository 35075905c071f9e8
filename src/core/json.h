// Formats JSON strings and numbers, for logs, metrics and summaries.
#pragma once

#include <string>
#include <string_view>

namespace crema {

std::string JsonString(std::string_view text);  // quoted and escaped
std::string JsonNumber(double value);           // "null" for NaN and infinity

}  // namespace crema
