// Text and data inside a page, such that nothing of it can become markup or script.
#pragma once

#include <string>
#include <string_view>

namespace crema::tools {

// For element content and quoted attributes.
std::string HtmlText(std::string_view text);

// JSON for the content of a <script> element: its end cannot appear within.
std::string ScriptJson(std::string_view json);

std::string Base64(std::string_view bytes);
// "data:image/png;base64,...".
std::string PngUri(std::string_view png);

// A number for people: four significant digits, thousands apart; a dash for what is no number.
std::string NumberForPeople(double value);
// "1 h 02 min", "3 min 20 s", "4.1 s".
std::string DurationForPeople(double seconds);

}  // namespace crema::tools
