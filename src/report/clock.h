// Time of day.
#pragma once

#include <string>

namespace crema {

// Seconds since 1970. Goes back where the clock is set back.
double UnixTime();

// "2026-01-31T08:09:15.123456Z".
std::string UtcText(double unix_time);

}  // namespace crema
