// The little JSON that commands print.
#pragma once

#include <string>
#include <string_view>

namespace crema::tools {

std::string JsonString(std::string_view text);  // quoted and escaped
std::string JsonNumber(double value);           // "null" for what JSON cannot say

}  // namespace crema::tools
