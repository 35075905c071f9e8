#include "common/terminal_line.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "core/strings.h"

namespace crema::tools {
namespace {

constexpr const char* kClearRest = "\033[K";

}  // namespace

std::string DurationText(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e8));
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof(text), "%ldh%02ldm", whole / 3600, whole / 60 % 60);
  } else {
    std::snprintf(text, sizeof(text), "%ldm%02lds", whole / 60, whole % 60);
  }
  return text;
}

std::string FitParts(std::span<const std::string> parts, size_t columns) {
  if (parts.empty()) return "";
  std::string line = parts[0].substr(0, columns);
  for (const std::string& part : parts.subspan(1)) {
    if (line.size() + 2 + part.size() > columns) break;
    line += "  " + part;
  }
  return line;
}

// Leaves room for the "^C" that a terminal echoes, and for the cursor.
size_t TerminalLine::Columns() const {
  constexpr size_t kUnknown = 80;
  constexpr size_t kRoom = 3;
  winsize size{};
  const bool known = ioctl(terminal_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const size_t columns = known ? size.ws_col : kUnknown;
  return columns > kRoom ? columns - kRoom : 1;
}

void TerminalLine::Draw(std::span<const std::string> parts) {
  const std::lock_guard lock(mutex_);
  shown_ = FitParts(parts, Columns());
  writer_.WriteThrough(StrCat("\r", shown_, kClearRest));
}

void TerminalLine::Print(const std::string& text) {
  const std::lock_guard lock(mutex_);
  shown_ = shown_.substr(0, Columns());
  writer_.WriteThrough(shown_.empty() ? text + "\n" : StrCat("\r", text, kClearRest, "\n", shown_));
}

void TerminalLine::Clear() {
  const std::lock_guard lock(mutex_);
  if (!shown_.empty()) writer_.WriteThrough(StrCat("\r", kClearRest));
  shown_.clear();
}

}  // namespace crema::tools
