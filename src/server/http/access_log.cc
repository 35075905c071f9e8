#include "server/http/access_log.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "core/json.h"
#include "core/strings.h"

namespace crema::server {
namespace {

constexpr size_t kMostPath = 256;

std::string Now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                parts.tm_sec, static_cast<int>(millis));
  return text.data();
}

// A path has no spaces, quotes or control characters; other heads are refused.
std::string_view Path(const HttpLogEntry& entry) {
  return entry.head == nullptr ? "-" : std::string_view(entry.head->path).substr(0, kMostPath);
}

std::string_view Method(const HttpLogEntry& entry) {
  return entry.head == nullptr ? "-" : std::string_view(entry.head->method).substr(0, 16);
}

int64_t Microseconds(const HttpLogEntry& entry) {
  return std::chrono::duration_cast<std::chrono::microseconds>(entry.duration).count();
}

}  // namespace

std::string AccessLineText(const HttpLogEntry& entry) {
  return StrCat(Now(), ' ', entry.peer, ' ', entry.id, ' ', Method(entry), ' ', Path(entry), ' ',
                entry.status, ' ', entry.request_bytes, ' ', entry.response_bytes, ' ',
                Microseconds(entry), "us\n");
}

std::string DroppedLinesText(int64_t lines) {
  return StrCat(Now(), " dropped ", lines, " lines: no reader took them\n");
}

std::string DroppedLinesJson(int64_t lines) {
  return StrCat(R"({"time":")", Now(), R"(","dropped_lines":)", lines, "}\n");
}

std::string AccessLineJson(const HttpLogEntry& entry) {
  return StrCat(R"({"time":")", Now(), R"(","peer":)", JsonString(entry.peer), R"(,"id":)",
                JsonString(entry.id), R"(,"method":)", JsonString(Method(entry)), R"(,"path":)",
                JsonString(Path(entry)), R"(,"status":)", entry.status, R"(,"request_bytes":)",
                entry.request_bytes, R"(,"response_bytes":)", entry.response_bytes,
                R"(,"microseconds":)", Microseconds(entry), "}\n");
}

}  // namespace crema::server
