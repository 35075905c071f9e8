// Wall-clock time.
#pragma once

#include <string>

namespace crema {

// Returns the seconds since 1970. Not monotonic.
double UnixTime();

// Formats as "2026-01-31T08:09:15.123456Z".
std::string UtcText(double unix_time);

}  // namespace crema
