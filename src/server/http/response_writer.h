// Formats the head of a response.
#pragma once

#include <string>

#include "server/http/message.h"

namespace crema::server {

// Adds Content-Length, Content-Type, X-Request-Id and headers that disable content sniffing in
// browsers. Requires: an id and fields without control characters.
std::string WriteHead(const HttpResponse& response, const std::string& id, bool keep_alive);

}  // namespace crema::server
