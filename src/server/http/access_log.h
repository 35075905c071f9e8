// Lines of the access log.
#pragma once

#include <string>
#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// With the line end; what clients sent is escaped and cut, tokens are not in it.
std::string AccessLineText(const HttpLogEntry& entry);
std::string AccessLineJson(const HttpLogEntry& entry);

}  // namespace crema::server
