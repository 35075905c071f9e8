// The little JSON that is printed: lines of logs and metrics, summaries.
#pragma once

#include <string>
#include <string_view>

namespace crema {

std::string JsonString(std::string_view text);  // quoted and escaped
std::string JsonNumber(double value);           // "null" for what JSON cannot say

}  // namespace crema
