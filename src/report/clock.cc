#include "report/clock.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace crema {

double UnixTime() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string UtcText(double unix_time) {
  const double whole = std::floor(unix_time);
  const auto seconds = static_cast<time_t>(whole);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof(text), "%s.%06dZ", date, static_cast<int>((unix_time - whole) * 1e6));
  return text;
}

}  // namespace crema
