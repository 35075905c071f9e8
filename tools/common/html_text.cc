#include "common/html_text.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "core/strings.h"
#include "report/clock.h"

namespace crema::tools {

std::string HtmlText(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string ScriptJson(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63];
    }
  }
  return text;
}

std::string PngUri(std::string_view png) { return "data:image/png;base64," + Base64(png); }

std::string NumberForPeople(double value) {
  if (!std::isfinite(value)) return "–";
  char text[40];
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  std::snprintf(text, sizeof(text), whole ? "%.0f" : "%.4g", value);
  std::string number = text;
  if (!whole) return number;
  const auto digits = static_cast<int64_t>(number.size()) - (value < 0 ? 1 : 0);
  for (int64_t from_end = 3; from_end < digits && digits > 4; from_end += 3) {
    // Inserts a narrow no-break space, from the end, so that offsets stay valid.
    number.insert(number.size() - static_cast<size_t>(from_end + (from_end / 3 - 1) * 3), "\u202f");
  }
  return number;
}

std::string PercentForPeople(double share, int decimals) {
  if (!std::isfinite(share)) return "–";
  char text[40];
  std::snprintf(text, sizeof(text), "%.*f\u00a0%%", decimals, share * 100);
  return text;
}

std::string MinuteForPeople(double unix_time) {
  std::string text = UtcText(unix_time).substr(0, 16);  // up to the minute
  text[10] = ' ';
  return text + " UTC";
}

std::string DurationForPeople(double seconds) {
  if (!std::isfinite(seconds)) return "–";
  char text[40];
  const auto whole = static_cast<long>(std::lround(seconds));
  if (seconds < 60) {
    std::snprintf(text, sizeof(text), "%.1f s", seconds);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof(text), "%ld min %02ld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof(text), "%ld h %02ld min", whole / 3600, whole / 60 % 60);
  }
  return text;
}

}  // namespace crema::tools
