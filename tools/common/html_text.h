// Escapes text and data, so that nothing becomes markup or script.
#pragma once

#include <string>
#include <string_view>

namespace crema::tools {

// For element content and quoted attributes.
std::string HtmlText(std::string_view text);

// JSON for the content of a <script> element, whose end tag cannot occur in it.
std::string ScriptJson(std::string_view json);

std::string Base64(std::string_view bytes);
// Returns "data:image/png;base64,...".
std::string PngUri(std::string_view png);

// Formats with four significant digits and separated thousands; a dash for NaN and infinity.
std::string NumberForPeople(double value);
// Formats a share as "98.30 %", with a no-break space; a dash for NaN and infinity.
std::string PercentForPeople(double share, int decimals);
// Formats seconds since 1970 as "2026-01-31 08:09 UTC".
std::string MinuteForPeople(double unix_time);
// Formats as "1 h 02 min", "3 min 20 s" or "4.1 s".
std::string DurationForPeople(double seconds);

}  // namespace crema::tools
