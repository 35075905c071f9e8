#include "core/json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace crema {

namespace {

// Returns the length of the UTF-8 sequence at the start of `text`; 0 if it is invalid: overlong, a
// surrogate, or beyond U+10FFFF (table 3-7 of the Unicode standard).
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length > text.size()) return 0;
  const unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

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
