// Formats lines of the access log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// Ends with a newline. Escapes and truncates client data; contains no tokens.
std::string AccessLineText(const HttpLogEntry& entry);
std::string AccessLineJson(const HttpLogEntry& entry);

// The line that replaces `lines` dropped ones, after the log was not drained.
std::string DroppedLinesText(int64_t lines);
std::string DroppedLinesJson(int64_t lines);

}  // namespace crema::server
