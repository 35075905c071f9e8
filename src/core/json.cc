#include "core/json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/printable.h"

namespace crema {

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const size_t length = Utf8Length(text);
    if (length != 1) {
      out += length == 0 ? "\\ufffd" : std::string(text.substr(0, length));
      text.remove_prefix(length == 0 ? 1 : length);
      continue;
    }
    text.remove_prefix(1);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  // Prints the fewest digits that read back as the same float, if the value is one.
  constexpr int kMostDigits = 9;
  char text[32];
  for (int digits = 6; digits <= kMostDigits; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    if (static_cast<double>(std::strtof(text, nullptr)) == value) break;
  }
  return text;
}

}  // namespace crema
