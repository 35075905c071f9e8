// Validates strings that clients choose: model names, versions, identifiers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crema::server {

// Accepts [A-Za-z0-9_.-]{1,128}, except "." and "..".
bool IsModelName(std::string_view name);

// Parses 1..2^63-1 in decimal, without leading zeros; returns 0 otherwise.
int64_t ParseVersion(std::string_view text);

// Accepts strings that are safe in logs and headers: [A-Za-z0-9_.:-]{1,128}.
bool IsRequestId(std::string_view text);

// Returns 32 unique hexadecimal digits. Thread safety: any number of threads.
std::string MakeRequestId();

}  // namespace crema::server
