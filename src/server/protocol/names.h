// Words that clients choose: names of models, versions, identifiers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crema::server {

// [A-Za-z0-9_.-]{1,128}, and neither "." nor "..".
bool IsModelName(std::string_view name);

// A version is 1..2^63-1 in decimal, without leading zeros; else 0.
int64_t ParseVersion(std::string_view text);

// What may be passed through into logs and headers: [A-Za-z0-9_.:-]{1,128}.
bool IsRequestId(std::string_view text);

// 32 hexadecimal digits that nobody had before. Thread safety: any number of threads.
std::string MakeRequestId();

}  // namespace crema::server
