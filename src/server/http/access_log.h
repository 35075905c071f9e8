// Lines of the access log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// With the line end; what clients sent is escaped and cut, tokens are not in it.
std::string AccessLineText(const HttpLogEntry& entry);
std::string AccessLineJson(const HttpLogEntry& entry);

// The line that stands for `lines` of them that were dropped, since nobody read them.
std::string DroppedLinesText(int64_t lines);
std::string DroppedLinesJson(int64_t lines);

}  // namespace crema::server
